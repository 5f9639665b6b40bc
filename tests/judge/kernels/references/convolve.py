"""What a 5 x 5 filter with zeros around computes."""

import torch


def reference(x, f):
    return torch.nn.functional.conv2d(x[None, None], f[None, None], padding=2)[0, 0]


def get_inputs():
    return [torch.randn(41, 59), torch.randn(5, 5)]
