"""More module files of our own: operator families and blocks of networks that people ask kernels for."""

from __future__ import annotations

from tests.frontend.modules import IMAGE, Module

ROW = "torch.randn(5, 37)"
CUBE = "torch.randn(3, 7, 5)"
PAIR = "torch.randn(5, 37), torch.randn(5, 37)"


def _one(name: str, body: str, inputs: str = ROW, args: str = "x", init: str = "pass") -> Module:
    return Module(name=name, body=body, inputs=inputs, args=args, init=init, kernels=99)


SCANS = (
    _one("scan_sum", "torch.cumsum(x, dim=1)"),
    _one("scan_sum_middle", "torch.cumsum(x, dim=1)", CUBE),
    _one("scan_prod", "torch.cumprod(x, dim=1)"),
    _one("scan_reverse", "torch.cumsum(x.flip(1), dim=1).flip(1)"),
    _one(
        "scan_exclusive",
        "torch.cumsum(torch.cat((torch.zeros_like(x[:, :1]), x), 1), 1)[:, :-1]",
    ),
    _one("scan_masked", "torch.cumsum(x * m, dim=1)", f"{ROW}, torch.randn(5, 37) > 0", "x, m"),
    _one("scan_max", "return torch.cummax(x, dim=1)[0]"),
    _one("scan_long", "torch.cumsum(x, dim=0)", "torch.randn(900, 3)"),
)
ARGS = (
    _one("arg_max", "torch.argmax(x, dim=1)", CUBE),
    _one("arg_min", "torch.argmin(x, dim=-1)"),
    _one("arg_max_all", "torch.argmax(x)"),
    _one("arg_max_pair", "v, i = torch.max(x, dim=1)\nreturn v, i"),
    _one("arg_topk", "v, i = torch.topk(x, 3, dim=-1)\nreturn v, i"),
    _one("arg_topk_values", "torch.topk(x, 2, dim=1)[0].sum(1)"),
)
GATHERS = (
    _one(
        "gather_embedding",
        "self.e(i)",
        "torch.randint(0, 11, (3, 7))",
        "i",
        "self.e = nn.Embedding(11, 6)",
    ),
    _one(
        "gather_index_select",
        "torch.index_select(x, 1, i)",
        f"{CUBE}, torch.tensor([4, 0, 6])",
        "x, i",
    ),
    _one(
        "gather_along",
        "torch.gather(x, 1, i)",
        f"{ROW}, torch.randint(0, 37, (5, 4))",
        "x, i",
    ),
    _one(
        "gather_take_along",
        "torch.take_along_dim(x, i, dim=1)",
        f"{ROW}, torch.randint(0, 37, (5, 4))",
        "x, i",
    ),
    _one("gather_index", "x[:, i]", f"{CUBE}, torch.tensor([4, 0, 6])", "x, i"),
    _one("gather_flip", "x.flip(1, 2)", CUBE),
    _one("gather_reflect", "F.pad(x, (2, 1, 1, 2), mode='reflect')", "torch.randn(2, 3, 5, 6)"),
    _one("gather_replicate", "F.pad(x, (2, 1), mode='replicate')", CUBE),
    _one("gather_unfold", "x.unfold(1, 4, 2)"),
    _one(
        "scatter_add",
        "torch.zeros(5, 9).scatter_add(1, i, x)",
        "torch.randn(5, 14), torch.randint(0, 9, (5, 14))",
        "x, i",
    ),
    _one(
        "scatter_values",
        "torch.zeros(5, 9).scatter(1, i, x)",
        "torch.randn(5, 3), torch.tensor([[0, 4, 2]] * 5)",
        "x, i",
    ),
    _one(
        "scatter_index_add",
        "torch.zeros(9, 5).index_add(0, i, x)",
        "torch.randn(14, 5), torch.randint(0, 9, (14,))",
        "x, i",
    ),
    _one("gather_one_hot", "F.one_hot(i, 7).float()", "torch.randint(0, 7, (4, 3))", "i"),
)
MAPS = (
    _one("map_sin_cos", "torch.sin(x) + torch.cos(x) * 2"),
    _one("map_floor", "torch.floor(x * 3) + torch.ceil(x) - torch.round(x) + torch.trunc(x)"),
    _one("map_log1p", "torch.log1p(x.abs()) + torch.expm1(x)"),
    _one("map_sign", "torch.sign(x) * x"),
    _one("map_tan_atan", "torch.atan(x) + torch.tan(x * 0.1)"),
    _one("map_fmod", "torch.fmod(x, 0.7) + torch.remainder(x, 0.9)"),
    _one("map_int_mod", "return i % 7, i // 3", "torch.randint(-50, 50, (5, 8))", "i"),
    _one("map_bools", "return (x > 0) & (y > 0), (x > 0) | (y < 0), ~(x > y)", PAIR, "x, y"),
    _one("map_xor", "torch.logical_xor(x > 0, y > 0)", PAIR, "x, y"),
    _one("map_isnan", "torch.where(torch.isnan(x) | torch.isinf(x), 0.0, x)"),
    _one("map_nan_to_num", "torch.nan_to_num(x, 0.0, 1.0, -1.0)"),
    _one("map_any_all", "return (x > 2).any(1), (x < 3).all(1)"),
    _one("map_floor_div", "torch.div(x, y, rounding_mode='floor')", PAIR, "x, y"),
    _one("map_to_int", "(x * 10).to(torch.int32)"),
    _one("map_scalar_result", "x.sum() / (x * x).sum().sqrt()"),
    _one("map_half", "torch.sigmoid(x.float()).half()", "torch.randn(5, 36).half()"),
    _one(
        "map_quantised",
        "(q.float() - 3) * s",
        "torch.randint(-9, 9, (5, 8)).to(torch.int8), torch.rand(5, 1)",
        "q, s",
    ),
)
REDUCTIONS = (
    _one("reduce_prod", "torch.prod(x, dim=1)", CUBE),
    _one("reduce_min", "torch.min(x, dim=2)[0]", CUBE),
    _one("reduce_count", "(x > 0).sum(1)"),
    _one("reduce_int", "i.sum(1)", "torch.randint(0, 9, (5, 8))", "i"),
    _one("reduce_frobenius", "x / torch.norm(x, p='fro')"),
    _one("reduce_p3", "torch.norm(x, p=3, dim=1)"),
    _one("reduce_std", "x.std(1, keepdim=True)", CUBE),
    _one("reduce_bool_mean", "(x > 0.5).float().mean(1)"),
    _one("norm_weight", "self.l(x)", init="self.l = torch.nn.utils.weight_norm(nn.Linear(37, 5))"),
    _one("norm_local", "F.local_response_norm(x, 3)", IMAGE),
    _one("norm_normalize", "F.normalize(x, dim=1)", IMAGE),
)
LOSSES = (
    _one("loss_hinge", "torch.mean(torch.clamp(1 - x * y, min=0))", PAIR, "x, y"),
    _one("loss_huber", "F.huber_loss(x, y, delta=0.7)", PAIR, "x, y"),
    _one(
        "loss_kl",
        "F.kl_div(torch.log(x), y, reduction='batchmean')",
        "torch.rand(5, 37).softmax(-1), torch.rand(5, 37).softmax(-1)",
        "x, y",
    ),
    _one("loss_cosine", "torch.mean(1 - F.cosine_similarity(x, y, dim=1))", PAIR, "x, y"),
    _one(
        "loss_triplet",
        "F.triplet_margin_loss(x, y, z, margin=0.8)",
        f"{PAIR}, {ROW}",
        "x, y, z",
    ),
    _one(
        "loss_cross_entropy",
        "F.cross_entropy(x, t)",
        f"{ROW}, torch.randint(0, 37, (5,))",
        "x, t",
    ),
    _one(
        "loss_cross_entropy_smooth",
        "F.cross_entropy(x, t, label_smoothing=0.1)",
        f"{ROW}, torch.randint(0, 37, (5,))",
        "x, t",
    ),
    _one(
        "loss_nll",
        "F.nll_loss(F.log_softmax(x, 1), t)",
        f"{ROW}, torch.randint(0, 37, (5,))",
        "x, t",
    ),
    _one("loss_bce", "F.binary_cross_entropy_with_logits(x, (y > 0).float())", PAIR, "x, y"),
    _one(
        "loss_bce_plain", "F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y))", PAIR, "x, y"
    ),
    _one(
        "loss_margin",
        "F.margin_ranking_loss(x, y, torch.sign(z), 0.2)",
        f"{PAIR}, {ROW}",
        "x, y, z",
    ),
    _one("loss_pairwise", "torch.cdist(x, y)", "torch.randn(5, 9), torch.randn(4, 9)", "x, y"),
)
PRODUCTS = (
    _one("matmul_diagonal", "torch.diag(d) @ b", "torch.randn(9), torch.randn(9, 5)", "d, b"),
    _one(
        "matmul_upper",
        "torch.triu(torch.triu(a) @ torch.triu(b))",
        "torch.randn(9, 9), torch.randn(9, 9)",
        "a, b",
    ),
    _one(
        "matmul_tensor",
        "torch.einsum('bijl,lk->bijk', a, b)",
        "torch.randn(2, 3, 4, 9), torch.randn(9, 5)",
        "a, b",
    ),
    _one(
        "matmul_three",
        "torch.einsum('bn,bnd,be->bde', a, b, c)",
        "torch.randn(2, 3), torch.randn(2, 3, 4), torch.randn(2, 5)",
        "a, b, c",
    ),
    _one("matmul_outer", "torch.outer(a, b)", "torch.randn(9), torch.randn(5)", "a, b"),
    _one(
        "matmul_dots",
        "torch.einsum('...ij,...jk->...ik', a, b)",
        "torch.randn(2, 3, 4), torch.randn(2, 4, 5)",
        "a, b",
    ),
    _one(
        "matmul_sum",
        "torch.einsum('ij,ij->i', a, b)",
        "torch.randn(6, 4), torch.randn(6, 4)",
        "a, b",
    ),
    _one(
        "matmul_addmv",
        "torch.addmv(c, a, b)",
        "torch.randn(6, 4), torch.randn(4), torch.randn(6)",
        "a, b, c",
    ),
    _one(
        "matmul_multi",
        "torch.linalg.multi_dot((a, b, c))",
        "torch.randn(6, 4), torch.randn(4, 5), torch.randn(5, 3)",
        "a, b, c",
    ),
    _one(
        "matmul_bilinear",
        "self.b(x, y)",
        "torch.randn(5, 6), torch.randn(5, 7)",
        "x, y",
        "self.b = nn.Bilinear(6, 7, 4)",
    ),
)
WINDOWS = (
    _one("window_max_ceil", "F.max_pool2d(x, 3, 2, ceil_mode=True)", IMAGE),
    _one("window_avg_ceil", "F.avg_pool2d(x, 3, 2, ceil_mode=True)", IMAGE),
    _one("window_max_3d", "F.max_pool3d(x, 3, 2, 1, dilation=1)", "torch.randn(1, 2, 7, 6, 8)"),
    _one("window_avg_3d", "F.avg_pool3d(x, 3, 2, 1)", "torch.randn(1, 2, 7, 6, 8)"),
    _one("window_avg_1d", "F.avg_pool1d(x, 4, 2, 1)", "torch.randn(2, 3, 23)"),
    _one("window_adaptive_max", "F.adaptive_max_pool2d(x, 1)", IMAGE),
    _one("window_adaptive_odd", "F.adaptive_avg_pool2d(x, (5, 4))", IMAGE),
    _one("window_lp", "F.lp_pool2d(x, 2, 3, 2)", IMAGE),
    _one("window_unfold", "F.unfold(x, (3, 2), padding=1)", "torch.randn(2, 3, 6, 5)"),
    _one(
        "window_bilinear",
        "F.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)",
        "torch.randn(2, 3, 4, 5)",
    ),
    _one(
        "window_nearest_odd",
        "F.interpolate(x, size=(7, 9), mode='nearest')",
        "torch.randn(2, 3, 4, 5)",
    ),
    _one("window_circular", "F.pad(x, (2, 1), mode='circular')", CUBE),
)
CONVOLUTIONS = (
    _one(
        "convolve_3d_transposed",
        "self.c(x)",
        "torch.randn(1, 4, 3, 4, 5)",
        init="self.c = nn.ConvTranspose3d(4, 3, (3, 2, 3), stride=(2, 1, 2), padding=1)",
    ),
    _one(
        "convolve_1d_transposed",
        "self.c(x)",
        "torch.randn(2, 4, 9)",
        init="self.c = nn.ConvTranspose1d(4, 3, 4, stride=3, padding=1, dilation=2)",
    ),
    _one(
        "convolve_asymmetric",
        "self.c(x)",
        IMAGE,
        init="self.c = nn.Conv2d(6, 5, (5, 2), stride=(2, 1), padding=(2, 0), dilation=(1, 3))",
    ),
    _one(
        "convolve_same", "self.c(x)", IMAGE, init="self.c = nn.Conv2d(6, 5, (4, 3), padding='same')"
    ),
    _one(
        "convolve_reflect",
        "self.c(x)",
        IMAGE,
        init="self.c = nn.Conv2d(6, 5, 3, padding=1, padding_mode='reflect')",
    ),
    _one(
        "convolve_3d_grouped",
        "self.c(x)",
        "torch.randn(1, 4, 4, 5, 6)",
        init="self.c = nn.Conv3d(4, 6, (1, 3, 3), groups=2, padding=(0, 1, 1))",
    ),
    _one(
        "convolve_pointwise_separable",
        "self.p(self.d(x))",
        IMAGE,
        init="self.d = nn.Conv2d(6, 6, 3, 2, 1, groups=6, bias=False)\nself.p = nn.Conv2d(6, 9, 1, bias=False)",
    ),
    _one(
        "convolve_no_batch",
        "self.c(x)",
        "torch.randn(6, 13, 11)",
        init="self.c = nn.Conv2d(6, 5, 3)",
    ),
)
BLOCKS = (
    _one(
        "block_squeeze_excite",
        "x * torch.sigmoid(self.b(F.relu(self.a(x.mean((2, 3))))))[:, :, None, None]",
        IMAGE,
        init="self.a = nn.Linear(6, 3)\nself.b = nn.Linear(3, 6)",
    ),
    _one(
        "block_mixer",
        "x = x + self.t(self.n(x).transpose(1, 2)).transpose(1, 2)\nreturn x + self.c(self.m(x))",
        "torch.randn(2, 9, 12)",
        init="self.n, self.m = nn.LayerNorm(12), nn.LayerNorm(12)\n"
        "self.t = nn.Sequential(nn.Linear(9, 7), nn.GELU(), nn.Linear(7, 9))\n"
        "self.c = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 12))",
    ),
    _one(
        "block_gpt",
        "b, t, c = x.shape\nh = self.n1(x)\n"
        "q, k, v = self.qkv(h).split(c, dim=2)\n"
        "q, k, v = (u.view(b, t, 3, c // 3).transpose(1, 2) for u in (q, k, v))\n"
        "a = (q @ k.transpose(-2, -1)) * (k.size(-1) ** -0.5)\n"
        "a = a.masked_fill(self.bias[:, :, :t, :t] == 0, float('-inf'))\n"
        "a = self.drop(F.softmax(a, dim=-1))\n"
        "y = (a @ v).transpose(1, 2).contiguous().view(b, t, c)\n"
        "x = x + self.drop(self.o(y))\n"
        "return x + self.f2(F.gelu(self.f1(self.n2(x)), approximate='tanh'))",
        "torch.randn(2, 8, 24)",
        init="self.n1, self.n2 = nn.LayerNorm(24), nn.LayerNorm(24)\n"
        "self.qkv, self.o = nn.Linear(24, 72), nn.Linear(24, 24)\n"
        "self.f1, self.f2 = nn.Linear(24, 96), nn.Linear(96, 24)\nself.drop = nn.Dropout(0.1)\n"
        "self.register_buffer('bias', torch.tril(torch.ones(10, 10)).view(1, 1, 10, 10))",
    ),
    _one(
        "block_relu_attention",
        "b, t, c = x.shape\n"
        "q, k, v = (u.view(b, t, 2, 6).transpose(1, 2) for u in self.p(x).split(12, 2))\n"
        "a = (q @ k.transpose(-2, -1)) * 0.4\n"
        "a = a.masked_fill(self.m[:, :, :t, :t] == 0, float('-inf'))\n"
        "return (F.relu(a) @ v).transpose(1, 2).reshape(b, t, c)",
        "torch.randn(2, 7, 12)",
        init="self.p = nn.Linear(12, 36)\n"
        "self.register_buffer('m', torch.tril(torch.ones(9, 9)).view(1, 1, 9, 9))",
    ),
    _one(
        "block_mobile",
        "x + self.s(x)",
        IMAGE,
        init="self.s = nn.Sequential(nn.Conv2d(6, 18, 1, bias=False), nn.BatchNorm2d(18), nn.ReLU6(),\n"
        "    nn.Conv2d(18, 18, 3, 1, 1, groups=18, bias=False), nn.BatchNorm2d(18), nn.ReLU6(),\n"
        "    nn.Conv2d(18, 6, 1, bias=False), nn.BatchNorm2d(6))",
    ),
    _one(
        "block_inception",
        "torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1)",
        IMAGE,
        init="self.a = nn.Conv2d(6, 4, 1)\n"
        "self.b = nn.Sequential(nn.Conv2d(6, 3, 1), nn.Conv2d(3, 5, 3, padding=1))\n"
        "self.c = nn.Sequential(nn.Conv2d(6, 2, 1), nn.Conv2d(2, 4, 5, padding=2))\n"
        "self.d = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(6, 3, 1))",
    ),
    _one(
        "block_dense",
        "for layer in self.ls:\n    x = torch.cat([x, layer(x)], 1)\nreturn x",
        IMAGE,
        init="self.ls = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(6 + 4 * i), nn.ReLU(),\n"
        "    nn.Conv2d(6 + 4 * i, 4, 3, padding=1, bias=False), nn.Dropout(0.0)) for i in range(3)])",
    ),
    _one(
        "block_residual",
        "y = F.relu(self.n1(self.c1(x)))\ny = self.n2(self.c2(y))\nreturn F.relu(y + self.d(x))",
        IMAGE,
        init="self.c1 = nn.Conv2d(6, 8, 3, 2, 1, bias=False)\nself.c2 = nn.Conv2d(8, 8, 3, 1, 1, bias=False)\n"
        "self.n1, self.n2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)\n"
        "self.d = nn.Sequential(nn.Conv2d(6, 8, 1, 2, bias=False), nn.BatchNorm2d(8))",
    ),
    _one(
        "block_shuffle",
        "b, c, h, w = x.shape\nreturn self.c(x.view(b, 3, c // 3, h, w).transpose(1, 2).contiguous().view(b, c, h, w))",
        IMAGE,
        init="self.c = nn.Conv2d(6, 6, 1, groups=3)",
    ),
    _one(
        "block_unet",
        "d = F.relu(self.n(self.a(x)))\nb = F.relu(self.b(F.max_pool2d(d, 2)))\n"
        "return self.o(torch.softmax(torch.cat([self.u(b), d], 1), dim=-1))",
        "torch.randn(1, 3, 8, 12)",
        init="self.a = nn.Conv2d(3, 4, 3, padding=1)\nself.n = nn.BatchNorm2d(4)\n"
        "self.b = nn.Conv2d(4, 8, 3, padding=1)\nself.u = nn.ConvTranspose2d(8, 4, 2, 2)\n"
        "self.o = nn.Conv2d(8, 2, 1)",
    ),
    _one(
        "block_scan",
        "a = F.softplus(self.dt(x))\nh = torch.zeros(x.shape[0], 4, 5)\nys = []\n"
        "for t in range(x.shape[1]):\n"
        "    h = h * torch.exp(a[:, t, :, None] * self.A) + x[:, t, :, None] * self.B\n"
        "    ys.append((h * self.C).sum(-1))\nreturn torch.stack(ys, 1)",
        "torch.randn(2, 6, 4)",
        init="self.dt = nn.Linear(4, 4)\nself.A = nn.Parameter(-torch.rand(4, 5))\n"
        "self.B, self.C = nn.Parameter(torch.randn(4, 5)), nn.Parameter(torch.randn(4, 5))",
    ),
    _one(
        "block_segment_sum",
        "t = x.size(-1)\nc = torch.cumsum(x, dim=-1)\ns = c[..., :, None] - c[..., None, :]\n"
        "m = torch.tril(torch.ones(t, t, dtype=bool), diagonal=0)\n"
        "return torch.exp(s.masked_fill(~m, -torch.inf))",
        CUBE,
    ),
    _one(
        "block_moe",
        "g = torch.softmax(self.g(x), -1)\nw, i = torch.topk(g, 2, dim=-1)\nw = w / w.sum(-1, keepdim=True)\n"
        "y = torch.stack([e(x) for e in self.e], 1)\n"
        "p = torch.gather(y, 1, i[..., None].expand(-1, -1, y.shape[-1]))\nreturn (p * w[..., None]).sum(1)",
        "torch.randn(7, 12)",
        init="self.g = nn.Linear(12, 4)\nself.e = nn.ModuleList([nn.Linear(12, 12) for _ in range(4)])",
    ),
    _one(
        "block_lstm_last",
        "y, _ = self.m(x, (h, c))\nreturn self.f(y[:, -1, :])",
        "torch.randn(3, 5, 6), torch.randn(2, 3, 5), torch.randn(2, 3, 5)",
        "x, h, c",
        "self.m = nn.LSTM(6, 5, 2, batch_first=True)\nself.f = nn.Linear(5, 4)",
    ),
    _one(
        "block_rnn_cell",
        "h = torch.tanh(self.i(torch.cat((x, h), 1)))\nreturn self.o(h)",
        "torch.randn(3, 6), torch.randn(3, 5)",
        "x, h",
        "self.i = nn.Linear(11, 5)\nself.o = nn.Linear(5, 4)",
    ),
    _one("block_rnn", "self.m(x)[0]", "torch.randn(4, 3, 6)", init="self.m = nn.RNN(6, 5)"),
    _one(
        "block_lstm_cell",
        "h, c = self.m(x, (h, c))\nreturn h + c",
        "torch.randn(3, 6), torch.randn(3, 5), torch.randn(3, 5)",
        "x, h, c",
        "self.m = nn.LSTMCell(6, 5)",
    ),
    _one(
        "block_gru_cell",
        "self.m(x, h)",
        "torch.randn(3, 6), torch.randn(3, 5)",
        "x, h",
        "self.m = nn.GRUCell(6, 5)",
    ),
    _one(
        "block_multihead",
        "self.m(x, x, x)[0]",
        "torch.randn(2, 7, 12)",
        init="self.m = nn.MultiheadAttention(12, 3, batch_first=True)",
    ),
    _one(
        "block_encoder",
        "self.m(x)",
        "torch.randn(2, 7, 12)",
        init="self.m = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True)",
    ),
    _one(
        "block_vlad",
        "b = x.shape[0]\na = torch.softmax(self.n(x.view(-1, 6) @ self.c), 1)[:, :4].view(b, -1, 4)\n"
        "s = a.sum(1, keepdim=True) * self.d\n"
        "v = torch.matmul(a.transpose(1, 2), x).transpose(1, 2) - s\n"
        "return F.normalize(F.normalize(v).reshape(b, -1))",
        "torch.randn(2, 5, 6)",
        init="self.c = nn.Parameter(torch.randn(6, 5))\nself.n = nn.BatchNorm1d(5)\nself.d = nn.Parameter(torch.randn(1, 6, 4))",
    ),
    _one(
        "block_vit",
        "p = self.c(x).flatten(2).transpose(1, 2)\n"
        "p = torch.cat((self.t.expand(x.shape[0], -1, -1), p), 1) + self.pos\n"
        "return self.h(self.b(p)[:, 0])",
        "torch.randn(2, 3, 8, 8)",
        init="self.c = nn.Conv2d(3, 12, 4, 4)\nself.t = nn.Parameter(torch.randn(1, 1, 12))\n"
        "self.pos = nn.Parameter(torch.randn(1, 5, 12))\n"
        "self.b = nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 2, 20, batch_first=True), 1)\n"
        "self.h = nn.Linear(12, 4)",
    ),
    _one(
        "block_window_attention",
        "b, n, c = x.shape\nq, k, v = self.qkv(x).reshape(b, n, 3, 2, 6).permute(2, 0, 3, 1, 4)\n"
        "a = (q * 0.4) @ k.transpose(-2, -1)\n"
        "r = self.table[self.index.view(-1)].view(4, 4, 2).permute(2, 0, 1).contiguous()\n"
        "return (torch.softmax(a + r[None], -1) @ v).transpose(1, 2).reshape(b, n, c)",
        "torch.randn(3, 4, 12)",
        init="self.qkv = nn.Linear(12, 36)\nself.table = nn.Parameter(torch.randn(9, 2))\n"
        "self.register_buffer('index', torch.randint(0, 9, (4, 4)))",
    ),
    _one(
        "block_rope",
        "t = torch.arange(7).float()\nf = torch.outer(t, 1.0 / 100 ** (torch.arange(0, 8, 2).float() / 8))\n"
        "e = torch.cat((f, f), -1)\nh = torch.cat((-x[..., 4:], x[..., :4]), -1)\n"
        "return x * e.cos() + h * e.sin()",
        "torch.randn(2, 3, 7, 8)",
    ),
    _one(
        "block_token_model",
        "h = self.e(i) + self.p(torch.arange(i.shape[1]))\nreturn self.h(F.relu(self.l(h)))",
        "torch.randint(0, 11, (2, 7))",
        "i",
        "self.e, self.p = nn.Embedding(11, 8), nn.Embedding(9, 8)\n"
        "self.l, self.h = nn.Linear(8, 12), nn.Linear(12, 11)",
    ),
)
FAMILIES = (
    *SCANS,
    *ARGS,
    *GATHERS,
    *MAPS,
    *REDUCTIONS,
    *LOSSES,
    *PRODUCTS,
    *WINDOWS,
    *CONVOLUTIONS,
    *BLOCKS,
)
