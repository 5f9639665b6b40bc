import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, cin, cout, k, subtract_value, pool):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, k)
        self.subtract_value = subtract_value
        self.pool = nn.MaxPool2d(pool)

    def forward(self, x):
        x = self.conv(x) - self.subtract_value
        x = F.hardswish(x)
        x = self.pool(x)
        return F.mish(x)


def get_inputs():
    return [torch.rand(2, 5, 15, 17)]


def get_init_inputs():
    return [5, 9, 3, 0.5, 2]
