"""A list of searches: `septran tune --suite NAME` makes them one after another and says what each came to.

configs/searches/NAME.yaml lists operators with sizes. A search has *improved* the default where the best is faster by its whole
interval; the default is *within 3 %* where no other choice that was measured is more than that faster, by the upper ends of
their intervals; else it is *open*: the machine was too noisy to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from septran import assets, spanyaml
from septran.document import Document
from septran.errors import SeptranError, Span, closest
from septran.plan.resolve import GenRequest
from septran.run.suite import wrong
from septran.run.tune import Progress, tune
from septran.run.tune_outcome import Outcome, TuneRequest
from septran.settings import Settings

Row = Mapping[str, Any]
"""row: its label; trials, seed: as asked; state: begun, improved, within, open or failed; run; search: septran.tune/1 without its trials."""
_WORDS = {
    "improved": "improved",
    "within": "within 3 %",
    "open": "open in noise",
    "failed": "failed",
    "begun": "begun",
}
_KEYS = ("op", "dims", "dtype", "arch", "trials")
_TRIALS = 30
WITHIN = 1.03
"""What another choice may be faster by before a default that stays counts as open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One search. trials: kernels that may be built besides the default."""

    op: str
    dims: Mapping[str, int]
    dtype: str | None = None
    arch: str | None = None
    trials: int = _TRIALS

    @property
    def label(self) -> str:
        """Operator, type and sizes in a line."""
        sizes = " ".join(f"{name}={size}" for name, size in self.dims.items())
        return " ".join(filter(None, (self.op, self.arch, self.dtype, sizes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Searches:
    """Searches for one backend."""

    name: str
    backend: str
    rows: tuple[Search, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchesMade(Document):
    """What a list's searches came to, as far as they were made. rows: as `made` yields them."""

    SCHEMA: ClassVar[str] = "septran.searches/1"
    suite: str
    backend: str
    seed: int
    machine: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]


def load_searches(name: str) -> Searches:
    """Return the list in configs/searches/NAME.yaml, or in the file `name`.

    Raises:
        ConfigError: C069 a row that does not fit; C01x not readable, no YAML, or no list of this name.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = assets.find(f"configs/searches/{name}.yaml").path
    doc = spanyaml.load(path)
    top = doc.value
    if not isinstance(top, dict) or not isinstance(top.get("rows"), list) or "backend" not in top:
        raise wrong("a list of searches is a mapping of backend and rows: [...]", doc.span())
    for key in top:
        if key not in ("backend", "rows"):
            raise wrong(f"a list of searches has no key {key!r}", doc.key_span(key))
    rows = tuple(_row(value, doc, at) for at, value in enumerate(top["rows"]))
    return Searches(name=path.stem, backend=str(top["backend"]), rows=rows)


def _row(value: Any, doc: spanyaml.Document, at: int) -> Search:
    if not isinstance(value, dict):
        raise wrong("a row is a mapping: op, dims, trials, ...", doc.span("rows", at))
    for key in value:
        if key not in _KEYS:
            near = closest(str(key), _KEYS)
            raise wrong(f"a search has no key {key!r}{near}", doc.key_span("rows", at, key))
    dims, trials = value.get("dims", {}), value.get("trials", _TRIALS)
    sizes = isinstance(dims, dict) and all(type(n) is int and n > 0 for n in dims.values())
    if not isinstance(value.get("op"), str) or not sizes:
        raise wrong("a row names an op, and dims as {NAME: SIZE}", doc.span("rows", at))
    if type(trials) is not int or trials < 1:
        raise wrong("trials is a whole number above 0", doc.span("rows", at, "trials"))
    return Search(
        op=value["op"],
        dims=dims,
        dtype=value.get("dtype"),
        arch=value.get("arch"),
        trials=trials,
    )


def made(
    searches: Searches,
    *,
    seed: int,
    settings: Settings,
    progress: Progress,
    done: Mapping[str, Row],
    begun: Callable[[Row], None],
    output: Path | None = None,
) -> Iterator[Row]:
    """Yield what each search came to; what goes wrong in one is its reason, and the others go on.

    done: label -> row of an earlier call; what ended there is not searched again, what began there goes on. begun: is told of a
    search that begins, with its run. output: file of results in place of the one that `gen` reads.
    """
    for search in searches.rows:
        asked = {"row": search.label, "trials": search.trials, "seed": seed}
        known = done.get(search.label, {})
        if any(known.get(name) != value for name, value in asked.items()):
            known = {}
        if known.get("state") in ("improved", "within", "open"):
            yield known
            continue
        row = {**asked, "state": "begun", "run": ""}

        def started(run: str, row: dict[str, Any] = row) -> None:
            row["run"] = run
            begun(row)

        request = TuneRequest(
            kernel=GenRequest(
                op=search.op,
                backend=searches.backend,
                arch=search.arch,
                dims=search.dims,
                dtype=search.dtype,
                seed=settings.seed,
            ),
            trials=search.trials,
            seed=seed,
            resume=_kept(known.get("run")),
            output=output,
        )
        try:
            found = tune(request, settings=settings, progress=progress, begun=started)
        except SeptranError as error:
            yield {**row, "state": "failed", "reason": str(error).splitlines()[0]}
        else:
            yield {**row, **told(found)}


def _kept(run: object) -> str | None:
    """Return a run's folder while it is there."""
    return run if isinstance(run, str) and run and (Path(run) / "run.json").is_file() else None


