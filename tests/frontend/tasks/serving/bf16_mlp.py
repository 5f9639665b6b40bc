import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = nn.LayerNorm(48)
        self.a = nn.Linear(48, 64)
        self.b = nn.Linear(64, 48)
        self.bfloat16()

    def forward(self, x):
        return x + self.b(F.gelu(self.a(self.n(x))))


def get_inputs():
    return [torch.randn(9, 48, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
