import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, kernel_size, stride, expand_ratio):
        super().__init__()
        self.use_residual = stride == 1 and cin == cout
        hidden = cin * expand_ratio
        self.expand_conv = nn.Sequential(
            nn.Conv2d(cin, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)
        )
        self.depthwise_conv = nn.Sequential(
            nn.Conv2d(
                hidden,
                hidden,
                kernel_size,
                stride,
                (kernel_size - 1) // 2,
                groups=hidden,
                bias=False,
            ),
            nn.BatchNorm2d(hidden),
            nn.SiLU(),
        )
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(hidden, 3, 1),
            nn.ReLU(),
            nn.Conv2d(3, hidden, 1),
            nn.Sigmoid(),
        )
        self.project_conv = nn.Sequential(
            nn.Conv2d(hidden, cout, 1, bias=False), nn.BatchNorm2d(cout)
        )

    def forward(self, x):
        identity = x
        x = self.depthwise_conv(self.expand_conv(x))
        x = self.project_conv(x * self.se(x))
        if self.use_residual:
            x += identity
        return x


def get_inputs():
    return [torch.rand(2, 6, 14, 14)]


def get_init_inputs():
    return [6, 6, 5, 1, 4]
