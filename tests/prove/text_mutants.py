"""Faults of an emitter or of a hand, planted into printed kernels: one number, name, operator or line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from septran.kernel import Kernel

_BODIES = {
    "cpp": r'^extern "C" [^\n]*_entry\(void\* const\* args\) \{\n(.*?)^\}\n',
    "cuda_c": r"^__global__ void [^\n]* \{\n(.*?)^\}\n",
    "dsa_c": r"^static void kernel\(void \*opaque\) \{\n(.*?)^\}\n",
}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/")
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_STATEMENT = re.compile(
    r"^ *(?:(?:st::|leaf_|vendor_lib_)\w*|__syncthreads)[^\n;]*\(.*?\);[^\n]*\n", re.M | re.S
)


def text_mutants(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """Yield (name, kernel) of each single fault in the hierarchy's text, in its order."""
    text = dict(kernel.files)[kernel.main]
    for body in re.finditer(_BODIES[kernel.backend], text, re.M | re.S):
        for name, new in _edits(body.group(1)):
            whole = text[: body.start(1)] + new + text[body.end(1) :]
            files = tuple((n, whole if n == kernel.main else t) for n, t in kernel.files)
            yield name, replace(kernel, files=files)


def _edits(body: str) -> Iterator[tuple[str, str]]:
    comments = [m.span() for m in _COMMENT.finditer(body)]
    for m in _NUMBER.finditer(body):
        if any(a <= m.start() < b for a, b in comments):
            continue
        line = body.count("\n", 0, m.start()) + 1
        put = str(int(m.group()) + 1)
        yield f"line {line}: {put} for {m.group()}", body[: m.start()] + put + body[m.end() :]
    for m in _STATEMENT.finditer(body):
        line = body.count("\n", 0, m.start()) + 1
        what = m.group().split("(")[0].strip()
        yield f"line {line}: {what} dropped", body[: m.start()] + body[m.end() :]
        yield f"line {line}: {what} twice", body[: m.end()] + m.group() + body[m.end() :]
