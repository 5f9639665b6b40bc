import torch
def reference(x):
    return torch.nn.functional.conv1d(x[None, None], torch.ones(1, 1, 7), padding=3)[0, 0]
def get_inputs():
    return [torch.randn(1000)]
