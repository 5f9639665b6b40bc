"""A suite: the figures that a target promises, measured in one call and set against their gates.

configs/suites/NAME.yaml lists operators with sizes, a gate (torch's time over the kernel's that has to be held, or the most cycles
of a simulator) and a goal. A row that cannot be measured stays in the result, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, ClassVar

from septran import assets, backends, spanyaml
from septran.document import Document
from septran.errors import ConfigError, SeptranError, Span, closest
from septran.plan.resolve import GenRequest
from septran.run.bench import BenchRequest, Figure, bench
from septran.run.bench_call import CALLS, bench_call
from septran.run.bench_module import MODULES, bench_module
from septran.settings import Settings
from septran.trial.place import place_in

_KEYS = ("op", "module", "call", "mean", "backend", "dims", "dtype", "math", "arch", "gate", "cycles", "goal", "long")  # fmt: skip
_TOP = ("backend", "where", "rows")
_NAMED = {"module": MODULES, "call": CALLS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of a suite. gate: least speedup over torch, or cycles: the most that a simulator may count; goal: what is known to be possible, None = not known.

    math: arithmetic with an accuracy of its own (`septran gen --math`). backend: "" the suite's. long: it is measured only when asked for.
    op: an operator; or module: one of `bench_module.MODULES`, with the dtype that it has there and its weights prepared once; or call:
    one of `bench_call.CALLS`; or mean: the geometric mean over the rows above of this operator, module or call.
    """

    op: str = ""
    module: str = ""
    call: str = ""
    mean: str = ""
    backend: str = ""
    dims: Mapping[str, int]
    dtype: str | None = None
    math: str = ""
    arch: str | None = None
    gate: float | None = None
    cycles: int | None = None
    goal: float | None = None
    long: bool = False

    @property
    def name(self) -> str:
        """What is measured."""
        return self.op or self.module or self.call or self.mean

    @property
    def label(self) -> str:
        """Operator, type and sizes in a line."""
        sizes = " ".join(f"{name}={size}" for name, size in self.dims.items())
        kind = "module" if self.module else "call" if self.call else "mean of" if self.mean else ""
        target = self.backend and f"on {self.backend}"
        return " ".join(filter(None, (kind, self.name, target, self.math, self.dtype, sizes)))

    @property
    def gated(self) -> str:
        """The gate in words."""
        return f"{self.cycles:,} cycles" if self.cycles is not None else str(self.gate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Rows for one backend. where: "device": nothing is measured without one."""

    name: str
    backend: str
    rows: tuple[Row, ...]
    where: str = "auto"

    def only(self, names: Sequence[str], *, long: bool) -> Suite:
        """Return the rows of operators, modules or calls that fit one of `names` (globs; () = all). long: also those that take long.

        Raises:
            ConfigError: C069, no row is left.
        """
        rows = [r for r in self.rows if not names or any(fnmatch(r.name, name) for name in names)]
        if not rows:
            known = sorted({r.name for r in self.rows})
            raise ConfigError.of(
                "C069",
                f"suite {self.name} has no row of {', '.join(names)}",
                help=f"it has {', '.join(known)}",
            )
        return replace(self, rows=tuple(r for r in rows if long or names or not r.long))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteMeasured(Document):
    """What a suite's rows gave. rows: as `Measured.to_json` says them."""

    SCHEMA: ClassVar[str] = "septran.suite/1"
    suite: str
    backend: str
    machine: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A row with its figure, None with the reason when it has none. mean: of a row that is one, with its interval."""

    row: Row
    figure: Figure | None
    reason: str = ""
    mean: tuple[float, float, float] | None = None
    earlier: float | None = None
    """what the same row had in other figures: torch's time over the kernel's, or cycles"""

    @property
    def counted(self) -> int | None:
        """Cycles, where a simulator counted them."""
        return int(self.figure.cycles["total"]) if self.figure and self.figure.cycles else None

    @property
    def known(self) -> bool:
        """Whether there is a figure to set against the gate."""
        return (self.counted if self.row.cycles is not None else self.speedup) is not None

    @property
    def against_earlier(self) -> float | None:
        """Speedup over the earlier one: above 1 the row has become faster, seen from torch or in cycles."""
        if self.counted is not None:
            return self.earlier / self.counted if self.earlier else None
        return self.speedup / self.earlier if self.speedup and self.earlier else None

    @property
    def speedup(self) -> float | None:
        """Torch's time over the kernel's."""
        if self.mean is not None:
            return self.mean[0]
        return self.figure.speedup["torch_eager"] if self.figure else None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the speedup; of a mean, that of its rows' ends."""
        if self.mean is not None:
            return self.mean[1:]
        middle = self.speedup or 0.0
        figure = self.figure
        return (middle, middle) if figure is None else (figure.low or middle, figure.high or middle)

    @property
    def held(self) -> bool | None:
        """Whether the gate is held; None when there is no figure, or its interval includes the gate."""
        if not self.known:
            return None
        if self.row.cycles is not None:
            return self.counted is not None and self.counted <= self.row.cycles
        assert self.row.gate is not None and self.speedup is not None
        low, high = self.interval
        return None if low < self.row.gate <= high else self.speedup >= self.row.gate

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        figure = self.figure.to_json() if self.figure else None
        return {
            "row": self.row.label,
            "gate": self.row.gate,
            "most_cycles": self.row.cycles,
            "goal": self.row.goal,
            "held": self.held,
            "reason": self.reason,
            "against_earlier": self.against_earlier,
            "mean": self.mean,
            "figure": figure,
        }


def load_suite(name: str) -> Suite:
    """Return the suite in configs/suites/NAME.yaml, or in the file `name`.

    Raises:
        ConfigError: C069 a row that does not fit; C01x not readable, no YAML, or no suite of this name.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = assets.find(f"configs/suites/{name}.yaml").path
    doc = spanyaml.load(path)
    top = doc.value
    if not isinstance(top, dict) or not isinstance(top.get("rows"), list) or "backend" not in top:
        raise wrong("a suite is a mapping of backend and rows: [...]", doc.span())
    for key in top:
        if key not in _TOP:
            raise wrong(f"a suite has no key {key!r}", doc.key_span(key))
    where = top.get("where", "auto")
    if where not in ("auto", "device"):
        raise wrong("where is auto or device", doc.span("where"))
    rows: list[Row] = []
    for at, value in enumerate(top["rows"]):
        row = _row(value, doc, at)
        if row.mean and row.mean not in {r.name for r in rows if not r.mean}:
            raise wrong(f"no row above is one of {row.mean!r}", doc.span("rows", at, "mean"))
        rows.append(row)
    return Suite(name=path.stem, backend=str(top["backend"]), rows=tuple(rows), where=where)


def _row(value: Any, doc: spanyaml.Document, at: int) -> Row:
    if not isinstance(value, dict):
        raise wrong("a row is a mapping: op, dims, gate, ...", doc.span("rows", at))
    for key in value:
        if key not in _KEYS:
            near = closest(str(key), _KEYS)
            raise wrong(f"a row has no key {key!r}{near}", doc.key_span("rows", at, key))
    dims = value.get("dims", {})
    sizes = isinstance(dims, dict) and all(type(n) is int and n > 0 for n in dims.values())
    kinds = [kind for kind in ("op", "module", "call", "mean") if kind in value]
    if len(kinds) != 1 or not isinstance(value[kinds[0]], str) or not sizes:
        raise wrong("a row names an op, and dims as {NAME: SIZE}", doc.span("rows", at))
    if kinds[0] in _NAMED:
        _check_named(kinds[0], value, doc, at)
    counted = "cycles" in value
    if counted and ("gate" in value or kinds != ["op"] or type(value["cycles"]) is not int):
        raise wrong(
            "cycles is a whole number, of an op and in place of a gate", doc.span("rows", at)
        )
    for key in ("cycles",) if counted else ("gate", "goal"):
        number = value.get(key, None if key == "goal" else "missing")
        if number is not None and (type(number) not in (int, float) or number <= 0):
            raise wrong(f"{key} is a number above 0: torch's time over ours", doc.span("rows", at))
    words = ("op", "module", "call", "mean", "backend", "math")
    return Row(
        **{word: str(value.get(word, "")) for word in words},
        dims=dims,
        dtype=value.get("dtype"),
        arch=value.get("arch"),
        gate=None if counted else float(value["gate"]),
        cycles=value.get("cycles"),
        goal=None if value.get("goal") is None else float(value["goal"]),
        long=value.get("long") is True,
    )


def _check_named(kind: str, value: Mapping[str, Any], doc: spanyaml.Document, at: int) -> None:
    """Raise C069 unless the row's module or call is known, has its sizes, and asks for no dtype."""
    name, known = value[kind], _NAMED[kind]
    if name not in known:
        near = closest(str(name), known)
        raise wrong(f"no {kind} is called {name!r}{near}", doc.span("rows", at, kind))
    wanted = known[name][0]
    if set(value.get("dims", {})) != set(wanted):
        raise wrong(f"{kind} {name} has the sizes {', '.join(wanted)}", doc.span("rows", at))
    for key in ("dtype", "math"):
        if key in value:
            raise wrong(f"a {kind} has its own {key}", doc.key_span("rows", at, key))


def wrong(message: str, span: Span) -> ConfigError:
    """Return C069 with a message, at a place of the list's file."""
    error = ConfigError.of("C069", message, span)
    assert isinstance(error, ConfigError)
    return error


def require_device(suite: Suite, settings: Settings) -> None:
    """Raise EnvironmentProblem V113 where a suite of devices finds a device for none of its targets."""
    troubles = []
    for name in dict.fromkeys(row.backend or suite.backend for row in suite.rows):
        backend = backends.get(name)
        place = place_in(settings, backend, backends.resolve_arch(backend, None), suite.where)
        troubles.append(place.trouble)
    if suite.where == "device" and all(troubles):
        raise next(trouble for trouble in troubles if trouble is not None)


def measure(
    suite: Suite,
    *,
    settings: Settings,
    progress: Callable[[str], None],
    done: Mapping[str, Figure] | None = None,
    earlier: Mapping[str, Figure] | None = None,
    torch_compile: bool = False,
) -> Iterator[Measured]:
    """Yield each row as it is measured; what goes wrong in one is its reason, and the others go on.

    done: label -> figure of rows that are not measured again. earlier: figures to compare with, of a release for instance.

    Raises:
        EnvironmentProblem: V113, the suite is one of devices and there is none.
    """
    require_device(suite, settings)
    found: list[Measured] = []
    for row in suite.rows:
        if row.mean:
            found.append(_mean(row, found))
        else:
            known = (done or {}).get(row.label)
            found.append(_measured(row, suite, known, settings, progress, torch_compile))
        before = (earlier or {}).get(row.label)
        yield replace(found[-1], earlier=None if before is None else _value(before))


def _value(figure: Figure) -> float | None:
    return float(figure.cycles["total"]) if figure.cycles else figure.speedup["torch_eager"]


def _mean(row: Row, found: Sequence[Measured]) -> Measured:
    """Return the geometric mean of the rows of one name, of their figures and of the ends of their intervals."""
    rows = [each for each in found if each.row.name == row.mean and not each.row.mean]
    if lacking := [each for each in rows if each.speedup is None]:
        return Measured(row=row, figure=None, reason=f"{lacking[0].row.label} has no figure")
    ends = [(each.speedup or 1.0, *each.interval) for each in rows]
    middle, low, high = (math.prod(e[i] for e in ends) ** (1 / len(ends)) for i in range(3))
    return Measured(row=row, figure=None, mean=(middle, low, high))


def figures_of(data: Any, file: Path) -> dict[str, Figure]:
    """Return label -> figure of a septran.suite/1 object; rows without one are left out.

    Raises:
        ConfigError: C069, it is something else.
    """
    try:
        if data["schema"] != SuiteMeasured.SCHEMA:
            raise ValueError(data["schema"])
        names = {f.name for f in fields(Figure)}
        rows = [row for row in data["rows"] if row["figure"]]
        return {
            row["row"]: Figure(**{k: v for k, v in row["figure"].items() if k in names})
            for row in rows
        }
    except (KeyError, TypeError, ValueError):
        raise wrong(
            "no figures of a suite (`septran bench --suite cpu -o cpu.json`)",
            Span(file=str(file), line=1, col=1),
        ) from None


def _measured(
    row: Row,
    suite: Suite,
    known: Figure | None,
    settings: Settings,
    progress: Callable[[str], None],
    torch_compile: bool,
) -> Measured:
    if known is not None:
        return Measured(row=row, figure=known, reason=known.reason or "")
    backend, arch = row.backend or suite.backend, row.arch
    try:
        if row.module:
            made = bench_module(
                row.module, row.dims, backend, arch, settings=settings, torch_compile=torch_compile
            )
            return Measured(row=row, figure=made)
        if row.call:
            made = bench_call(row.call, row.dims, backend, arch, settings=settings)
            return Measured(row=row, figure=made)
        kernel = GenRequest(
            op=row.op,
            backend=backend,
            arch=arch,
            dims=row.dims,
            dtype=row.dtype,
            math=row.math,
            where=suite.where,
        )
        request = BenchRequest(kernel=kernel, torch_compile=torch_compile)
        (figure,) = bench(request, settings=settings, progress=progress)
        return Measured(row=row, figure=figure, reason=figure.reason or "")
    except SeptranError as error:
        return Measured(row=row, figure=None, reason=str(error).splitlines()[0])
