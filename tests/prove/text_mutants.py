"""Faults of an emitter or of a hand, planted into printed kernels: one number, name, operator or line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from septran.kernel import Kernel
from tests.prove.tile_mutants import tile_faults

_PYTHON = r"^def (?!leaf_|st_)\w+\([^\n]*\):\n(.*?)(?=^\S|\Z)"
_TILELANG = r"^def main\(\n.*?^\):\n(.*)"
_BODIES = {
    "cpp": r'^extern "C" [^\n]*_entry\(void\* const\* args\) \{\n(.*?)^\}\n',
    "cuda_c": r"^__global__ void [^\n]* \{\n(.*?)^\}\n",
    "hip_c": r"^__global__ void [^\n]* \{\n(.*?)^\}\n",
    "dsa_c": r"^static void kernel\(void \*opaque\) \{\n(.*?)^\}\n",
    "triton_cuda": _PYTHON,
    "triton_hip": _PYTHON,
    "triton_npu": _PYTHON,
    "pallas_tpu": _PYTHON,
    "tilelang_cuda": _TILELANG,
    "tilelang_hip": _TILELANG,
    "tilelang_npuir": r"^def entry\([^\n]*\):\n(.*?)(?=^\S)",
}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/")
_DOCSTRING = re.compile(r'""".*?"""', re.S)
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_STATEMENT = re.compile(
    r"^ *(?:(?:st::|leaf_|vendor_lib_)\w*|__syncthreads)[^\n;]*\(.*?\);[^\n]*\n", re.M | re.S
)
_LINE = re.compile(r"^ +(?:\w+(?:, \w+)* = |tl\.|T\.|leaf_|\w+\[)[^\n]*\n", re.M)
_SLIPS: tuple[tuple[str, str, str], ...] = (
    ("a mask dropped", r", mask=.*?(?=, other=|\)\n|\), )", ""),
    ("a fill dropped", r", other=[^,)]*", ""),
    ("a condition dropped", r"\((?:(?!\(\().)*?\)\[[^\]]*\] & ", ""),
    ("<= for <", r" < ", " <= "),
    ("> for >=", r" >= ", " > "),
    ("+ for -", r" - ", " + "),
    ("- for +", r" \+ ", " - "),
    ("// for %", r" % ", " // "),
    ("rows for columns", r"\[:, None\]", "[None, :]"),
    ("columns for rows", r"\[None, :\]", "[:, None]"),
    ("64 bits dropped", r"\.to\(tl\.int64\)", ""),
    ("max for min", r"\bmin\(", "max("),
    ("tl.range without stages", r", num_stages=\d+\):", "):"),
    ("any core for one", r'"arbitrary"', '"parallel"'),
    ("always the first block", r"(lambda [^:]*: \(.*?)\b[ijk]\d+\b", r"\g<1>0"),
    ("a stride dropped", r", stride=\d+", ""),
    ("an alias dropped", r" *input_output_aliases=[^\n]*\n", ""),
    ("a condition dropped", r"@pl\.when\(.*\)", "@pl.when(0 == 0)"),
)
"""(name, pattern, what stands in its place) of slips in Triton and Pallas text"""


def text_mutants(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Yield (name, kernel) of each single fault in the hierarchy's text, in its order."""
    text = dict(kernel.files)[kernel.main]
    for body in re.finditer(_BODIES[kernel.backend], text, re.M | re.S):
        tiles = tile_faults(body.group(1)) if kernel.backend.startswith("tilelang") else ()
        edits = _edits(body.group(1), python=kernel.source.startswith('"""'))
        for name, new in (*edits, *tiles):
            whole = text[: body.start(1)] + new + text[body.end(1) :]
            if whole == text:
                continue
            files = tuple((n, whole if n == kernel.main else t) for n, t in kernel.files)
            yield name, replace(kernel, files=files)


def _edits(body: str, *, python: bool) -> Iterator[tuple[str, str]]:
    comments = [m.span() for m in (_DOCSTRING if python else _COMMENT).finditer(body)]
    for m in _NUMBER.finditer(body):
        if any(a <= m.start() < b for a, b in comments):
            continue
        line = body.count("\n", 0, m.start()) + 1
        put = str(int(m.group()) + 1)
        yield f"line {line}: {put} for {m.group()}", body[: m.start()] + put + body[m.end() :]
    for name, pattern, new in _SLIPS if python else ():
        for m in re.finditer(pattern, body):
            line = body.count("\n", 0, m.start()) + 1
            yield f"line {line}: {name}", body[: m.start()] + m.expand(new) + body[m.end() :]
    for m in (_LINE if python else _STATEMENT).finditer(body):
        line = body.count("\n", 0, m.start()) + 1
        what = m.group().split("(")[0].strip()
        yield f"line {line}: {what} dropped", body[: m.start()] + body[m.end() :]
        yield f"line {line}: {what} twice", body[: m.end()] + m.group() + body[m.end() :]
