import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, q, k, v, g, beta, state):
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        state = state * g.exp()[..., None, None]
        kv_mem = (state * k.unsqueeze(-1)).sum(dim=-2)
        delta = (v - kv_mem) * beta.unsqueeze(-1)
        state = state + k.unsqueeze(-1) * delta.unsqueeze(-2)
        return (state * q.unsqueeze(-1)).sum(dim=-2), state


def get_inputs():
    return [
        torch.randn(2, 3, 6),
        torch.randn(2, 3, 6),
        torch.randn(2, 3, 5),
        -torch.rand(2, 3),
        torch.rand(2, 3),
        torch.randn(2, 3, 6, 5),
    ]


def get_init_inputs():
    return []
