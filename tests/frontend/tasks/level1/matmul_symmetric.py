import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, B):
        return torch.matmul(A, B)


def get_inputs():
    A = torch.rand(24, 24)
    A = (A + A.T) / 2
    B = torch.rand(24, 24)
    B = (B + B.T) / 2
    return [A, B]


def get_init_inputs():
    return []
