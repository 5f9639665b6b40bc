"""Leaf specs, leaves and kernels: what passes between compiler, leaf writer and verifier."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from septran.ir import scalar
from septran.ir.expr import evaluate
from septran.ir.nodes import LeafCall, Prim, Privilege, Program, Region, leaf_calls
from septran.ir.powers import powered, with_powers

UNREAD = "unread"
"""Option of a LeafSpec: the names of `LeafSpec.unread`."""
SCORES = "scores"
"""Option of a LeafSpec: parameters that hold scores whose exponentials it takes (`passes/name_scores.py`)."""


def content_hash(value: object) -> str:
    """Return 16 hex digits of the SHA-256 of `value` as canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafParam:
    """A tensor argument of a leaf: static tile bounds, element type, where it lives, how it lies.

    shape: static upper bounds of the run-time extents. squeeze-able size-1 dims are kept.
    ragged: per dim, True when the run-time extent can be smaller than the bound.
    step: distance of neighbours per dim, in positions of the buffer; of the last dim in elements.
    guarded: reads outside yield 0 (padding was applied by the copy; plain memory for the leaf).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    mem: str
    layout: str
    privilege: Privilege
    ragged: tuple[bool, ...]
    step: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSpec:
    """Everything a leaf writer may know. Equal specs (same `key`) share one leaf."""

    task: str
    backend: str
    arch: str
    proc: str
    params: tuple[LeafParam, ...]
    scalars: tuple[tuple[str, str], ...]
    """name -> "int" or the repr of a float constant."""
    prims: tuple[Prim, ...]
    options: tuple[tuple[str, object], ...] = ()
    """what of the mapping a leaf depends on: threads, math, vectorize, unroll, ..., and UNREAD."""

    @property
    def key(self) -> str:
        """Stable content hash; the key of the leaf store."""
        return content_hash(asdict(self))

    @property
    def symbol(self) -> str:
        """Identifier the generated code calls: `leaf_<task>_<6 hex digits>`."""
        return f"leaf_{self.task}_{self.key[:6]}"

    @property
    def unread(self) -> tuple[str, ...]:
        """Parameters whose contents nothing reads once the leaf has run: it may leave anything there."""
        found = dict(self.options).get(UNREAD, ())
        assert isinstance(found, tuple)
        return found

    @property
    def opaque(self) -> bool:
        """Whether no library can have this leaf: it means a part of somebody's torch graph."""
        return any(p.name == "extern" for p in self.prims)

    @property
    def ragged(self) -> tuple[tuple[str, int], ...]:
        """(parameter, axis) of every run-time extent that can be less than its bound, in order."""
        return tuple((p.name, d) for p in self.params for d, short in enumerate(p.ragged) if short)

    def param(self, name: str) -> LeafParam:
        """Return a tensor argument; KeyError when there is none of this name."""
        for p in self.params:
            if p.name == name:
                return p
        raise KeyError(name)

    def expression(self, prim: Prim) -> scalar.Node:
        """Return the typed tree of a `map` of this leaf; names in it are the leaf's parameters."""
        scalars = {
            name: scalar.position(name) if kind == "int" else scalar.Const(float(kind))
            for name, kind in self.scalars
        }
        return scalar.bound(prim, self._tensors(), scalars)

    def printed(self, prim: Prim) -> scalar.Node:
        """Return the tree as a target with POWER prints it: exponentials of scores are powers of two."""
        scores = dict(self.options).get(SCORES, ())
        assert isinstance(scores, list | tuple)
        if not scores:
            return self.expression(prim)
        last = {p.name: p.shape[-1] for p in self.params if p.shape}

        def is_score(s: scalar.Name, n: scalar.Name) -> bool:
            return s.name in scores and last.get(s.name, 1) > 1 and last.get(n.name) == 1

        weights = [powered(self.expression(p)) for p in self.prims if p.name == "map"]
        rows = {(w[1].name, w[2]) for w in weights if w and is_score(w[0], w[1])}
        return with_powers(self.expression(prim), is_score, rows)

    def computes(self, prim: Prim) -> str:
        """Return the dtype a primitive of this leaf computes in: float64 or float32."""
        return scalar.computes(prim, self._tensors())

    def _tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {p.name: (p.dtype, p.shape) for p in self.params}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A leaf's source. `source` defines `spec.symbol`; writer: library | llm | replay | command | file.

    inline: there is no function; the target's passes put the leaf's operations where it is called. `source` is the
        text of a function that does the same.
    listed: of an inline leaf whose operations no text of a leaf can say; `source` lists them.
    """

    spec: LeafSpec
    writer: str
    name: str
    source: str
    inline: bool = False
    listed: bool = False

    @property
    def headline(self) -> str:
        """Task, meaning and writer in a line."""
        prims = ", ".join(p.name for p in self.spec.prims)
        return f"{self.spec.task}: {prims} ({self.writer} {self.name})"

    @property
    def sha(self) -> str:
        """Content hash of the source text."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParam:
    """A kernel argument in call order."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    privilege: Privilege


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Complete source for one backend.

    entry: C symbol `void entry(void* const* args)` for C families (args in `params` order), or the
        Python function's name for Python DSLs.
    files: name -> text; `main` names the one a person reads.
    leaves: the leaves inside, in order.
    """

    name: str
    backend: str
    arch: str
    entry: str
    params: tuple[KernelParam, ...]
    main: str
    files: tuple[tuple[str, str], ...]
    leaves: tuple[Leaf, ...]
    options: tuple[tuple[str, object], ...] = ()

    @staticmethod
    def of(
        program: Program,
        *,
        entry: str,
        main: str,
        files: tuple[tuple[str, str], ...],
        leaves: Mapping[str, Leaf],
        options: tuple[tuple[str, object], ...] | None = None,
    ) -> Kernel:
        """Return the kernel that was printed of `program`.

        leaves: by symbol, in the order in which they are printed. options: the Program's unless given.
        """
        return Kernel(
            name=program.name,
            backend=program.target,
            arch=program.arch,
            entry=entry,
            params=kernel_params(program),
            main=main,
            files=files,
            leaves=tuple(leaves.values()),
            options=program.options if options is None else options,
        )

    @property
    def alignment(self) -> int | None:
        """Bytes that the address of every tensor has to be a multiple of; None: those of an element."""
        found = dict(self.options).get("alignment")
        return found if isinstance(found, int) else None

    @property
    def source(self) -> str:
        """Text of the main file."""
        return dict(self.files)[self.main]

    @property
    def sha(self) -> str:
        """Content hash of everything that decides what the kernel does."""
        return content_hash([self.backend, self.arch, self.entry, list(self.files)])

    def with_files(self, files: Mapping[str, str]) -> Kernel:
        """Return the same kernel with other file texts."""
        return replace(self, files=tuple(files.items()))

    def write(self, folder: Path) -> Path:
        """Write the files into `folder`, which is made where there is none; return the main one."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        return folder / self.main


def _steps(region: Region) -> tuple[int, ...]:
    """Return the steps of a region; in its last dim those in memory, which decide how it is loaded."""
    if not region.step or region.tile[-1] == 1:
        return region.step
    return (*region.step[:-1], region.step[-1] * region.buffer.steps[-1])


def kernel_params(
    program: Program, dims: Mapping[str, int] | None = None
) -> tuple[KernelParam, ...]:
    """Return a program's parameters as a kernel declares them, at `dims` where its own are open.

    Behind the tensors comes one number for each open dim (`size_name`).
    """
    tensors = tuple(
        KernelParam(
            name=p.buffer.name,
            shape=tuple(evaluate(e, dims) for e in p.buffer.extent)
            if p.buffer.extent and dims is not None
            else p.buffer.shape,
            dtype=p.buffer.dtype,
            privilege=p.privilege,
        )
        for p in program.params
    )
    sizes = (
        KernelParam(name=size_name(d.name), shape=(1,), dtype="int64", privilege="r")
        for d in program.dims
    )
    return (*tensors, *sizes)


def size_name(dim: str) -> str:
    """Return the name of the parameter that tells a kernel the size of an open dim."""
    return f"size_{dim}"


def leaf_spec(program: Program, call: LeafCall, *, proc: str) -> LeafSpec:
    """Return the LeafSpec of a call: static tiles, memories, privileges and meaning."""
    from septran.ir.expr import Const, Expr

    params = []
    for arg in call.args:
        region = arg.region
        ragged = tuple(
            not (isinstance(e, Const) and e.value == t)
            for e, t in zip(region.extent, region.tile, strict=True)
        )
        params.append(
            LeafParam(
                name=arg.param,
                shape=region.tile,
                dtype=region.buffer.dtype,
                mem=region.buffer.mem,
                layout=region.buffer.layout,
                privilege=arg.privilege,
                ragged=ragged,
                step=_steps(region),
            )
        )
    scalars = tuple(
        (name, "int" if isinstance(value, Expr) else repr(value)) for name, value in call.scalars
    )
    keep = ("threads", "math", "vectorize", "unroll", "warps")
    options: tuple[tuple[str, object], ...] = tuple((k, v) for k, v in program.options if k in keep)
    if unread := tuple(a.param for a in call.args if a.unread):
        options += ((UNREAD, unread),)
    if scores := _scores(program, call):
        options += ((SCORES, scores),)
    return LeafSpec(
        task=call.task,
        backend=program.target,
        arch=program.arch,
        proc=proc,
        params=tuple(params),
        scalars=scalars,
        prims=call.prims,
        options=options,
    )


def _scores(program: Program, call: LeafCall) -> tuple[str, ...]:
    """Return the parameters that hold scores (`passes/name_scores.py`) and that the leaf takes exponentials of."""
    named = program.option(SCORES, ())
    assert isinstance(named, list | tuple)
    maps = [p for p in call.prims if p.name == "map" and "exp(" in str(p.attr("expr"))]
    taken = {name for p in maps for _, name in p.named}
    return tuple(a.param for a in call.args if a.region.buffer.name in named and a.param in taken)


def leaf_specs(program: Program) -> tuple[tuple[LeafCall, LeafSpec], ...]:
    """Return each leaf call with its spec, in order of appearance."""
    procs = innermost_procs(program)
    return tuple(
        (call, leaf_spec(program, call, proc=proc))
        for call, proc in zip(leaf_calls(program), procs, strict=True)
    )


def innermost_procs(program: Program) -> tuple[str, ...]:
    """Return, per leaf call in order, the processor level of the innermost processor loop around it."""
    found: list[str] = []

    def visit(body: tuple[object, ...], proc: str) -> None:
        from septran.ir.nodes import For, When

        for stmt in body:
            match stmt:
                case LeafCall():
                    found.append(proc)
                case For():
                    visit(stmt.body, stmt.proc or proc)
                case When():
                    visit(stmt.body, proc)
                case _:
                    pass

    visit(program.body, "HOST")
    return tuple(found)
