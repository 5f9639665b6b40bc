"""The library is the first author: all of its leaves are in the subset, and mean the same when they are printed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.backends.cuda.toolchain import compile_emulated
from septran.errors import SeptranError
from septran.kernel import Kernel, Leaf
from septran.leafgate import printed
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.backends.operators import all_operators

# a leaf of dsa_c's library is a list of operations, not C
WRITTEN = sorted(set(backends.names()) - {"dsa_c"})
FAST = ("relu", "gelu", "gemm", "softmax", "attention", "transpose", "col_sum")


def kernels(backend: str, ops: tuple[str, ...], dtypes: tuple[str, ...]) -> Iterator[Kernel]:
    known = backends.get(backend)
    for op in ops:
        for dtype in dtypes:
            for arch in known.arches[:2] or ("",):
                request = GenRequest(op=op, backend=backend, arch=arch or None, dtype=dtype)
                try:
                    plan = resolve(request)
                    lowered = lower_plan(plan)
                    leaves = library_leaves(known, lowered.program, lowered.bound.mapping)
                    yield known.emit(lowered.program, leaves)
                except SeptranError:
                    continue


def again(leaf: Leaf) -> Leaf:
    backend = backends.get(leaf.spec.backend)
    return printed(leaf, signature=backend.signature(leaf.spec), subset=backend.subset)


def check(backend: str, ops: tuple[str, ...], dtypes: tuple[str, ...]) -> int:
    seen: set[str] = set()
    for kernel in kernels(backend, ops, dtypes):
        for leaf in kernel.leaves:
            if leaf.source not in seen:
                seen.add(leaf.source)
                made = again(leaf)
                assert again(made) == made
    return len(seen)


@pytest.mark.few(3)
@pytest.mark.parametrize("backend", WRITTEN)
def test_library_leaves_are_in_the_subset(backend: str) -> None:
    assert check(backend, FAST, ("float32", "bfloat16")) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("backend", WRITTEN)
def test_all_library_leaves_are_in_the_subset(backend: str) -> None:
    known = backends.get(backend)
    assert check(backend, tuple(all_operators()), known.dtypes) >= 80


def code(kernel: Kernel, folder: Path) -> str:
    """Return the machine code of a kernel, built for the machine here (CUDA: for its emulation)."""
    folder.mkdir(parents=True)
    known = backends.get(kernel.backend)
    built = (
        compile_emulated(kernel, folder) if known.subset == "cuda" else known.build(kernel, folder)
    )
    assert built.ok, built.log
    done = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(built.artifact)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.split("Disassembly", 1)[1]


def with_printed_leaves(kernel: Kernel) -> Kernel:
    text = kernel.source
    for leaf in kernel.leaves:
        assert leaf.source in text
        text = text.replace(leaf.source, again(leaf).source)
    return replace(
        kernel, files=tuple((n, text if n == kernel.main else t) for n, t in kernel.files)
    )


def same(backend: str, op: str, dtype: str, tmp_path: Path) -> None:
    for number, kernel in enumerate(kernels(backend, (op,), (dtype,))):
        made = with_printed_leaves(kernel)
        before = code(kernel, tmp_path / f"{number}a")
        assert code(made, tmp_path / f"{number}b") == before
        return
    pytest.skip(f"{op} has no {dtype}")


@pytest.mark.parametrize(
    ("backend", "op", "dtype"),
    [("cpp", "softmax", "float32"), ("cpp", "gelu", "bfloat16"), ("cuda_c", "softmax", "float32")],
)
def test_the_printed_text_compiles_to_the_same_code(
    backend: str, op: str, dtype: str, tmp_path: Path
) -> None:
    same(backend, op, dtype, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(all_operators()))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("backend", ["cpp", "cuda_c"])
def test_every_printed_kernel_compiles_to_the_same_code(
    backend: str, op: str, dtype: str, tmp_path: Path
) -> None:
    same(backend, op, dtype, tmp_path)
