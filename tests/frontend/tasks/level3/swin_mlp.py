import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, dim, heads, window, shift):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.padding = [window - shift, shift, window - shift, shift]
        self.norm1 = nn.LayerNorm(dim)
        self.spatial_mlp = nn.Conv1d(
            heads * window**2, heads * window**2, kernel_size=1, groups=heads
        )
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.window
        shortcut = x
        x = self.norm1(x)
        P_l, P_r, P_t, P_b = self.padding
        x = F.pad(x, [0, 0, P_l, P_r, P_t, P_b], "constant", 0)
        _, _H, _W, _ = x.shape
        x = (
            x.view(B, _H // w, w, _W // w, w, C)
            .permute(0, 1, 3, 2, 4, 5)
            .contiguous()
            .view(-1, w * w, C)
        )
        x = (
            x.view(-1, w * w, self.heads, C // self.heads)
            .transpose(1, 2)
            .reshape(-1, self.heads * w * w, C // self.heads)
        )
        x = self.spatial_mlp(x)
        x = x.view(-1, self.heads, w * w, C // self.heads).transpose(1, 2).reshape(-1, w, w, C)
        x = (
            x.view(B, _H // w, _W // w, w, w, C)
            .permute(0, 1, 3, 2, 4, 5)
            .contiguous()
            .view(B, _H, _W, C)
        )
        x = x[:, P_t:-P_b, P_l:-P_r, :].contiguous()
        x = shortcut + x
        return x + self.mlp(self.norm2(x))


def get_inputs():
    return [torch.rand(2, 4, 4, 12)]


def get_init_inputs():
    return [12, 3, 2, 1]
