"""Module files of our own, one for each family that people write; small odd shapes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FORM = """import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
{init}

    def forward(self, {args}):
{body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module file. kernels: how many its import may make at most."""

    name: str
    init: str = "pass"
    args: str = "x"
    body: str
    inputs: str = "torch.randn(5, 37)"
    kernels: int = 1

    def text(self) -> str:
        """Return the file."""
        body = self.body if "return" in self.body else f"return {self.body}"
        return FORM.format(
            init=_indented(self.init), args=self.args, body=_indented(body), inputs=self.inputs
        )

    def write(self, folder: Path) -> Path:
        """Write the file into `folder` and return its path."""
        path = folder / f"{self.name}.py"
        path.write_text(self.text())
        return path


def _indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.splitlines())


def _pointwise(name: str, body: str) -> Module:
    return Module(name=f"pointwise_{name}", body=body, inputs="torch.randn(3, 5, 11)")


IMAGE = "torch.randn(2, 6, 13, 11)"
POINTWISE = tuple(
    _pointwise(name, body)
    for name, body in {
        "relu": "F.relu(x)",
        "leaky_relu": "F.leaky_relu(x, 0.2)",
        "elu": "F.elu(x, 1.3)",
        "selu": "F.selu(x)",
        "gelu": "F.gelu(x)",
        "gelu_tanh": "F.gelu(x, approximate='tanh')",
        "silu": "F.silu(x)",
        "mish": "F.mish(x)",
        "softplus": "F.softplus(x, 2.0, 3.0)",
        "hardtanh": "F.hardtanh(x, -0.5, 0.7)",
        "hardswish": "F.hardswish(x)",
        "hardsigmoid": "F.hardsigmoid(x)",
        "softsign": "F.softsign(x)",
        "log_sigmoid": "F.logsigmoid(x)",
        "tanh": "torch.tanh(x)",
        "clamp": "x.clamp(min=-0.3)",
        "chain": "torch.sigmoid(x * 2.0 + 1.0) / (x.abs() + 0.5) - x ** 2",
        "masked": "x.masked_fill(x > 0.5, -1.0)",
        "where": "torch.where(x < 0, x * 0.1, torch.sqrt(x.abs() + 1.0))",
        "tanhshrink": "x - torch.tanh(x)",
    }.items()
)
ROWS = (
    Module(name="rows_softmax", body="torch.softmax(x, -1)"),
    Module(name="rows_softmax_channels", body="torch.softmax(x, 1)", inputs=IMAGE),
    Module(name="rows_log_softmax", body="F.log_softmax(x, 1)"),
    Module(name="rows_logsumexp", body="torch.logsumexp(x, dim=1)"),
    Module(name="rows_mean_middle", body="x.mean(1)", inputs="torch.randn(3, 7, 5)"),
    Module(name="rows_mean_all", body="x.mean()"),
    Module(name="rows_sum_two", body="x.sum((1, 3), keepdim=True)", inputs=IMAGE),
    Module(name="rows_max", body="x.max(1)[0]"),
    Module(name="rows_amin", body="x.amin((0, 2))", inputs="torch.randn(3, 7, 5)"),
    Module(name="rows_var", body="x.var(-1)"),
    Module(name="rows_norm", body="x / x.norm(p=2, dim=1, keepdim=True)"),
    Module(name="rows_l1", body="x / x.abs().sum(1, keepdim=True)"),
    Module(name="rows_long", body="torch.softmax(x, -1)", inputs="torch.randn(2, 17001)"),
    Module(
        name="rows_layer_norm",
        init="self.n = nn.LayerNorm(37)",
        body="self.n(x)",
    ),
    Module(
        name="rows_layer_norm_two",
        init="self.n = nn.LayerNorm((13, 11))",
        body="self.n(x)",
        inputs=IMAGE,
    ),
    Module(name="rows_rms_norm", init="self.n = nn.RMSNorm(37)", body="self.n(x)"),
    Module(
        name="rows_group_norm", init="self.n = nn.GroupNorm(3, 6)", body="self.n(x)", inputs=IMAGE
    ),
    Module(
        name="rows_instance_norm",
        init="self.n = nn.InstanceNorm2d(6, affine=True)",
        body="self.n(x)",
        inputs=IMAGE,
    ),
    Module(
        name="rows_batch_norm", init="self.n = nn.BatchNorm2d(6)", body="self.n(x)", inputs=IMAGE
    ),
    Module(
        name="rows_mse",
        args="x, y",
        body="F.mse_loss(x, y)",
        inputs="torch.randn(5, 37), torch.randn(5, 37)",
    ),
    Module(
        name="rows_huber",
        args="x, y",
        body="F.smooth_l1_loss(x, y)",
        inputs="torch.randn(5, 37), torch.randn(5, 37)",
    ),
)
PRODUCTS = (
    Module(
        name="product_plain",
        args="a, b",
        body="a @ b",
        inputs="torch.randn(9, 33), torch.randn(33, 7)",
    ),
    Module(
        name="product_transposed",
        args="a, b",
        body="a.T @ b.T",
        inputs="torch.randn(33, 9), torch.randn(7, 33)",
    ),
    Module(
        name="product_batched",
        args="a, b",
        body="torch.bmm(a, b)",
        inputs="torch.randn(3, 9, 17), torch.randn(3, 17, 7)",
    ),
    Module(
        name="product_tall",
        args="a, b",
        body="a @ b",
        inputs="torch.randn(2, 3, 9, 17), torch.randn(17, 7)",
    ),
    Module(name="product_linear_gelu", init="self.l = nn.Linear(37, 19)", body="F.gelu(self.l(x))"),
    Module(
        name="product_linear_rank3",
        init="self.l = nn.Linear(37, 19)",
        body="torch.relu(self.l(x)) * 2",
        inputs="torch.randn(2, 5, 37)",
    ),
    Module(
        name="product_mlp",
        init="self.a = nn.Linear(37, 19)\nself.b = nn.Linear(19, 5, bias=False)",
        body="self.b(F.relu(self.a(x)))",
        kernels=2,
    ),
    Module(
        name="product_swiglu",
        init="self.g = nn.Linear(37, 19)\nself.u = nn.Linear(37, 19)\nself.d = nn.Linear(19, 37)",
        body="self.d(F.silu(self.g(x)) * self.u(x))",
        kernels=3,
    ),
    Module(
        name="product_linear_softmax",
        init="self.l = nn.Linear(37, 19)",
        body="torch.softmax(self.l(x), -1)",
        kernels=2,
    ),
    Module(
        name="product_matvec",
        args="a, v",
        body="a @ v",
        inputs="torch.randn(9, 33), torch.randn(33)",
    ),
    Module(
        name="product_triangle",
        args="a, b",
        body="torch.tril(torch.tril(a) @ torch.tril(b))",
        inputs="torch.randn(9, 9), torch.randn(9, 9)",
        kernels=3,
    ),
    Module(
        name="product_einsum",
        args="q, k",
        body="torch.einsum('bqhd,bkhd->bhqk', q, k)",
        inputs="torch.randn(2, 5, 3, 8), torch.randn(2, 7, 3, 8)",
        kernels=3,
    ),
)
ATTENTION = (
    Module(
        name="attention_causal",
        args="q, k, v",
        body="F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        inputs="torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8)",
        kernels=1,
    ),
    Module(
        name="attention_masked",
        args="q, k, v, m",
        body="F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
        inputs="torch.randn(2, 3, 5, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8), "
        "torch.randn(2, 1, 5, 9)",
        kernels=1,
    ),
    Module(
        name="attention_grouped",
        args="q, k, v",
        body="F.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
        inputs="torch.randn(2, 4, 5, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 8)",
        kernels=3,
    ),
    Module(
        name="attention_self",
        init="self.qkv = nn.Linear(24, 72)\nself.o = nn.Linear(24, 24)",
        body="b, s, c = x.shape\n"
        "q, k, v = self.qkv(x).reshape(b, s, 3, 2, 12).permute(2, 0, 3, 1, 4)\n"
        "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)\n"
        "return self.o(y.transpose(1, 2).reshape(b, s, c))",
        inputs="torch.randn(2, 7, 24)",
        kernels=4,
    ),
)


def _conv(
    name: str, layer: str, *, body: str = "self.c(x)", inputs: str = IMAGE, kernels: int = 1
) -> Module:
    return Module(
        name=f"conv_{name}", init=f"self.c = {layer}", body=body, inputs=inputs, kernels=kernels
    )


CONVOLUTIONS = (
    _conv("plain", "nn.Conv2d(6, 9, 3, padding=1)", body="F.relu(self.c(x))"),
    _conv("strided", "nn.Conv2d(6, 9, 3, stride=2, padding=1, bias=False)"),
    _conv("one_by_one", "nn.Conv2d(6, 9, 1)"),
    _conv("dilated", "nn.Conv2d(6, 9, (3, 2), padding=(2, 1), dilation=(2, 1))"),
    _conv("grouped", "nn.Conv2d(6, 9, 3, padding=1, groups=3)"),
    _conv("depthwise", "nn.Conv2d(6, 6, 3, padding=1, groups=6)"),
    _conv("depthwise_two", "nn.Conv2d(6, 12, 3, stride=2, groups=6, bias=False)"),
    _conv("1d", "nn.Conv1d(6, 9, 5, padding=2)", inputs="torch.randn(2, 6, 31)"),
    _conv("3d", "nn.Conv3d(3, 5, 3, padding=1)", inputs="torch.randn(1, 3, 5, 6, 7)"),
    _conv("transposed", "nn.ConvTranspose2d(6, 9, 3, padding=1)", inputs="torch.randn(2, 6, 5, 4)"),
    _conv(
        "transposed_strided",
        "nn.ConvTranspose2d(6, 9, 3, stride=2, padding=1, output_padding=1)",
        inputs="torch.randn(2, 6, 5, 4)",
        kernels=9,
    ),
    _conv(
        "transposed_grouped",
        "nn.ConvTranspose2d(6, 4, 3, groups=2)",
        inputs="torch.randn(2, 6, 5, 4)",
        kernels=2,
    ),
    Module(
        name="conv_batch_norm_relu",
        init="self.c = nn.Conv2d(6, 9, 3, padding=1, bias=False)\nself.n = nn.BatchNorm2d(9)",
        body="F.relu(self.n(self.c(x)))",
        inputs=IMAGE,
    ),
    Module(
        name="conv_chain_pool",
        init="self.c = nn.Conv2d(6, 9, 3)\nself.b = nn.Parameter(torch.randn(9, 1, 1))",
        body="F.max_pool2d(torch.tanh(self.c(x) - 0.5) + self.b, 2)",
        inputs=IMAGE,
        kernels=2,
    ),
)
WINDOWS = (
    Module(name="pool_max", body="F.max_pool2d(x, 3, 2, 1)", inputs=IMAGE),
    Module(name="pool_max_dilated", body="F.max_pool2d(x, 3, 1, 1, dilation=2)", inputs=IMAGE),
    Module(name="pool_max_1d", body="F.max_pool1d(x, 4, 3)", inputs="torch.randn(2, 5, 23)"),
    Module(name="pool_max_3d", body="F.max_pool3d(x, 2)", inputs="torch.randn(1, 3, 6, 5, 7)"),
    Module(name="pool_avg", body="F.avg_pool2d(x, 3, 2, 1)", inputs=IMAGE),
    Module(
        name="pool_avg_inside",
        body="F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)",
        inputs=IMAGE,
        kernels=2,
    ),
    Module(name="pool_global", body="F.adaptive_avg_pool2d(x, 1).flatten(1)", inputs=IMAGE),
    Module(
        name="pool_adaptive",
        body="F.adaptive_avg_pool2d(x, (3, 2))",
        inputs="torch.randn(2, 4, 12, 6)",
    ),
)
LAYOUTS = (
    Module(name="layout_transpose", body="x.transpose(1, 2).contiguous() + 1", inputs=IMAGE),
    Module(name="layout_permuted_output", body="x.permute(2, 0, 1)", inputs="torch.randn(3, 4, 5)"),
    Module(
        name="layout_cat",
        args="x, y",
        body="torch.cat([x, torch.relu(y), x], 1)",
        inputs="torch.randn(3, 4, 5), torch.randn(3, 2, 5)",
        kernels=3,
    ),
    Module(name="layout_stack", body="torch.stack([x, x * 2], 1)", kernels=3),
    Module(name="layout_slices", body="x[:, ::2][:, :18] * x[:, 1::2]"),
    Module(
        name="layout_chunk",
        body="a, b = x.chunk(2, 1)\nreturn a * torch.sigmoid(b)",
        inputs="torch.randn(5, 38)",
    ),
    Module(name="layout_glu", body="F.glu(x, 1)", inputs="torch.randn(5, 38)"),
    Module(name="layout_roll", body="torch.roll(x, 3, 1)", kernels=2),
    Module(name="layout_pad", body="F.pad(x, (1, 2, 0, 3), value=0.5)", kernels=6),
    Module(name="layout_repeat", body="x.repeat(2, 3)"),
    Module(
        name="layout_upsample",
        body="F.interpolate(x, scale_factor=2, mode='nearest')",
        inputs="torch.randn(2, 3, 4, 5)",
    ),
    Module(
        name="layout_pixel_shuffle", body="F.pixel_shuffle(x, 2)", inputs="torch.randn(2, 12, 4, 5)"
    ),
    Module(
        name="layout_rotary",
        args="x, c, s",
        body="h = x.shape[-1] // 2\n"
        "r = torch.cat([-x[..., h:], x[..., :h]], -1)\nreturn x * c + r * s",
        inputs="torch.randn(2, 3, 7, 8), torch.randn(7, 8), torch.randn(7, 8)",
        kernels=3,
    ),
    Module(name="layout_two_results", body="return x + 1, x.sum(1)", kernels=2),
    Module(name="layout_same_twice", body="y = x * 2\nreturn {'a': y, 'b': y}", kernels=2),
    Module(
        name="layout_causal_mask",
        body=(
            "m = torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)\n"
            "return torch.softmax(x.masked_fill(m, float('-inf')), -1)"
        ),
        inputs="torch.randn(2, 7, 7)",
    ),
    Module(name="layout_positions", body="return x + torch.arange(37) * 0.5"),
)
RECURRENT = (
    Module(
        name="recurrent_lstm",
        init="self.m = nn.LSTM(6, 5, num_layers=2, batch_first=True)",
        body="y, (h, c) = self.m(x)\nreturn y, h, c",
        inputs="torch.randn(3, 4, 6)",
        kernels=15,
    ),
    Module(
        name="recurrent_projected",
        init="self.m = nn.LSTM(6, 5, proj_size=3, bidirectional=True)",
        body="y, (h, c) = self.m(x, (y, z))\nreturn y, h, c",
        args="x, y, z",
        inputs="torch.randn(3, 2, 6), torch.randn(2, 2, 3), torch.randn(2, 2, 5)",
        kernels=24,
    ),
    Module(
        name="recurrent_projected_step",
        init="self.m = nn.LSTM(6, 5, proj_size=3, batch_first=True, bias=False)",
        body="y, (h, c) = self.m(x)\nreturn y, h, c",
        inputs="torch.randn(3, 1, 6)",
        kernels=6,
    ),
    Module(
        name="recurrent_gru",
        init="self.m = nn.GRU(6, 5, bidirectional=True)",
        body="self.m(x)[0]",
        inputs="torch.randn(4, 3, 6)",
        kernels=8,
    ),
)
MODULES = (*RECURRENT, *POINTWISE, *ROWS, *PRODUCTS, *ATTENTION, *CONVOLUTIONS, *WINDOWS, *LAYOUTS)
