"""Operators of septran/ops as Programs and inputs, for tests of any backend."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from septran.backends.base import Backend
from septran.bind.bind import ArgType, bind
from septran.ir.nodes import Program
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.passes import lower
from septran.tasklang.load import execute_logic
from septran.tasklang.operator import Operator

ROOT = Path(__file__).resolve().parents[2]


def all_operators() -> dict[str, tuple[Operator, Path]]:
    found = {}
    for path in sorted((ROOT / "septran" / "ops").glob("*.py")):
        if not path.name.startswith("_"):
            found.update({n: (o, path) for n, o in execute_logic(path).operators.items()})
    return found


def program_of(
    op: Operator, path: Path, backend: Backend, arch: str, dtype: str, dims: Mapping[str, int]
) -> Program:
    """Bind with the target's policy and run the backend's passes."""
    full = op.bind_dims(dims)
    args: dict[str, object] = dict(op.scalar_values(full))
    for name, kind in op.types().items():
        args[name] = ArgType(
            shape=op.shape(name, full), dtype=dtype if kind.dtype == "T" else kind.dtype
        )
    folder = ROOT / "mappings"
    file = folder / f"{backend.name}.{arch}.mapping.yaml"
    if not file.is_file():
        file = folder / f"{backend.name}.mapping.yaml"
    machine = load_machine(backend.machine(arch))
    bound = bind(
        op.entry,
        load_mapping(file),
        machine,
        args,  # type: ignore[arg-type]
        tasks=execute_logic(path).tasks,
        arch=arch,
        cores=int(machine.limits.get("cores", 1)),
    )
    return lower(bound.program, backend.passes)


def ceiling(op: Operator, name: str, dims: Mapping[str, int]) -> int:
    """The integer that values of an integer input stay below: small, and inside its domain."""
    domain = op.domains.get(name)
    high = 3 if domain is None or domain.high is None else domain.high
    return min(3, int(op.bind_dims(dims)[high] if isinstance(high, str) else high))


def expected(
    op: Operator, dims: Mapping[str, int], inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The reference in float64; `inputs` hold exact values (float64 or integers)."""
    import torch

    kinds = op.types()
    tensors = {n: torch.from_numpy(np.ascontiguousarray(x)) for n, x in inputs.items()}
    for name, t in tensors.items():
        if kinds[name].dtype == "T":
            tensors[name] = t.double()
    accepted = inspect.signature(op.reference.fn).parameters
    tensors = {n: t for n, t in tensors.items() if n in accepted}
    out = op.reference.fn(**tensors, **op.scalar_values(op.bind_dims(dims)))
    outs = out if isinstance(out, tuple) else (out,)
    return {n: o.double().numpy() for n, o in zip(op.outputs, outs, strict=True)}
