import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, gating_output, bias):
        num_token, n = gating_output.shape
        scores = gating_output.sigmoid()
        biased = scores + bias.unsqueeze(0)
        group_scores = biased.view(num_token, 4, -1).topk(2, dim=-1)[0].sum(dim=-1)
        group_idx = torch.topk(group_scores, k=2, dim=-1, sorted=False)[1]
        group_mask = torch.zeros_like(group_scores)
        group_mask.scatter_(1, group_idx, 1)
        score_mask = group_mask.unsqueeze(-1).expand(num_token, 4, n // 4).reshape(num_token, -1)
        tmp = biased.masked_fill(~score_mask.bool(), float("-inf"))
        ids = torch.topk(tmp, k=2, dim=-1, sorted=False)[1]
        return scores.gather(1, ids)


def get_inputs():
    return [torch.randn(6, 16), torch.randn(16)]


def get_init_inputs():
    return []
