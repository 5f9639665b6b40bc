import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, cache, k, slots):
        cache = cache.clone()
        cache[slots] = k
        return cache


def get_inputs():
    return [torch.randn(12, 2, 8), torch.randn(4, 2, 8), torch.tensor([3, 0, 9, 7])]


def get_init_inputs():
    return []
