"""Run many rows of the table as one kernel: bound by the target's policy, judged as any kernel is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from septran import backends
from septran.accuracy import load_policy
from septran.backends.base import Backend
from septran.backends.cuda.toolchain import compile_emulated
from septran.backends.device.simulated import write_simulated
from septran.backends.npuir import toolchain as npuir
from septran.backends.npuir.dialect import dialect_errors
from septran.backends.triton import toolchain as triton
from septran.bind import ArgType, bind, check_primitives
from septran.errors import SeptranError
from septran.ir.dtypes import is_float
from septran.ir.nodes import Program
from septran.kernel import Kernel, KernelParam, Leaf, leaf_specs
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.passes import lower
from septran.reference import Reference
from septran.tasklang.load import execute_logic
from septran.trial.place import place_of
from septran.verify import budget, judge
from septran.verify.cases import Case, draw
from septran.verify.problem import Problem
from septran.verify.session import Call, run_calls
from tests.backends.operators import ROOT
from tests.conformance.rows import EDGES, Row, Tensor

FAMILIES = ("normal", "nan", "inf", "zeros", "denormal")
TENSORS = 48
"""of one kernel; a simulator knows 64"""
COMPILED = 12
"""tensors of one kernel that a compiler has to take within its time limit on a busy machine"""


def _npuir(kernel: Kernel, folder: Path) -> Path:
    """The gates that refuse kernels; the other compiler's opinion never does, and takes 20 s of each kernel."""
    assert not dialect_errors(kernel.source)
    said = npuir.run_bishengir(kernel, folder)
    assert said.status != "refused", said.log
    return write_simulated(kernel, folder)


def _cuda(kernel: Kernel, folder: Path) -> Path:
    built = compile_emulated(kernel, folder, level=("-O0",))
    assert built.artifact is not None, built.log
    return built.artifact


_WRITERS: Mapping[str, Callable[[Kernel, Path], Path]] = {
    "cuda_c": _cuda,
    "hip_c": _cuda,
    "tilelang_npuir": _npuir,
    "tilelang_cuda": write_simulated,
    "tilelang_hip": write_simulated,
    "triton_cuda": triton.write,
    "triton_hip": triton.write,
    "triton_npu": triton.write,
}
"""Targets whose emulation does not need the device's compiler, which `compiled` rows run."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in one kernel, numbered as in its parameter names."""

    rows: tuple[Row, ...]

    def tensors(self) -> Iterator[tuple[str, Row, Tensor, bool]]:
        """Yield (parameter, row, tensor, written) in the entry task's order."""
        for at, row in enumerate(self.rows):
            yield f"y{at}", row, row.out, True
            for name, t in row.ins.items():
                yield f"{name}{at}", row, t, False


def batches(
    rows: Sequence[Row], *, one_launch: bool = False, tensors: int = TENSORS
) -> Iterator[Batch]:
    """Yield the rows in batches of at most so many tensors; one_launch: of one grid each."""
    part: list[Row] = []
    count = 0
    for row in sorted(rows, key=_grid):
        size = 1 + len(row.ins)
        other = one_launch and bool(part) and _grid(row) != _grid(part[0])
        if count + size > tensors or other:
            yield Batch(tuple(part))
            part, count = [], 0
        part.append(row)
        count += size
    if part:
        yield Batch(tuple(part))


def _cut(row: Row) -> str:
    return "".join(c for c in row.out.dims if c in EDGES[row.edge].tile)


def _grid(row: Row) -> tuple[str, str]:
    """Rows that are equal here run in one grid."""
    return row.edge, _cut(row)


def logic(batch: Batch) -> str:
    """Return a logic file with one leaf per row and one entry that launches them all; what is added to starts as 1.5."""
    leaves, body = [], []
    for at, row in enumerate(batch.rows):
        names = [*row.ins, *row.scalars]
        if row.prim == "map":
            words = [f"expr={row.attrs['expr']!r}", *(f"{n}={n}" for n in names)]
        else:
            words = [*row.ins, *(f"{k}={_value(v)}" for k, v in row.attrs.items())]
        leaves += [
            "@task.define(leaf=True)",
            f"def row{at}({', '.join(['y', *names])}):",
            *(
                ['    task.call_primitive("fill", y, value=1.5)']
                if row.prim.endswith("_acc")
                else []
            ),
            f"    task.call_primitive({row.prim!r}, y, {', '.join(words)})",
            "",
        ]
    grids: dict[tuple[str, str], list[int]] = {}
    for at, row in enumerate(batch.rows):
        body += _partitions(at, row)
        grids.setdefault(_grid(row), []).append(at)
    for number, places in enumerate(grids.values()):
        body += _loops(number, [(at, batch.rows[at]) for at in places])
    params = ", ".join(name for name, *_ in batch.tensors())
    head = ["import septran.tasklang as task", "", *leaves, "@task.define"]
    return "\n".join([*head, f"def conformance({params}):", *(f"    {b}" for b in body), ""])


