import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, logits):
        sorted_logits, sorted_indices = torch.sort(logits, descending=True)
        cumulative = torch.cumsum(torch.softmax(sorted_logits, dim=-1), dim=-1)
        remove = cumulative > 0.9
        remove[..., 1:] = remove[..., :-1].clone()
        remove[..., 0] = False
        remove = torch.zeros_like(remove).scatter(1, sorted_indices, remove)
        return logits.masked_fill(remove, -float("inf"))


def get_inputs():
    return [torch.randn(3, 24)]


def get_init_inputs():
    return []
