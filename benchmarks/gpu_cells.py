"""What benchmarks/gpu.py measures: operators, targets, sizes, and variants of a target's policy."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from septran import assets, backends, gpu
from septran.backends.base import Backend
from septran.kernel import Kernel, content_hash
from septran.plan import catalog
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Lowered, Plan, lower_plan, operator_of, resolve
from septran.tasklang.operator import Operator
from septran.trial.place import device_for

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One kernel at one size. candidate: name of the policy's variant, "" for the policy itself."""

    op: str
    backend: str
    arch: str
    dtype: str
    dims: Mapping[str, int]
    candidate: str = ""
    change: Mapping[str, Any] = field(default_factory=dict)

    @property
    def problem(self) -> tuple[object, ...]:
        """What torch's times are shared by."""
        return self.op, self.dtype, tuple(self.dims.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """A cell's kernel before it is built."""

    plan: Plan
    lowered: Lowered
    kernel: Kernel

    def key(self, device: str) -> str:
        """Return what a stored row is found by: the kernel's text, its size, and the GPU."""
        return content_hash(
            [self.kernel.sha, self.plan.operator.name, dict(self.plan.dims), device]
        )


def settings() -> dict[str, Any]:
    """Return benchmarks/gpu.yaml."""
    found: dict[str, Any] = yaml.safe_load((HERE / "gpu.yaml").read_text(encoding="utf-8"))
    return found


def targets(only: Sequence[str], arch: str, *, dry: bool) -> list[tuple[Backend, str]]:
    """Return the GPU backends with the arch to use: those that run here, or, dry, all of them."""
    found = []
    for name in backends.names():
        backend = backends.get(name)
        if backend.device is None or (only and name not in only):
            continue
        chosen = arch if arch in backend.arches else None
        if dry:
            found.append((backend, chosen or _largest(backend)))
        elif isinstance(device_for(backend, backends.resolve_arch(backend, chosen)), gpu.Gpu):
            found.append((backend, backends.resolve_arch(backend, chosen)))
    return found


def _largest(backend: Backend) -> str:
    return max(backend.arches)


def left_out(only: Sequence[str]) -> list[str]:
    """Return why each GPU backend that does not run here does not."""
    found = []
    for name in backends.names():
        backend = backends.get(name)
        if backend.device is None or (only and name not in only):
            continue
        state = device_for(backend, backends.resolve_arch(backend, None))
        if isinstance(state, gpu.Missing):
            brings = f" ({state.install})" if state.install else ""
            found.append(f"{name}: {state.detail}{brings}")
    return found


def operators(only: Sequence[str], first: Sequence[str]) -> list[Operator]:
    """Return the shipped operators, those named in `first` at the front."""
    names = [entry["name"] for entry in catalog.ops()]
    names.sort(key=lambda name: (first.index(name) if name in first else len(first), name))
    chosen = [n for n in names if not only or any(fnmatch.fnmatch(n, word) for word in only)]
    return [operator_of(GenRequest(op=name, backend=""))[0] for name in chosen]


def sizes(op: Operator, given: Mapping[str, Any], *, small: bool) -> list[Mapping[str, int]]:
    """Return the sizes an operator is timed at; small: its own sample dims."""
    if small:
        return [dict(op.dims)]
    if op.name in given["sizes"]:
        return [{**op.dims, **dims} for dims in given["sizes"][op.name]]
    if set(op.dims) == {"M", "N"}:
        return [given["rows"]]
    if len(op.dims) == 1:
        return [dict.fromkeys(op.dims, given["elements"])]
    return [dict(op.dims)]


def cells(
    op: Operator,
    backend: Backend,
    arch: str,
    dtypes: Sequence[str],
    given: Mapping[str, Any],
    *,
    small: bool,
    candidates: bool,
) -> Iterator[Cell]:
    """Yield the cells of one operator on one target, the policy before its variants."""
    for dtype in dtypes:
        if dtype not in op.dtypes or dtype not in backend.dtypes:
            continue
        for dims in sizes(op, given, small=small):
            plain = Cell(op=op.name, backend=backend.name, arch=arch, dtype=dtype, dims=dims)
            yield plain
            for each in given["candidates"] if candidates else ():
                if _applies(each, plain):
                    yield replace(plain, candidate=each["name"], change=each)


Target = tuple[Backend, str]


def planned(
    ops: Sequence[Operator],
    targets: Sequence[Target],
    dtypes: Sequence[str],
    given: Mapping[str, Any],
    *,
    small: bool,
    candidates: bool,
) -> list[list[tuple[Operator, Backend, Cell]]]:
    """Return all cells by turns, in the order of measuring: whoever stops early has what matters most.

    The policies of `first` and `then` (gpu.yaml) come before the variants of `first`; those before the other
    operators, other sizes and types, and other variants. Each of these on every target before the next.
    """
    found: dict[int, list[tuple[Operator, Backend, Cell]]] = {}
    for op in ops:
        own = [dtype for dtype in dtypes if dtype in op.dtypes]
        main = sizes(op, given, small=small)[0]
        for backend, arch in targets:
            each = cells(op, backend, arch, own, given, small=small, candidates=candidates)
            for cell in each:
                plain = cell.dtype == own[0] and cell.dims == main
                turn = found.setdefault(_turn(cell, given, plain=plain), [])
                turn.append((op, backend, cell))
    return [found[turn] for turn in sorted(found)]


def _turn(cell: Cell, given: Mapping[str, Any], *, plain: bool) -> int:
    """Return the turn of a cell. plain: at the operator's first size, in the first type."""
    lead = cell.op in given["first"]
    if not cell.candidate:
        if plain:
            return 0 if lead else 1 if cell.op in given["then"] else 3
        return 4 if lead else 5
    if plain:
        return 2 if lead else 6
    return 7


def _applies(candidate: Mapping[str, Any], cell: Cell) -> bool:
    def allowed(key: str, value: str) -> bool:
        return any(fnmatch.fnmatch(value, word) for word in candidate.get(key, ("*",)))

    return (
        allowed("ops", cell.op)
        and allowed("backends", cell.backend)
        and allowed("dtypes", cell.dtype)
    )


def lowering(cell: Cell, folder: Path) -> Lowering:
    """Return the cell's kernel; a variant's policy is written into `folder`.

    Raises:
        LookupError: the policy has no rule that the variant changes, or nothing of the kernel is under it.
        SeptranError: the variant's mapping is refused.
    """
    request = GenRequest(
        op=cell.op, backend=cell.backend, arch=cell.arch, dims=cell.dims, dtype=cell.dtype
    )
    if cell.change:
        policy = variant(_policy(cell), cell.change, cell.dtype)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{cell.backend}.variant.mapping.yaml"
        path.write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
        request = replace(request, mapping=path)
    plan = resolve(request)
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return Lowering(plan=plan, lowered=lowered, kernel=plan.backend.emit(lowered.program, leaves))


def _policy(cell: Cell) -> dict[str, Any]:
    for name in (f"{cell.backend}.{cell.arch}", cell.backend):
        if assets.exists(f"mappings/{name}.mapping.yaml"):
            path = assets.find(f"mappings/{name}.mapping.yaml").path
            return policy_of(path.read_text(encoding="utf-8"))
    raise LookupError(f"{cell.backend} has no policy")


class _Untuned(yaml.SafeLoader):
    """Reads what a tuner may choose as what stands there without one."""


_Untuned.add_constructor(
    "!tune", lambda loader, node: loader.construct_mapping(node, deep=True)["default"]
)


def policy_of(text: str) -> dict[str, Any]:
    """Return a policy without what a tuner may choose."""
    found: dict[str, Any] = yaml.load(text, Loader=_Untuned)
    return found


def variant(policy: Mapping[str, Any], change: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """Return the policy with each rule that can apply to the type changed, before the rule it is made from.

    Sizes that do not fit are refused, not made smaller: a variant is what its name says or it is nothing.
    """
    found = copy.deepcopy(dict(policy))
    found["policies"].pop("smaller", None)
    rules: list[Any] = []
    open_, changed = True, False  # open: no rule for all sizes was met yet
    for rule in found["policies"]["rules"]:
        match = rule["match"]
        fits = "dtype" not in match or dtype in _words(match["dtype"])
        if open_ and fits and change["rule"] in _words(match["primitive"]):
            mine = copy.deepcopy(rule)
            mine["match"]["dtype"] = dtype
            for key, value in change["set"].items():
                mine[key] = {**mine.get(key, {}), **value} if isinstance(value, dict) else value
            rules.append(mine)
            open_, changed = "when" in match, True
        rules.append(rule)
    if not changed:
        raise LookupError(f"no rule for {change['rule']} of {dtype}")
    found["policies"]["rules"] = rules
    return found


def _words(value: Any) -> Sequence[str]:
    return value if isinstance(value, list) else [str(value)]
