import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, grid):
        wide = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return F.grid_sample(x, grid, align_corners=False), wide


def get_inputs():
    return [torch.randn(1, 2, 4, 5), torch.rand(1, 3, 4, 2) * 2 - 1]


def get_init_inputs():
    return []