def _value(value: object) -> str:
    return f'float("{value}")' if value in (float("inf"), float("-inf")) else repr(value)


def _partitions(at: int, row: Row) -> Iterator[str]:
    tile, cut = EDGES[row.edge].tile, _cut(row)
    for name, t in {"y": row.out, **row.ins}.items():
        if set(t.dims) & set(cut):
            sizes = ", ".join(str(tile[c]) if c in cut else "None" for c in t.dims)
            yield f"{name}{at}_p = task.partition({name}{at}, by='blocks', shape=({sizes},))"


def _loops(number: int, rows: list[tuple[int, Row]]) -> Iterator[str]:
    """The loops of one grid and the launches in it."""
    first, row = rows[0]
    cut, indent = _cut(row), ""
    if cut:
        names = ", ".join(f"{c.lower()}_{number}" for c in cut)
        extents = ", ".join(f"y{first}_p.shape[{row.out.dims.index(c)}]" for c in cut)
        yield f"for {names} in task.parallel_range({extents if len(cut) == 1 else f'({extents})'}):"
        indent = "    "
    for at, row in rows:
        args = []
        for name, t in {"y": row.out, **row.ins}.items():
            index = ", ".join(f"{c.lower()}_{number}" if c in cut else "0" for c in t.dims)
            inside = set(t.dims) & set(cut)
            args.append(f"{name}{at}_p[{index}]" if inside else f"{name}{at}")
        for value in row.scalars.values():
            args.append(f"{row.out.dims[0].lower()}_{number}" if value == "i" else repr(value))
        yield f"{indent}task.launch(row{at}, {', '.join(args)})"


