import torch
def reference(x):
    return x.cumsum(1)
def get_inputs():
    return [torch.randn(5, 128)]
