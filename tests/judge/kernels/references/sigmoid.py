"""What a sigmoid computes."""

import torch


def reference(x):
    return torch.sigmoid(x)


def get_inputs():
    return [torch.randn(1003)]
