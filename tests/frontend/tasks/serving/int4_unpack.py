import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, packed):
        low = packed & 0xF
        high = (packed >> 4) & 0xF
        return torch.stack((low, high), dim=-1).reshape(packed.shape[0], -1).to(torch.float32) - 8.0


def get_inputs():
    return [torch.randint(0, 256, (6, 10), dtype=torch.int32)]


def get_init_inputs():
    return []
