"""Leaf specs, replies and judges for the agent's tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from septran.agent.writer import LeafVerdict
from septran.backends.cpp.backend import CPP
from septran.backends.cpp.emit import runtime_folder
from septran.ir.nodes import Prim
from septran.kernel import Leaf, LeafParam, LeafSpec

BACKEND = CPP


def param(name: str, shape: tuple[int, ...], privilege: str, dtype: str = "float32") -> LeafParam:
    return LeafParam(
        name=name,
        shape=shape,
        dtype=dtype,
        mem="SHARED",
        layout="row",
        privilege=privilege,  # type: ignore[arg-type]
        ragged=(True,) * len(shape),
        step=(1,) * len(shape),
    )


def spec(task: str, params: tuple[LeafParam, ...], *prims: Prim) -> LeafSpec:
    return LeafSpec(
        task=task, backend="cpp", arch="native", proc="CORE", params=params, scalars=(), prims=prims
    )


RELU = spec(
    "relu",
    (param("Y", (32, 64), "w"), param("X", (32, 64), "r")),
    Prim(name="map", out="Y", named=(("x", "X"),), attrs=(("expr", "max(x, 0)"),)),
)
GEMM = spec(
    "mma",
    (param("C", (32, 48), "rw"), param("A", (32, 16), "r"), param("B", (16, 48), "r")),
    Prim(name="gemm_acc", out="C", ins=("A", "B")),
)
SOFTMAX = spec(
    "softmax",
    (param("Y", (8, 64), "w"), param("X", (8, 64), "r"), param("m", (8, 1), "w")),
    Prim(name="reduce", out="m", ins=("X",), attrs=(("axis", 1), ("op", "max"))),
    Prim(name="map", out="Y", named=(("m", "m"), ("x", "X")), attrs=(("expr", "exp(x - m)"),)),
)

RIGHT = """for (long i = 0; i < Y.n[0]; ++i)
    for (long j = 0; j < Y.n[1]; ++j) {
        const float x = X(i, j);
        Y(i, j) = x < 0 ? 0 : x;
    }
"""
WRONG = RIGHT.replace("x < 0 ? 0 : x", "x")
BROKEN = RIGHT.replace(
    "x = X(i, j);", "x = X(i, j);\n        const float frozen = x;\n        frozen += x;"
)
TAIL = RIGHT.replace("j < Y.n[1]", "j < Y.n[1] / 4 * 4")


def marked(name: str, body: str = RIGHT) -> str:
    """Return `body` with a variable that nothing reads: the marks that survive printing (comments do not)."""
    return f"const long {name} = 0;\n{body}"


def fenced(body: str, tag: str = "cpp") -> str:
    """Return a reply with `body` in a code block."""
    return f"Here is the body:\n\n```{tag}\n{body}```\n"


@dataclass
class FakeJudge:
    """Judges by the text of the source; counts what it was asked."""

    rule: Callable[[str], LeafVerdict]
    seen: list[Leaf] = field(default_factory=list)
    told: str = ""

    def library(self, spec: LeafSpec) -> str:
        return self.told

    def check(self, leaf: Leaf) -> LeafVerdict:
        self.seen.append(leaf)
        return self.rule(leaf.source)


def by_markers(source: str) -> LeafVerdict:
    """Return a verdict from words in the source: `frozen`, `crash`, `slow`, `fast`, else right or wrong relu."""
    if "frozen" in source:
        return LeafVerdict(
            level="emitted",
            status="compile_error",
            message="kernel.cpp:4: error: assignment of read-only variable 'frozen'",
        )
    if "crash" in source:
        return LeafVerdict(level="compiled", status="crash", message="signal 11")
    if "x < 0 ? 0 : x" not in source:
        return LeafVerdict(
            level="ran",
            status="wrong",
            message="288 of 512 elements are wrong",
            worst="Y[0, 3] = -1.5, expected 0",
        )
    seconds = 2e-6 if "slow" in source else 0.5e-6 if "fast" in source else 0.9e-6
    return LeafVerdict(
        level="accurate", status="ok", seconds=seconds, baseline_seconds=1e-6, roofline=0.4
    )


_CHILD = """
import ctypes, json, sys
job = json.loads(sys.stdin.read())
lib = ctypes.CDLL(job["library"])
arrays, keep = [], []
for data in job["data"]:
    keep.append((ctypes.c_float * len(data))(*data))
    arrays.append(ctypes.addressof(keep[-1]))
extents = [n for shape in job["shapes"] for n in shape]
lib.call((ctypes.c_void_p * len(arrays))(*arrays), (ctypes.c_long * len(extents))(*extents))
print(json.dumps([list(k) for k in keep]))
"""


class CompilingJudge:
    """A small real judge for relu leaves: g++ in a child, run in another child, compared element by element."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def library(self, spec: LeafSpec) -> str:
        return ""

    def check(self, leaf: Leaf) -> LeafVerdict:
        self._count += 1
        library = self._folder / f"leaf{self._count}.so"
        built = self._compile(leaf, library)
        if built:
            return LeafVerdict(level="emitted", status="compile_error", message=built)
        for shape in ((1, 1), (7, 13), (32, 64)):
            verdict = self._run(library, shape)
            if verdict is not None:
                return verdict
        return LeafVerdict(level="accurate", status="ok", seconds=1e-6, baseline_seconds=2e-6)

    def _compile(self, leaf: Leaf, library: Path) -> str:
        parts = [(runtime_folder() / f"{n}.h").read_text() for n in ("view", "vec", "vmath")]
        views = []
        for k, p in enumerate(leaf.spec.params):
            kind = "const float" if p.privilege == "r" else "float"
            n = f"n[{2 * k}], n[{2 * k + 1}]"
            views.append(f"st::View<{kind}, 2>{{({kind}*)p[{k}], {{{n}}}, {{n[{2 * k + 1}], 1}}}}")
        call = (
            f'extern "C" void call(void** p, long* n) {{ {leaf.spec.symbol}({", ".join(views)}); }}'
        )
        source = library.with_suffix(".cpp")
        source.write_text("\n".join([*parts, leaf.source, call]))
        command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-Wno-psabi", "-o"]
        done = subprocess.run(
            [*command, str(library), str(source)], capture_output=True, text=True, timeout=120
        )
        return done.stderr if done.returncode else ""

    def _run(self, library: Path, shape: tuple[int, int]) -> LeafVerdict | None:
        count = shape[0] * shape[1]
        data = [(i * 37 % 11) - 5.0 for i in range(count)]
        job = {
            "library": str(library),
            "data": [[float("nan")] * count, data],
            "shapes": [shape, shape],
        }
        done = subprocess.run(
            [sys.executable, "-c", _CHILD],
            input=json.dumps(job),
            capture_output=True,
            text=True,
            timeout=60,
        )
        if done.returncode:
            return LeafVerdict(level="compiled", status="crash", message=f"exit {done.returncode}")
        found = json.loads(done.stdout)[0]
        for i, (got, x) in enumerate(zip(found, data, strict=True)):
            if got != max(x, 0.0):
                where = divmod(i, shape[1])
                return LeafVerdict(
                    level="ran",
                    status="wrong",
                    message=f"shape {shape}: Y{list(where)} = {got}, expected {max(x, 0.0)}",
                )
        return None
