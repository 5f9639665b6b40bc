import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, window_size):
    B, H, W, C = x.shape
    x = x.view(B, H // window_size, window_size, W // window_size, window_size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window_size, window_size, C)


def window_reverse(windows, window_size, H, W):
    B = int(windows.shape[0] / (H * W / window_size / window_size))
    x = windows.view(B, H // window_size, W // window_size, window_size, window_size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.window_size, self.num_heads = window_size, num_heads
        self.logit_scale = nn.Parameter(
            torch.log(10 * torch.ones((num_heads, 1, 1))), requires_grad=True
        )
        self.cpb_mlp = nn.Sequential(
            nn.Linear(2, 16, bias=True), nn.ReLU(inplace=True), nn.Linear(16, num_heads, bias=False)
        )
        h = torch.arange(-(window_size - 1), window_size, dtype=torch.float32)
        table = (
            torch.stack(torch.meshgrid([h, h], indexing="ij"))
            .permute(1, 2, 0)
            .contiguous()
            .unsqueeze(0)
        )
        table /= max(1, window_size - 1)
        table *= 8
        table = torch.sign(table) * torch.log2(torch.abs(table) + 1.0) / 3.0
        self.register_buffer("relative_coords_table", table, persistent=False)
        coords = torch.stack(
            torch.meshgrid([torch.arange(window_size), torch.arange(window_size)], indexing="ij")
        ).flatten(1)
        rel = (
            (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
            + window_size
            - 1
        )
        rel[:, :, 0] *= 2 * window_size - 1
        self.register_buffer("relative_position_index", rel.sum(-1))
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.proj = nn.Linear(dim, dim)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x, mask=None):
        B_, N, C = x.shape
        qkv_bias = torch.cat(
            (self.q_bias, torch.zeros_like(self.v_bias, requires_grad=False), self.v_bias)
        )
        qkv = F.linear(input=x, weight=self.qkv.weight, bias=qkv_bias)
        qkv = qkv.reshape(B_, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        logit_scale = torch.clamp(self.logit_scale, max=torch.log(torch.tensor(1.0 / 0.01))).exp()
        attn = attn * logit_scale
        bias = self.cpb_mlp(self.relative_coords_table).view(-1, self.num_heads)
        n = self.window_size**2
        bias = (
            bias[self.relative_position_index.view(-1)].view(n, n, -1).permute(2, 0, 1).contiguous()
        )
        attn = attn + 16 * torch.sigmoid(bias).unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        attn = self.softmax(attn)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class Model(nn.Module):
    def __init__(self, dim, resolution, num_heads, window_size, shift_size):
        super().__init__()
        self.resolution, self.window_size, self.shift_size = resolution, window_size, shift_size
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window_size, num_heads)
        H, W = resolution
        img_mask = torch.zeros((1, H, W, 1))
        cnt = 0
        slices = (
            slice(0, -window_size),
            slice(-window_size, -shift_size),
            slice(-shift_size, None),
        )
        for h in slices:
            for w in slices:
                img_mask[:, h, w, :] = cnt
                cnt += 1
        mask = window_partition(img_mask, window_size).view(-1, window_size * window_size)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        self.register_buffer(
            "attn_mask", mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        )

    def forward(self, x):
        H, W = self.resolution
        B, L, C = x.shape
        shortcut = x
        x = x.view(B, H, W, C)
        shifted = torch.roll(x, shifts=(-self.shift_size, -self.shift_size), dims=(1, 2))
        windows = window_partition(shifted, self.window_size).view(
            -1, self.window_size * self.window_size, C
        )
        windows = self.attn(windows, mask=self.attn_mask).view(
            -1, self.window_size, self.window_size, C
        )
        shifted = window_reverse(windows, self.window_size, H, W)
        x = torch.roll(shifted, shifts=(self.shift_size, self.shift_size), dims=(1, 2)).view(
            B, H * W, C
        )
        return shortcut + self.norm1(x)


def get_inputs():
    return [torch.randn(2, 16, 12)]


def get_init_inputs():
    return [12, (4, 4), 3, 2, 1]
