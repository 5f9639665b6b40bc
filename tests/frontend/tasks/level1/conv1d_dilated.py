import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, stride, dilation):
        super().__init__()
        self.conv1d = nn.Conv1d(cin, cout, k, stride=stride, dilation=dilation, bias=False)

    def forward(self, x):
        return self.conv1d(x)


def get_inputs():
    return [torch.rand(3, 5, 61)]


def get_init_inputs():
    return [5, 9, 3, 3, 4]
