"""What is above 0 at the front of each row, in its order, and zeros behind it."""

import torch


def reference(x):
    return x.gather(-1, torch.argsort((x <= 0).float(), dim=-1, stable=True)).clamp(min=0)


def get_inputs():
    return [torch.randn(7, 200)]
