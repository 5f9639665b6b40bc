import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, u, delta, A, B, C, D):
        delta = F.softplus(delta)
        deltaA = torch.exp(torch.einsum("bdl,dn->bdln", delta, A))
        deltaB_u = torch.einsum("bdl,bnl,bdl->bdln", delta, B, u)
        x = A.new_zeros((u.shape[0], u.shape[1], A.shape[1]))
        ys = []
        for i in range(u.shape[2]):
            x = deltaA[:, :, i] * x + deltaB_u[:, :, i]
            ys.append(torch.einsum("bdn,bn->bd", x, C[:, :, i]))
        y = torch.stack(ys, dim=2)
        return y + u * D[:, None]


def get_inputs():
    return [
        torch.randn(2, 4, 5),
        torch.randn(2, 4, 5),
        -torch.rand(4, 3),
        torch.randn(2, 3, 5),
        torch.randn(2, 3, 5),
        torch.randn(4),
    ]


def get_init_inputs():
    return []
