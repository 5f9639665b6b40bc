import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, pool):
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, k)
        self.pool1 = nn.MaxPool3d(pool)
        self.pool2 = nn.MaxPool3d(pool)

    def forward(self, x):
        return self.pool2(self.pool1(torch.softmax(self.conv(x), dim=1)))


def get_inputs():
    return [torch.rand(2, 3, 10, 11, 12)]


def get_init_inputs():
    return [3, 8, 3, 2]