def told(found: Outcome) -> Row:
    """Return what a row says of a search: its object without the trials, and whether it improved the default."""
    data = found.to_json()
    trials = [t["found"] for t in data.pop("trials") if t["state"] in ("measured", "predicted")]
    data["spread"] = max(trials) / min(trials)
    near = found.within is not None and found.within <= WITHIN
    stays = near or found.how == "predicted"
    return {"state": "improved" if found.better else "within" if stays else "open", "search": data}


def rows_of(data: Any, file: Path) -> dict[str, Row]:
    """Return label -> row of a septran.searches/1 object.

    Raises:
        ConfigError: C069, it is something else.
    """
    try:
        if data["schema"] != SearchesMade.SCHEMA:
            raise ValueError(data["schema"])
        return {str(row["row"]): dict(row) for row in data["rows"]}
    except (KeyError, TypeError, ValueError):
        raise wrong(
            "no searches of a list (`septran tune --suite cpu --report tune.json`)",
            Span(file=str(file), line=1, col=1),
        ) from None


def page(searches: Searches, rows: Sequence[Row], facts: str) -> str:
    """Return the page of a list in Markdown. facts: the machine, in a line."""
    counts = {name: sum(row["state"] == name for row in rows) for name in _WORDS}
    said = ", ".join(f"{count} {_WORDS[name]}" for name, count in counts.items() if count)
    lines = [
        f"# Searches {searches.name} on {searches.backend}",
        "",
        f"{facts} {len(rows)} of {len(searches.rows)} searched: {said or 'nothing'}.",
        "",
        "| operator, sizes | default | best | better by | others within | built, pruned, refused, of | model: rank, slowest / fastest, pairs apart in its order : not | |",
        "|---|---|---|---|---|---|---|---|",
        *(_line(row) for row in rows),
    ]
    return "\n".join(lines) + "\n"


def said(row: Row) -> str:
    """Return in a few words what a search came to."""
    found = row.get("search")
    if found is None or not found["better"]:
        return f"{_WORDS[row['state']]}{': ' + row['reason'] if row.get('reason') else ''}"
    return f"{found['speedup']['middle']:.3f} x the default with {_values(found['best']['values'])}"


def _line(row: Row) -> str:
    found = row.get("search")
    if found is None:
        return f"| {row['row']} | - | - | - | - | - | - | {_WORDS[row['state']]}: {row.get('reason', '')} |"
    default, best, speed = found["default"], found["best"], found["speedup"]
    gain = f"{speed['middle']:.3g}"
    if speed["low"] != speed["high"]:
        gain += f" ({speed['low']:.3f} to {speed['high']:.3f})"
    within = "-" if found["within"] is None else f"{100 * (found['within'] - 1):.1f} %"
    space = math.prod(len(values) for values in found["choices"].values())
    rank = found["rank_correlation"]
    pairs = found["ordered"]
    model = (
        "-"
        if rank is None
        else f"{rank:.2f}, {found['spread']:.2f}, {pairs['by_model']} : {pairs['against_it']}"
    )
    kept = _values(best["values"]) if found["better"] else "the default stays"
    if found["how"] == "predicted":
        kept += " (predicted, not measured)"
    counts = f"{found['measured'] + found['predicted'] + found['wrong'] - 1}, {found['pruned']}, {found['refused']}, {space}"
    return (
        f"| {row['row']} | {_values(default['values'])}: {_figure(default['found'], found['unit'])} | {kept} | "
        f"{gain if found['better'] else ''} | {within} | {counts} | {model} | {_WORDS[row['state']]} |"
    )


def _values(values: Mapping[str, Any]) -> str:
    """Return values by the last part of their names."""
    return ", ".join(
        f"{name.rpartition('.')[2].removeprefix('block_size_')}={value}"
        for name, value in values.items()
    )


def _figure(figure: float, unit: str) -> str:
    return f"{figure:,.0f} cycles" if unit == "cycles" else f"{1e6 * figure:,.1f} us"
