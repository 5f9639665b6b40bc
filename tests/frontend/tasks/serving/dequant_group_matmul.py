import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, qweight, scales, zeros):
        K, N = qweight.shape
        G = scales.shape[0]
        w = (qweight.view(G, K // G, N).float() - zeros[:, None, :]) * scales[:, None, :]
        return x @ w.view(K, N)


def get_inputs():
    return [
        torch.randn(5, 32),
        torch.randint(0, 16, (32, 12), dtype=torch.int8),
        torch.rand(4, 12),
        torch.randint(0, 16, (4, 12)).float(),
    ]


def get_init_inputs():
    return []
