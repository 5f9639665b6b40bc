"""Bind an operator for a backend, and run its Program after every pass against torch in float64."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from septran.backends.base import Backend
from septran.bind.bind import ArgType, BoundKernel, bind
from septran.errors import MappingError
from septran.ir.nodes import Program
from septran.ir.spec import check_program
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.mapping.schema import Policy
from septran.mapping.smaller import smaller
from septran.passes.run import PassRun, lower
from septran.tasklang.load import execute_logic
from septran.tasklang.operator import Operator
from tests.backends.operators import ROOT, all_operators

__all__ = [
    "all_operators",
    "arguments",
    "bound",
    "fitting",
    "inputs",
    "outcomes",
    "reference",
    "tolerance",
]


def arguments(op: Operator, dims: Mapping[str, int], dtype: str) -> dict[str, object]:
    full = op.bind_dims(dims)
    args: dict[str, object] = dict(op.scalar_values(full))
    for name, kind in op.types().items():
        args[name] = ArgType(
            shape=op.shape(name, full), dtype=dtype if kind.dtype == "T" else kind.dtype
        )
    return args


def bound(
    op: Operator,
    path: Path,
    backend: Backend,
    arch: str,
    dtype: str,
    dims: Mapping[str, int],
    mapping: Path | Policy | None = None,
) -> BoundKernel:
    """Bind under the target's policy, or under another mapping."""
    return bind(
        op.entry,
        mapping if isinstance(mapping, Policy) else load_mapping(mapping or _policy(backend, arch)),
        load_machine(backend.machine(arch)),
        arguments(op, dims, dtype),  # type: ignore[arg-type]
        tasks=execute_logic(path).tasks,
        arch=arch,
        cores=2,
    )


def _policy(backend: Backend, arch: str) -> Path:
    file = ROOT / "mappings" / f"{backend.name}.{arch}.mapping.yaml"
    return file if file.is_file() else ROOT / "mappings" / f"{backend.name}.mapping.yaml"


def fitting(
    op: Operator, path: Path, backend: Backend, arch: str, dtype: str
) -> list[tuple[str, Program]]:
    """Return what `outcomes` yields at the sample sizes, with smaller tiles where the policy's are too large (M011), as `gen` does."""
    mapping = load_mapping(_policy(backend, arch))
    assert isinstance(mapping, Policy)
    refused: MappingError | None = None
    for one in (mapping, *smaller(mapping)):
        try:
            return list(outcomes(bound(op, path, backend, arch, dtype, op.dims, one), backend))
        except MappingError as e:
            if "M011" not in e.codes:
                raise
            refused = refused or e
    assert refused is not None
    raise refused


def outcomes(found: BoundKernel, backend: Backend) -> Iterator[tuple[str, Program]]:
    """Yield (name, Program) of bind and of every pass up to printing; each is spec-checked."""
    check_program(found.program)
    yield "bind", found.program
    seen: list[PassRun] = []
    lowered = lower(found.program, backend.passes, after=seen.append)
    backend.finished(lowered, {}, after=seen.append)
    yield from ((run.name, run.program) for run in seen)


def inputs(
    op: Operator, dims: Mapping[str, int], dtype: str, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Return every tensor parameter: values allowed by its domain, outputs all NaN."""
    made = torch.Generator().manual_seed(seed)
    full = op.bind_dims(dims)
    found = {}
    for name, kind in op.types().items():
        shape = op.shape(name, full)
        domain = op.domains.get(name)
        if kind.dtype == "T":
            t = torch.randn(shape, generator=made, dtype=torch.float64)
            if domain is not None and domain.kind == "positive":
                t = t.abs() + 0.1
            found[name] = t.to(getattr(torch, dtype))
        elif kind.dtype.startswith("float"):
            found[name] = torch.randn(shape, generator=made).to(getattr(torch, kind.dtype))
        else:
            assert domain is not None
            high = full[domain.high] if isinstance(domain.high, str) else int(domain.high or 2)
            low = int(domain.low or 0)
            found[name] = torch.randint(low, high, shape, generator=made).to(
                getattr(torch, kind.dtype)
            )
        if name in op.outputs:
            found[name] = torch.full(shape, float("nan"), dtype=found[name].dtype)
    return found


def reference(
    op: Operator, dims: Mapping[str, int], given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the outputs by torch in float64."""
    wide = {n: t.double() if t.is_floating_point() else t for n, t in given.items()}
    accepted = inspect.signature(op.reference.fn).parameters
    out = op.reference.fn(
        **{n: t for n, t in wide.items() if n in accepted},
        **op.scalar_values(op.bind_dims(dims)),
    )
    outs = out if isinstance(out, tuple) else (out,)
    return dict(zip(op.outputs, outs, strict=True))


def tolerance(dtype: str) -> float:
    return {"float64": 1e-11, "float32": 2e-4, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
