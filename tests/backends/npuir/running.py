"""Emit for NPUIR and run in the simulator (our own kernels, so no sandbox)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from septran.backends.npuir.backend import TILELANG_NPUIR as BACKEND
from septran.backends.npuir.dialect import dialect_errors
from septran.backends.tilesim import SimError, run_file
from septran.backends.tilesim.npu import npu_dialect
from septran.bind.bind import ArgType, bind
from septran.kernel import Kernel, leaf_specs
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.passes import lower
from septran.tasklang.load import load_logic
from tests.backends import operators
from tests.backends.triton.running import stored, values
from tests.passes.writing import program

OPERATORS = operators.all_operators()


def kernel_of(name: str, dims: Mapping[str, int], dtype: str = "float32") -> Kernel:
    op, path = OPERATORS[name]
    program = operators.program_of(op, path, BACKEND, "910b", dtype, dims)
    leaves = {}
    for _, spec in leaf_specs(program):
        leaf = BACKEND.library(spec)
        assert leaf is not None, spec
        leaves[spec.key] = leaf
    return BACKEND.emit(program, leaves)


def kernel_of_logic(
    text: str, entry: str, shapes: Mapping[str, tuple[int, ...]], folder: Path
) -> Kernel:
    """The kernel of a logic file's task under the shipped policy, in float32."""
    path = folder / "logic.py"
    path.write_text(text, encoding="utf-8")
    logic = load_logic(path)
    bound = bind(
        logic.tasks[entry],
        load_mapping(operators.ROOT / "mappings" / "tilelang_npuir.910b.mapping.yaml"),
        load_machine(BACKEND.machine("910b")),
        {name: ArgType(shape=shape, dtype="float32") for name, shape in shapes.items()},
        tasks=logic.tasks,
        arch="910b",
    )
    return BACKEND.emit(lower(bound.program, BACKEND.passes), {})


def inputs_of(
    kernel: Kernel, seed: int = 1, ceiling: Callable[[str], int] = lambda _: 3
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {}
    for p in kernel.params:
        if p.privilege != "w":
            if p.dtype.startswith("int"):
                found[p.name] = rng.integers(0, ceiling(p.name), p.shape).astype(p.dtype)
            else:
                found[p.name] = stored(rng, p.shape, p.dtype)
    return found


def simulate(kernel: Kernel, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs as float64; raises SimError."""
    args, outs = [], {}
    for p in kernel.params:
        if p.privilege == "w":
            poison = 0x7FC1 if p.dtype == "bfloat16" else np.nan
            args.append(np.full(p.shape, poison, "uint16" if p.dtype == "bfloat16" else p.dtype))
        else:
            args.append(inputs[p.name].copy())
        if p.privilege != "r":
            outs[p.name] = (args[-1], p.dtype)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(kernel.source, encoding="utf-8")
        run_file(path, "entry", args, npu_dialect())
    return {n: values(a, d) for n, (a, d) in outs.items()}


def changed(kernel: Kernel, old: str, new: str) -> Kernel:
    """The kernel with `old` replaced everywhere in its text, which must have it."""
    assert old in kernel.source, kernel.source
    return replace(kernel, files=((kernel.main, kernel.source.replace(old, new)),))


def emitted(body: str) -> Kernel:
    """The kernel of a Program without leaves, written as text (see tests/passes/writing.py)."""
    return BACKEND.emit(replace(program(body), machine=BACKEND.machine("910b")), {})


def verdict(
    kernel: Kernel, inputs: Mapping[str, np.ndarray], want: np.ndarray, tolerance: float = 1e-4
) -> str:
    """What is wrong with a kernel, "" when nothing is."""
    problems = dialect_errors(kernel.source)
    if problems:
        return problems[0]
    try:
        (got,) = simulate(kernel, inputs).values()
    except SimError as e:
        return f"{e.kind}: {e}"
    error = np.abs(got - want) / (np.abs(want) + np.abs(want).mean() + 1e-9)
    return "" if np.isfinite(got).all() and error.max() < tolerance else "wrong result"


def expected(
    name: str, dims: Mapping[str, int], kernel: Kernel, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    op, _ = OPERATORS[name]
    kinds = {p.name: p.dtype for p in kernel.params}
    exact = {n: x if kinds[n].startswith("int") else values(x, kinds[n]) for n, x in inputs.items()}
    return operators.expected(op, dims, exact)
