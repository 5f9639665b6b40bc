import torch
import torch.nn as nn


class Model(nn.Module):
    def rotate_half(self, x):
        x1 = x[..., : x.shape[-1] // 2]
        x2 = x[..., x.shape[-1] // 2 :]
        return torch.cat((-x2, x1), dim=-1)

    def forward(self, q, k, position_ids, inv_freq):
        freqs = (
            inv_freq[None, :, None].float().expand(position_ids.shape[0], -1, 1)
            @ position_ids[:, None, :].float()
        ).transpose(1, 2)
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos().unsqueeze(1), emb.sin().unsqueeze(1)
        return q * cos + self.rotate_half(q) * sin, k * cos + self.rotate_half(k) * sin


def get_inputs():
    return [
        torch.randn(2, 4, 6, 8),
        torch.randn(2, 2, 6, 8),
        torch.arange(6).repeat(2, 1),
        torch.rand(4),
    ]


def get_init_inputs():
    return []
