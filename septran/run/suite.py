"""A suite: the figures that a target promises, measured in one call and set against their gates.

configs/suites/NAME.yaml lists operators with sizes, a gate (torch's time over the kernel's that has to be held) and a
goal. A row that cannot be measured stays in the result, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from septran import assets, spanyaml
from septran.document import Document
from septran.errors import ConfigError, SeptranError, Span, closest
from septran.plan.resolve import GenRequest
from septran.run.bench import BenchRequest, Figure, bench
from septran.run.bench_module import MODULES, bench_module
from septran.settings import Settings

_KEYS = ("op", "module", "dims", "dtype", "math", "arch", "gate", "goal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of a suite. gate: least speedup over torch; goal: what is known to be possible, None = not known.

    math: arithmetic with an accuracy of its own (`septran gen --math`).
    op: an operator; or module: one of `bench_module.MODULES`, with the dtype that it has there and its weights prepared once.
    """

    op: str = ""
    module: str = ""
    dims: Mapping[str, int]
    dtype: str | None = None
    math: str = ""
    arch: str | None = None
    gate: float
    goal: float | None = None

    @property
    def label(self) -> str:
        """Operator, type and sizes in a line."""
        sizes = " ".join(f"{name}={size}" for name, size in self.dims.items())
        what = self.op or f"module {self.module}"
        return " ".join(filter(None, (what, self.math, self.dtype, sizes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Rows for one backend."""

    name: str
    backend: str
    rows: tuple[Row, ...]


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
    """A row with its figure, None with the reason when it has none."""

    row: Row
    figure: Figure | None
    reason: str = ""
    earlier: float | None = None
    """what the same row had in other figures: torch's time over the kernel's"""

    @property
    def against_earlier(self) -> float | None:
        """Speedup over the earlier one: above 1 the row has become faster, seen from torch."""
        return self.speedup / self.earlier if self.speedup and self.earlier else None

    @property
    def speedup(self) -> float | None:
        """Torch's time over the kernel's."""
        return self.figure.speedup["torch_eager"] if self.figure else None

    @property
    def held(self) -> bool | None:
        """Whether the gate is held; None when there is no figure, or its interval includes the gate."""
        figure = self.figure
        if figure is None or self.speedup is None:
            return None
        low, high = figure.low or self.speedup, figure.high or self.speedup
        if low < self.row.gate <= high:
            return None
        return self.speedup >= self.row.gate

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        figure = self.figure.to_json() if self.figure else None
        return {
            "row": self.row.label,
            "gate": self.row.gate,
            "goal": self.row.goal,
            "held": self.held,
            "reason": self.reason,
            "against_earlier": self.against_earlier,
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
        if key not in ("backend", "rows"):
            raise wrong(f"a suite has no key {key!r}", doc.key_span(key))
    rows = tuple(_row(value, doc, at) for at, value in enumerate(top["rows"]))
    return Suite(name=path.stem, backend=str(top["backend"]), rows=rows)


def _row(value: Any, doc: spanyaml.Document, at: int) -> Row:
    if not isinstance(value, dict):
        raise wrong("a row is a mapping: op, dims, gate, ...", doc.span("rows", at))
    for key in value:
        if key not in _KEYS:
            near = closest(str(key), _KEYS)
            raise wrong(f"a row has no key {key!r}{near}", doc.key_span("rows", at, key))
    dims = value.get("dims", {})
    sizes = isinstance(dims, dict) and all(type(n) is int and n > 0 for n in dims.values())
    if "module" in value and "op" not in value and sizes:
        _check_module(value, doc, at)
    elif not isinstance(value.get("op"), str) or not sizes or "module" in value:
        raise wrong("a row names an op, and dims as {NAME: SIZE}", doc.span("rows", at))
    for key in ("gate", "goal"):
        number = value.get(key, None if key == "goal" else "missing")
        if number is not None and (type(number) not in (int, float) or number <= 0):
            raise wrong(f"{key} is a number above 0: torch's time over ours", doc.span("rows", at))
    return Row(
        op=value.get("op", ""),
        module=value.get("module", ""),
        dims=dims,
        dtype=value.get("dtype"),
        math=value.get("math", ""),
        arch=value.get("arch"),
        gate=float(value["gate"]),
        goal=None if value.get("goal") is None else float(value["goal"]),
    )


def _check_module(value: Mapping[str, Any], doc: spanyaml.Document, at: int) -> None:
    """Raise C069 unless the row's module is known, has its sizes, and asks for no dtype."""
    name = value["module"]
    if name not in MODULES:
        near = closest(str(name), MODULES)
        raise wrong(f"no module is called {name!r}{near}", doc.span("rows", at, "module"))
    wanted = MODULES[name][0]
    if set(value.get("dims", {})) != set(wanted):
        raise wrong(f"module {name} has the sizes {', '.join(wanted)}", doc.span("rows", at))
    for key in ("dtype", "math"):
        if key in value:
            raise wrong(f"a module has its own {key}", doc.key_span("rows", at, key))


def wrong(message: str, span: Span) -> ConfigError:
    """Return C069 with a message, at a place of the list's file."""
    error = ConfigError.of("C069", message, span)
    assert isinstance(error, ConfigError)
    return error


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
    """
    for row in suite.rows:
        before = (earlier or {}).get(row.label)
        found = _measured(
            row, suite.backend, (done or {}).get(row.label), settings, progress, torch_compile
        )
        yield replace(found, earlier=before.speedup["torch_eager"] if before else None)


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
    backend: str,
    known: Figure | None,
    settings: Settings,
    progress: Callable[[str], None],
    torch_compile: bool,
) -> Measured:
    if known is not None:
        return Measured(row=row, figure=known, reason=known.reason or "")
    if row.module:
        try:
            made = bench_module(row.module, row.dims, backend, row.arch, settings=settings)
            return Measured(row=row, figure=made)
        except SeptranError as error:
            return Measured(row=row, figure=None, reason=str(error).splitlines()[0])
    kernel = GenRequest(
        op=row.op, backend=backend, arch=row.arch, dims=row.dims, dtype=row.dtype, math=row.math
    )
    request = BenchRequest(kernel=kernel, torch_compile=torch_compile)
    try:
        (figure,) = bench(request, settings=settings, progress=progress)
        return Measured(row=row, figure=figure, reason=figure.reason or "")
    except SeptranError as error:
        return Measured(row=row, figure=None, reason=str(error).splitlines()[0])


def page(suite: Suite, found: tuple[Measured, ...], facts: str) -> str:
    """Return the suite's page in Markdown. facts: the machine, in a line."""
    lines = [
        f"# Suite {suite.name} on {suite.backend}",
        "",
        f"{facts} torch's time over the kernel's, outputs allocated on both sides; 95 % interval.",
        "",
        "| row | us | x torch | interval | x reused | x compiled | x earlier | gate | goal | of the limit | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(each) for each in found]
    missed = [each for each in found if each.held is not True]
    if missed:
        lines += ["", "Rows that do not hold their gate, and what bounds them:", ""]
        lines += [f"- {each.row.label}: {bound(each)}" for each in missed]
    return "\n".join(lines) + "\n"


def bound(measured: Measured) -> str:
    """Return what keeps a row from its gate, as far as the figure says it."""
    figure = measured.figure
    if figure is None or measured.speedup is None:
        return measured.reason or "not measured"
    said = []
    if figure.limit_share is not None:
        said.append(f"{100 * figure.limit_share:.0f} % of the machine's {figure.limited_by} limit")
    elif figure.limit_reason:
        said.append(figure.limit_reason)
    if (figure.call_us or 0) > (figure.kernel_us or 0):
        said.append(f"the call costs more than the kernel ({figure.call_us} us)")
    if measured.held is None:
        said.append("the interval includes the gate")
    if figure.reliable is False:
        said.append("measured on a busy machine")
    return "; ".join(said) or "no limit is known"


def _line(each: Measured) -> str:
    figure, row = each.figure, each.row
    if figure is None or each.speedup is None:
        return f"| {row.label} | - | - | - | - | - | - | {row.gate} | {row.goal or '-'} | - | {each.reason} |"
    share = "-" if figure.limit_share is None else f"{100 * figure.limit_share:.0f} %"
    word = {True: "held", False: "missed", None: "open"}[each.held]
    return (
        f"| {row.label} | {figure.kernel_us} | {each.speedup} | {figure.low} to {figure.high} | "
        f"{figure.reused or '-'} | {figure.speedup['torch_compile'] or '-'} | {_short(each.against_earlier)} | {row.gate} | {row.goal or '-'} | {share} | {word} |"
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
