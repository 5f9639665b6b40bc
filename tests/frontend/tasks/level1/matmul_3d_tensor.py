import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, B):
        return torch.matmul(A, B)


def get_inputs():
    return [torch.rand(4, 17, 29), torch.rand(29, 13)]


def get_init_inputs():
    return []
