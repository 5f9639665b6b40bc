import torch


def reference(x):
    return x * x


def get_inputs():
    return [torch.randn(37, 44)]
