import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, Q, K, V):
        return F.scaled_dot_product_attention(Q, K, V, is_causal=True)


def get_inputs():
    Q = torch.rand(2, 3, 18, 16, dtype=torch.float16)
    K = torch.rand(2, 3, 18, 16, dtype=torch.float16)
    V = torch.rand(2, 3, 18, 16, dtype=torch.float16)
    return [Q, K, V]


def get_init_inputs():
    return []
