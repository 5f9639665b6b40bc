import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, B):
        return torch.matmul(A, B)


def get_inputs():
    return [torch.rand(130, 5), torch.rand(5, 130)]


def get_init_inputs():
    return []
