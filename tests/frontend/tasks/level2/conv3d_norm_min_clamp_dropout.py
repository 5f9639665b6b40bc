import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, cin, cout, k, groups, min_value, max_value, p):
        super().__init__()
        self.conv = nn.Conv3d(cin, cout, k)
        self.norm = nn.GroupNorm(groups, cout)
        self.dropout = nn.Dropout(p)
        self.min_value, self.max_value = min_value, max_value

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = torch.min(x, torch.tensor(self.min_value, device=x.device))
        x = torch.clamp(x, min=self.min_value, max=self.max_value)
        return self.dropout(x)


def get_inputs():
    return [torch.rand(2, 3, 6, 7, 8)]


def get_init_inputs():
    return [3, 8, 3, 4, 0.0, 1.0, 0.2]
