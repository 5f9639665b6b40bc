"""What a transpose computes."""

import torch


def reference(x):
    return x.t().contiguous()


def get_inputs():
    return [torch.randn(37, 45)]
