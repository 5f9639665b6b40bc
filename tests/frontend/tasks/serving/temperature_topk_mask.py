import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, logits, temperature):
        logits = logits.float() / temperature[:, None]
        kth = torch.topk(logits, 5, dim=-1)[0][..., -1, None]
        logits = logits.masked_fill(logits < kth, -float("inf"))
        return torch.softmax(logits, dim=-1), logits.argmax(dim=-1)


def get_inputs():
    return [torch.randn(3, 40), torch.rand(3) + 0.5]


def get_init_inputs():
    return []