@dataclass(frozen=True, slots=True)
class Target:
    """A backend with the arch it is tried on."""

    backend: Backend
    arch: str

    @staticmethod
    def of(name: str) -> Target:
        """Return the target of "cpp" or "cpp riscv64"; its first arch by default."""
        name, _, arch = name.partition(" ")
        backend = backends.get(name)
        return Target(backend, arch or (backend.arches or ("",))[0])

    def program(self, batch: Batch, folder: Path) -> Program:
        """Bind with the shipped policy and run the target's passes."""
        path = folder / "conformance.py"
        path.write_text(logic(batch), encoding="utf-8")
        loaded = execute_logic(path)
        args = {n: ArgType(shape=row.shape(t), dtype=t.dtype) for n, row, t, _ in batch.tensors()}
        mappings = ROOT / "mappings"
        file = mappings / f"{self.backend.name}.{self.arch}.mapping.yaml"
        if not file.is_file():
            file = mappings / f"{self.backend.name}.mapping.yaml"
        machine = load_machine(self.backend.machine(self.arch))
        bound = bind(
            loaded.tasks["conformance"],
            load_mapping(file),
            machine,
            args,  # type: ignore[arg-type]
            tasks=loaded.tasks,
            arch=self.arch,
            cores=int(machine.limits.get("cores", 1)),
        )
        check_primitives(
            bound.program,
            self.backend.name,
            movement=self.backend.movement,
            opaque=self.backend.opaque,
            functions=self.backend.functions,
            whole=self.backend.whole_sums,
        )
        return lower(bound.program, self.backend.passes)

    def takes(self, row: Row) -> bool:
        """Whether the manifest has the row's floats; `gen --dtype` refuses others (C132)."""
        floats = {t.dtype for t in (row.out, *row.ins.values()) if is_float(t.dtype)}
        return floats <= {*self.backend.dtypes, "float32", "float16", "bfloat16"}

    def kernel(self, batch: Batch, folder: Path) -> Kernel:
        """Return the rows' kernel; raises SeptranError where the target refuses one of them."""
        program = self.program(batch, folder)
        return self.backend.emit(program, self.leaves(program))

    def refusal(self, row: Row, folder: Path) -> str:
        """Return the code with which the target refuses the row, "" when it takes it."""
        try:
            self.kernel(Batch((row,)), folder)
        except SeptranError as error:
            return error.codes[0]
        return ""

    def leaves(self, program: Program) -> dict[str, Leaf]:
        """Return the library's leaves, as gen takes them."""
        from septran.agent.library import library_leaf

        return {s.key: library_leaf(self.backend.library, s) for _, s in leaf_specs(program)}

    def wrong(self, batch: Batch, folder: Path, *, compiled: bool) -> dict[str, str]:
        """Build and run the batch; return row -> what is wrong with it, for rows that are.

        compiled: also where the emulation runs the kernel's own text and needs no compiler.
        """
        try:
            kernel = self.kernel(batch, folder)
        except SeptranError as error:
            if len(batch.rows) == 1:
                return {batch.rows[0].name: f"refused: {error.codes[0]}"}
            return self._halves(batch, folder, compiled=compiled)
        place = place_of(self.backend, self.arch, "emulated", 1)
        build = folder / "build"
        build.mkdir()
        write = None if compiled else _WRITERS.get(self.backend.name)
        if write is None:
            built = place.build(kernel, build)
            if not built.ok and len(batch.rows) > 1:
                return self._halves(batch, folder, compiled=True)
            assert built.ok and built.artifact is not None, built.log
            artifact = built.artifact
        else:
            artifact = write(kernel, build)
        problem = Problem(
            name="conformance",
            params=kernel.params,
            reference=Reference(fn=lambda: ()),
            domains={n: t.values for n, _, t, w in batch.tensors() if not w},
        )
        flushes = self.backend.flushes_denormals(self.arch)
        calls = [
            Call(case=Case(name=f, family=f, seed=7 + at, target="*"), placement="end")
            for at, f in enumerate(FAMILIES)
            if not (flushes and f == "denormal")
        ]
        transcript = run_calls(
            kernel,
            artifact,
            problem,
            calls,
            settings=place.sessions,
            work=folder / "child",
            noise=np.random.default_rng(1),
        )
        if "capacity" in transcript.message and len(batch.rows) > 1:  # of all rows' tiles together
            return self._halves(batch, folder, compiled=compiled)
        assert not transcript.failure, (transcript.failure, transcript.message)
        assert len(transcript.ran) == len(calls)
        return _judge(batch, problem, {r.call.case: r.outputs for r in transcript.ran})

    def _halves(self, batch: Batch, folder: Path, *, compiled: bool) -> dict[str, str]:
        """Build what was not taken together in two parts: only a row that fails alone is wrong.

        TileLang 0.1.15 proves all conditions of an access on its second try that it could not prove on its
        first, and stops with "combined.defined()" because none is left; which rows share a kernel decides it.
        """
        at, found = len(batch.rows) // 2, dict[str, str]()
        for number, rows in enumerate((batch.rows[:at], batch.rows[at:])):
            here = folder / f"part{number}"
            here.mkdir()
            found |= self.wrong(Batch(rows), here, compiled=compiled)
        return found


def _judge(
    batch: Batch, problem: Problem, ran: Mapping[Case, Mapping[str, bytes]]
) -> dict[str, str]:
    policy = load_policy()
    found: dict[str, str] = {}
    for case, outputs in ran.items():
        arrays = draw(problem, case)
        for at, row in enumerate(batch.rows):
            alone = _problem(row)
            given = {n: arrays[f"{n}{at}"] for n in row.ins}
            (wanted,) = budget.expected(
                alone, given, zero_mean=case.zero_mean, policy=policy, seed=case.seed
            )
            seen = judge.compare(alone.outputs[0], wanted, outputs[f"y{at}"])
            if seen.wrong:
                found.setdefault(
                    row.name,
                    f"{case.name}: {seen.wrong} of {seen.elements} wrong, "
                    f"{seen.got!r} instead of {seen.wanted!r}",
                )
    return found


def _problem(row: Row) -> Problem:
    """The row alone: what its budget is made from."""
    params = [KernelParam(name="y", shape=row.shape(row.out), dtype=row.out.dtype, privilege="w")]
    params += [
        KernelParam(name=n, shape=row.shape(t), dtype=t.dtype, privilege="r")
        for n, t in row.ins.items()
    ]
    terms = math.prod(EDGES[row.edge].dims[c] for c in row.terms)
    return Problem(
        name=row.name,
        params=tuple(params),
        reference=Reference(
            fn=lambda **t: row.want(**t),
            kind=row.kind,
            ulps=row.ulps,
            magnitude=row.magnitude,
            reduction=lambda _: terms,
        ),
        domains={n: t.values for n, t in row.ins.items()},
    )
