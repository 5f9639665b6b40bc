"""What a report shows: one row per kernel, read from a run's files alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from septran.batch.run import SORTS, planned_requests, results, scored, sort_of
from septran.batch.score import Score
from septran.document import plain_text, read_object
from septran.errors import ConfigError
from septran.report.again import command
from septran.run import store

_LOG_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kernel. budget_ratio: share of the allowed error. speedup: torch's time / the kernel's.

    low, high: 95 % interval of the speedup; reliable: the machine was quiet. kernel_us: microseconds per call. limit_share: of what the machine can do.
    cycles: of a simulator. findings: what refused its proofs. command: runs it again. edited: the result is not as this home wrote it.
    """

    cell: str
    op: str
    backend: str
    arch: str
    dims: str
    dtype: str
    writer: str
    sort: str
    level: str
    where: str = ""
    max_error: float | None = None
    budget_ratio: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    reliable: bool = True
    kernel_us: float | None = None
    limit_share: float | None = None
    compile_s: float | None = None
    verify_s: float | None = None
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    leaves: str = ""
    not_checked: str = ""
    same_text_as: str = ""
    reason: str = ""
    hint: str = ""
    culprit: str = ""
    seed: int | None = None
    command: str = ""
    run: str = ""
    kernel: str = ""
    worst: Mapping[str, Any] = field(default_factory=dict)
    cycles: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    findings: tuple[Mapping[str, Any], ...] = ()
    edited: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The rows of a run and where, when and with what they were made.

    planned: cells of the batch. scores: how its task files came out on each target.
    """

    title: str
    run: str
    created: str
    rows: tuple[Row, ...]
    planned: int
    scores: tuple[Score, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        """Return how many rows there are of each sort, and of cells without a result."""
        found: dict[str, int] = {
            str(sort): sum(row.sort == sort for row in self.rows) for sort in SORTS
        }
        if self.planned > len(self.rows):
            found["not run"] = self.planned - len(self.rows)
        return found

    def counted(self) -> tuple[Row, ...]:
        """Return the rows that have a cycle report."""
        return tuple(row for row in self.rows if row.cycles)

    def unproven(self) -> tuple[Row, ...]:
        """Return the rows of whose hierarchy a proof was refused."""
        return tuple(row for row in self.rows if row.findings)

    def edited(self) -> tuple[Row, ...]:
        """Return the rows whose result is not as this home wrote it: edited, or made elsewhere."""
        return tuple(row for row in self.rows if row.edited)

    def failures(self) -> tuple[Row, ...]:
        """Return the rows that are not accurate although they could be judged."""
        return tuple(row for row in self.rows if row.sort in ("rejected", "failed"))


def read_report(run: store.Run) -> Report:
    """Return the report of a batch run or of the run of one kernel.

    Raises:
        ConfigError: C065, the run has no result; C136, it is damaged.
    """
    info = run.info()
    batch = (run.dir / "batch.json").is_file()
    found = results(run) if batch else _single(run)
    if not found:
        raise ConfigError.of(
            "C065",
            f"run {run.id} has no result to report",
            help="`septran runs show` says how far it got",
        )
    asked = info.get("request", {})
    requests = planned_requests(run) if batch else {}
    title = Path(str(asked["batch"])).name if asked.get("batch") else run.id
    try:
        rows = tuple(_row(data, requests.get(data["cell"], {})) for data in found)
        planned = int(asked.get("cells", len(found)))
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ConfigError.of(
            "C136", f"a result of run {run.id} is damaged: {e}", help="repeat the run"
        ) from e
    return Report(
        title=title,
        run=run.id,
        created=str(info.get("created", "")),
        rows=rows,
        planned=planned,
        scores=scored(run) if batch else (),
        versions=info.get("versions", {}),
        machine=info.get("machine", {}),
    )


def _single(run: store.Run) -> list[dict[str, Any]]:
    data = read_object(run.dir / "result.json")
    if data is None:
        return []
    data["edited"] = not run.is_sealed("result.json")
    if "cell" not in data:
        dims = _dims(data, ",")
        target = ".".join(filter(None, (data.get("backend"), data.get("arch"))))
        data["cell"] = f"{data.get('op')}/{target}/{dims}/{data.get('dtype')}"
    return [data]


def _row(data: Mapping[str, Any], asked: Mapping[str, Any]) -> Row:
    timing, model, seconds = (data.get(k) or {} for k in ("timing", "model", "seconds"))
    run = Path(data["run"]) if data.get("run") else None
    sort = sort_of(data)
    bad = sort in ("rejected", "failed")
    leaves = data.get("leaves") or ()
    return Row(
        cell=data["cell"],
        op=str(data.get("op")),
        backend=str(data.get("backend")),
        arch=data.get("arch") or "",
        dims=_dims(data, " "),
        dtype=str(data.get("dtype")),
        writer=", ".join(dict.fromkeys(str(leaf.get("writer")) for leaf in leaves)),
        sort=sort,
        level=str(data.get("level")),
        where=data.get("where") or "",
        max_error=_number(data.get("max_error")),
        budget_ratio=_number(data.get("budget_ratio")),
        speedup=(data.get("speedup") or {}).get("torch_eager"),
        low=timing.get("low"),
        high=timing.get("high"),
        reliable=bool(timing.get("reliable", True)),
        limit_share=data.get("limit_share"),
        kernel_us=1e6 * timing["kernel_s"] if timing.get("kernel_s") else None,
        compile_s=seconds.get("compile"),
        verify_s=seconds.get("verify"),
        calls=int(model.get("calls") or 0),
        tokens=int(model.get("prompt_tokens") or 0) + int(model.get("completion_tokens") or 0),
        cost=float(model.get("cost") or 0.0),
        leaves=", ".join([*map(_leaf, leaves), *map(_by_torch, data.get("host_leaves") or ())]),
        not_checked="; ".join(data.get("not_checked") or ()),
        same_text_as=str(data.get("same_text_as") or ""),
        reason=str(data.get("reason") or ""),
        hint=str(data.get("hint") or ""),
        culprit=_culprit(data.get("culprit") or {}),
        seed=data.get("seed"),
        command=command(data, _asked(run) or asked),
        run=str(run) if run else "",
        kernel=str(data.get("kernel") or ""),
        worst=data.get("worst") or {},
        cycles=data.get("cycles") or {},
        log=_log(run, data) if bad else "",
        findings=_findings(run, data),
        edited=bool(data.get("edited")),
    )


def _by_torch(part: Mapping[str, Any]) -> str:
    return f"torch: {part.get('operators')}"


def _findings(run: Path | None, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return what refused the rules of the run's certificate, as they stand in it."""
    if run is None or not (data.get("proof") or {}).get("refused"):
        return ()
    try:
        rules = json.loads(plain_text(run / "certificate.json"))["rules"]
        return tuple(f for rule in rules.values() for f in rule.get("findings", ()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()


def _asked(run: Path | None) -> Mapping[str, Any]:
    found = store.Run(run).info().get("request") if run else None
    return found if isinstance(found, dict) else {}


def _culprit(found: Mapping[str, Any]) -> str:
    who = " ".join(str(found[word]) for word in ("kind", "name") if found.get(word))
    return f"{who}: {found['why']}" if found.get("why") else who


def _leaf(leaf: Mapping[str, Any]) -> str:
    who = leaf.get("model") or leaf.get("writer")
    return f"{leaf.get('task')}: {leaf.get('name')} ({who})"


def _dims(data: Mapping[str, Any], between: str) -> str:
    return between.join(f"{name}={size}" for name, size in (data.get("dims") or {}).items())


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float, str)) else None


def _log(run: Path | None, data: Mapping[str, Any]) -> str:
    if data.get("traceback"):
        return str(data["traceback"])
    path = run / "verify" / "child.log" if run else None
    if path is None or not path.is_file():
        return ""
    lines: Sequence[str] = plain_text(path, errors="replace").splitlines()
    return "\n".join(lines[-_LOG_LINES:])
