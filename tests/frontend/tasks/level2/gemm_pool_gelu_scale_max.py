import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, in_features, out_features, pool, scale):
        super().__init__()
        self.matmul = nn.Linear(in_features, out_features)
        self.avg_pool = nn.AvgPool1d(kernel_size=pool)
        self.scale = scale

    def forward(self, x):
        x = self.avg_pool(self.matmul(x).unsqueeze(1)).squeeze(1)
        x = F.gelu(x) * self.scale
        return torch.max(x, dim=1).values


def get_inputs():
    return [torch.rand(9, 40)]


def get_init_inputs():
    return [40, 32, 4, 2.0]
