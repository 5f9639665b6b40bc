import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, logp, old_logp, advantages, mask):
        ratio = torch.exp(logp - old_logp)
        clipped = torch.clamp(ratio, 0.8, 1.2)
        loss = -torch.min(ratio * advantages[:, None], clipped * advantages[:, None])
        return (loss * mask).sum() / mask.sum()


def get_inputs():
    return [-torch.rand(4, 9), -torch.rand(4, 9), torch.randn(4), torch.ones(4, 9)]


def get_init_inputs():
    return []
