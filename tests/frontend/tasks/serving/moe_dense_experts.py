import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, num_experts, hidden, inter, top_k):
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.gate = nn.Linear(hidden, num_experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(num_experts, inter, hidden) * 0.1)
        self.w2 = nn.Parameter(torch.randn(num_experts, hidden, inter) * 0.1)
        self.w3 = nn.Parameter(torch.randn(num_experts, inter, hidden) * 0.1)

    def forward(self, x):
        scores = F.softmax(self.gate(x), dim=-1)
        weights, ids = torch.topk(scores, self.top_k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        w1, w3, w2 = self.w1[ids], self.w3[ids], self.w2[ids]
        x1 = F.silu(torch.einsum("ti,taoi -> tao", x, w1))
        x3 = torch.einsum("ti, taoi -> tao", x, w3)
        out = torch.einsum("tao, taio -> tai", x1 * x3, w2)
        return torch.einsum("tai,ta -> ti", out, weights)


def get_inputs():
    return [torch.randn(5, 12)]


def get_init_inputs():
    return [4, 12, 8, 2]
