import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, B):
        return torch.bmm(A, B)


def get_inputs():
    return [torch.rand(6, 15, 21), torch.rand(6, 21, 9)]


def get_init_inputs():
    return []
