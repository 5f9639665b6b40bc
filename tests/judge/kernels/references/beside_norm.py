import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])

    def forward(self, x, residual):
        for norm in self.norms:
            x = F.gelu(norm(x)) + residual
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(3, 5, 37), torch.randn(3, 5, 37)]


def get_init_inputs():
    return [37, 2]
