"""What a float32 product computes."""

import torch


def reference(a, b):
    return a @ b


def get_inputs():
    return [torch.randn(37, 53), torch.randn(53, 29)]
