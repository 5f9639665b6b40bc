import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, head_size, max_position, base=10000):
        super().__init__()
        self.head_size = head_size
        inv_freq = 1.0 / (base ** (torch.arange(0, head_size, 2, dtype=torch.float) / head_size))
        freqs = torch.einsum("i,j -> ij", torch.arange(max_position, dtype=torch.float), inv_freq)
        self.register_buffer(
            "cos_sin_cache", torch.cat((freqs.cos(), freqs.sin()), dim=-1), persistent=False
        )

    def forward(self, positions, query, key):
        cos_sin = self.cos_sin_cache.index_select(0, positions.flatten())
        cos, sin = cos_sin.chunk(2, dim=-1)

        def rotate(x):
            shape = x.shape
            x = x.view(positions.shape[0], -1, self.head_size)
            c, s = cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
            x1, x2 = torch.chunk(x, 2, dim=-1)
            return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), dim=-1).reshape(shape)

        return rotate(query), rotate(key)


def get_inputs():
    return [torch.arange(6), torch.randn(6, 32), torch.randn(6, 16)]


def get_init_inputs():
    return [8, 16]
