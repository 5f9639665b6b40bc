"""What a vector addition computes."""

import torch


def reference(x, y):
    return x + y


def get_inputs():
    return [torch.rand(5000), torch.rand(5000)]
