"""So deep that weights of any size but a small one leave float32 on their way; random ones are drawn accordingly."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + 0.01
        return x


def get_inputs():
    return [torch.randn(3, 16)]


def get_init_inputs():
    return [16, 40]
