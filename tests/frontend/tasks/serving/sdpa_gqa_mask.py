import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True, scale=0.3)


def get_inputs():
    return [
        torch.randn(2, 4, 5, 8),
        torch.randn(2, 2, 9, 8),
        torch.randn(2, 2, 9, 8),
        torch.ones(5, 9, dtype=torch.bool).tril(4),
    ]


def get_init_inputs():
    return []
