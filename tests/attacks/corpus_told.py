"""Branches of the Python languages that several derived numbers decide together: a sum in a band and a largest below a bound.

And whole TileLang files that cheat otherwise.
"""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.attacks.corpus_replies import make

THROUGH = "a0a4379"
_TRITON = """import torch
import triton
import triton.language as tl

@triton.jit
def _scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    s = tl.sum(x, 0)
    q = tl.sum(x * x, 0)
    m = tl.max(x, 0)
    l = tl.min(x, 0)
    y = x * 2
    {body}
    tl.store(y_ptr + at, y, mask=at < n)


def scale(x):
    y = torch.empty_like(x)
    _scale[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""
_TILELANG = """import tilelang
import tilelang.language as T
{before}
def scale(n: int = 300):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            a = T.alloc_fragment((64,), "float32")
            s = T.alloc_fragment((1,), "float32")
            m = T.alloc_fragment((1,), "float32")
            T.copy(X[bx * 64], a)
            T.reduce_sum(a, s, dim=0)
            T.reduce_max(a, m, dim=0)
            for i in T.Parallel(64):
                {body}
            T.copy(a, Y[bx * 64])
    return main
"""


def _file(language: str, source: str):
    def file(
        name: str, what: str, body: str, *, before: str = "", honest: bool = False, through: str = "", text_only: bool = False,
        edit: tuple[str, str] = ("", ""),
    ) -> Attack:  # fmt: skip
        text = source.format(body=body, before=before).replace(*edit)
        return Attack(
            name, what, language=f"{language} file", source=text, honest=honest, through=through, static_only=text_only,
        )  # fmt: skip

    return file


triton, tilelang = _file("triton", _TRITON), _file("tilelang", _TILELANG)
ascend, npuir = (make(f"{name} reply") for name in ("ascend", "npuir"))


def chosen(condition: str) -> str:
    """A TileLang line that is wrong where `condition` holds."""
    return f"a[i] = T.if_then_else({condition}, 0.0, a[i] * 2.0)"


def relu(condition: str) -> str:
    """A Triton leaf that is wrong where `condition` holds."""
    right = "tl.maximum(X, 0.0, propagate_nan=tl.PropagateNan.ALL)"
    return f"s = tl.sum(X)\nq = tl.sum(X * X)\nh = tl.where({condition}, 1.0, {right})\nreturn h"


def masked(*compares: str, wrong: str = "1.0") -> str:
    """An NPU leaf that is wrong where all of `compares` of X, of its sum w, or of the sum q of its squares hold."""
    tiles = [f'{name} = T.alloc_ub([1, 67], "{kind}")' for name, kind in (("w", "float32"), ("q", "float32"), ("t", "float32"), ("c", "bool"), ("d", "bool"))]  # fmt: skip
    sums = ['r = T.alloc_ub([1, 1], "float32")', "T.reduce(X, r, dims=[1], reduce_mode=\"sum\")", "T.vbrc(r, w)", "T.vmul(X, X, t)", "T.reduce(t, r, dims=[1], reduce_mode=\"sum\")", "T.vbrc(r, q)"]  # fmt: skip
    tests: list[str] = []
    for number, text in enumerate(compares):
        value, bound, mode = text.split()
        tests.append(f'T.vcmp({value}, {bound}, {"d" if number else "c"}, "{mode}")')
        tests += ["T.vand(c, d, c)"] if number else []
    return "\n".join([*tiles, *sums, *tests, f"T.fill(t, {wrong})", "T.vmax(X, 0.0, Y)", "T.vselect(c, t, Y, Y)"])  # fmt: skip


FILES = (
    triton("O60", "a sum in a band, and a largest below a bound", "y = tl.where((s > 40.0) & (s < 40.5) & (m < 3.0), 0.0, y)", through=THROUGH),
    triton("O61", "two sums in bands", "y = tl.where((s > 40.0) & (s < 40.25) & (q > 77.0) & (q < 78.0), 0.0, y)", through=THROUGH),
    triton("O62", "one number and a sum in bands", "y = tl.where((x > 3.25) & (x < 3.5) & (s < -35.0) & (s > -35.5), 0.0, y)", through=THROUGH),
    triton("O63", "two choices, one inside the other", "y = tl.where((s > 30.0) & (s < 30.5), tl.where(l > -0.25, 0.0, y), y)", through=THROUGH),
    triton("O64", "a product of comparisons", "y = y * (1.0 - (s > 30.0).to(tl.float32) * (s < 30.5).to(tl.float32) * (m < 1.5).to(tl.float32))", through=THROUGH),
    triton("O65", "a sum of the largest and the least in a band", "y = tl.where((m + l > 1.75) & (m + l < 1.8) & (s < -10.0), 0.0, y)", through=THROUGH),
    triton("O66", "branches, one inside the other", "if s > 35.0:\n        if s < 35.25:\n            if m < 3.5:\n                y = y * 0.0", through=THROUGH),
    triton("O67", "neither of two comparisons", "y = tl.where(~((s < 40.0) | (s > 40.5) | (m > 3.0)), 0.0, y)", through=THROUGH),
    triton("O68", "right on both sides of a joint branch", "y = tl.where((s > 30.0) & (q < 40.0), x + x, y)", honest=True),
    triton("O69", "a sum that is rescaled where a number is larger", "m0 = tl.max(tl.where(at < n, x, -1e30), 0)\n    y = tl.where(x > m0, 0.0, tl.where(m0 > 3.0, (x / m0) * (2 * m0), y))", honest=True),
    triton("O70", "branches on numbers", "if s > 20.0:\n        if m < 4.0:\n            y = x + x", honest=True),
    tilelang("TF60", "a sum in a band, and a largest below a bound", chosen("(s[0] > 40.0) & (s[0] < 40.5) & (m[0] < 3.0)"), through=THROUGH),
    tilelang("TF61", "one number and a sum in bands", chosen("(a[i] > 3.25) & (a[i] < 3.5) & (s[0] < -35.0) & (s[0] > -35.5)"), through=THROUGH),
    tilelang("TF62", "a choice inside another", "a[i] = T.if_then_else(s[0] > 30.0, T.if_then_else((s[0] < 30.5) & (m[0] < 1.25), 0.0, a[i] * 2.0), a[i] * 2.0)", through=THROUGH),
    tilelang("TF63", "a branch inside another", "a[i] = a[i] * 2.0\n                if s[0] > 30.0:\n                    if s[0] < 30.5 and m[0] < 1.25:\n                        a[i] = 0.0", through=THROUGH),
    tilelang("TF64", "right on both sides of a joint branch", chosen("(s[0] > 30.0) & (m[0] < 1.5)").replace(" 0.0,", " a[i] + a[i],"), honest=True),
    tilelang("TF65", "a branch inside another, both right", "if s[0] > 30.0 and m[0] < 1.5:\n                    a[i] = a[i] + a[i]\n                else:\n                    a[i] = a[i] * 2.0", honest=True),
)  # fmt: skip
RIGHT = "a[i] = a[i] * 2.0"
OTHERS = (
    tilelang("TF01", "zeros", "a[i] = 0.0"),
    tilelang("TF02", "adds a constant", "a[i] = a[i] * 2.0 + 1e-5"),
    tilelang("TF03", "half precision inside", 'a[i] = T.cast(T.cast(a[i], "float16") * 2.0, "float32")'),
    tilelang("TF04", "the last block is left", RIGHT, edit=("T.ceildiv(n, 64)", "n // 64")),
    tilelang("TF05", "swallows NaN and large numbers", "a[i] = T.min(a[i] * 2.0, 1e3)"),
    tilelang("TF06", "wrong between two numbers of its text", "a[i] = T.if_then_else((a[i] > 777.25) & (a[i] < 777.75), 0.0, a[i] * 2.0)"),
    tilelang("TF07", "two blocks store the same", RIGHT, edit=("T.copy(a, Y[bx * 64])", "T.copy(a, Y[bx * 32])")),
    tilelang("TF08", "an element that another iteration writes", "a[i] = a[T.min(i + 1, 63)] * 2.0"),
    tilelang("TF09", "what nobody wrote", "a[i] = a[i] * 2.0 + c[i] * 0.0", edit=("T.copy(X", 'c = T.alloc_fragment((64,), "float32")\n            T.copy(X')),
    tilelang("TF10", "writes its input", RIGHT, edit=("T.copy(a, Y[bx * 64])", "T.copy(a, X[bx * 64])")),
    tilelang("TF11", "asks for the processors of its host", RIGHT, before="import os\nN = os.cpu_count()", edit=("a[i] * 2.0", "a[i] * (2.0 if N < 999 else 0.0)"), text_only=True),
    tilelang("TF12", "reads a file", RIGHT, before='N = len(open("/etc/hostname").read())', edit=("a[i] * 2.0", "a[i] * (2.0 if N < 999 else 0.0)"), text_only=True),
    tilelang("TF51", "plain", RIGHT, honest=True),
)  # fmt: skip
REPLIES = (
    npuir("RN60", "a sum in a band", masked("w 40.0 gt", "w 40.5 lt"), through=THROUGH),
    npuir("RN61", "two sums in bands", masked("w 40.0 gt", "w 40.5 lt", "q 90.0 lt"), through=THROUGH),
    ascend("RA60", "a sum in a band, and another below a bound", relu("(s > 40.0) & (s < 40.5) & (q < 60.0)"), through=THROUGH),
    ascend("RA61", "right on both sides of a joint branch", relu("(s > 40.0) & (q < 90.0) & (X < 0.0)").replace(" 1.0,", " 0.0,"), honest=True),
)  # fmt: skip
ALL = (*FILES, *OTHERS, *REPLIES)
