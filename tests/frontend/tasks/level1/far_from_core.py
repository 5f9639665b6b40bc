"""Operators that have no row: torch's own rules bring them to ones that do."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        steps = torch.diff(x, dim=-1).abs().sum(dim=-1, keepdim=True)
        soft = torch.logaddexp(x, y) + torch.hypot(x, y) * torch.atan2(y, x)
        edges = torch.fmax(torch.copysign(x, y), torch.asinh(y)) + torch.sinc(x)
        return soft * steps, torch.rot90(edges)


def get_inputs():
    return [torch.randn(6, 9), torch.randn(6, 9)]


def get_init_inputs():
    return []
