"""Means and variances of rows."""

import torch


def reference(x):
    return x.mean(-1), x.var(-1)


def get_inputs():
    return [torch.randn(7, 200)]
