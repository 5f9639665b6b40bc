import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cos, sin):
        x1, x2 = x[..., ::2], x[..., 1::2]
        cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
        o1 = x1 * cos - x2 * sin
        o2 = x2 * cos + x1 * sin
        return torch.stack((o1, o2), dim=-1).flatten(-2)


def get_inputs():
    return [torch.randn(6, 3, 8), torch.randn(6, 4), torch.randn(6, 4)]


def get_init_inputs():
    return []
