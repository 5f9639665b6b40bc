import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, A, B):
        return torch.einsum("bijl,lk->bijk", A, B)


def get_inputs():
    return [torch.rand(2, 5, 7, 16), torch.rand(16, 11)]


def get_init_inputs():
    return []
