"""What a person sees while a batch runs: a live table on a terminal, one line per cell in a log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from septran.batch.cells import Cell
from septran.batch.plan import Plan
from septran.batch.run import SORTS, BatchResult, Watch, sort_of
from septran.cli.console import Terminal
from septran.cli.steps import heartbeat, live

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_STYLE = {"accurate": "green", "rejected": "red", "unavailable": "yellow", "failed": "red"}


class BatchView:
    """Collects what the batch says; draws on stderr when a person watches it."""

    def __init__(self, term: Terminal) -> None:
        self._term = term
        self._total = 0
        self._done = 0
        self._counts: dict[tuple[str, str], Counter[str]] = {}
        self._running: dict[str, float] = {}
        self._live: Live | None = None
        self.plan: Plan | None = None
        """What is done, once it is known."""

    def watch(self) -> Watch:
        """Return what `run_batch` calls."""
        return Watch(
            planned=self._planned, started=self._started, ended=self._ended, note=self._term.note
        )

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show a live table on a terminal, and in a log now and then the cells that still run."""
        beat = heartbeat(self._term, self._still, unless=lambda: self._live is not None)
        with live(self._term, self._table) as self._live, beat:
            yield

    def result(self, result: BatchResult) -> None:
        """Write the last line (JSON), or the table and the totals."""
        if self._term.json:
            self._term.emit(result.to_json())
            return
        rows = [
            (op, backend, *(counts[sort] or "-" for sort in SORTS))
            for (op, backend), counts in sorted(self._counts.items())
        ]
        self._term.table(("op", "backend", *SORTS), rows)
        total = ", ".join(f"{n} {sort}" for sort, n in result.counts.items() if n) or "no cells"
        told = "".join(f"{score.text()}\n" for score in result.scores)
        self._term.result(f"\n{total} in {result.seconds:.1f} s\n{told}{result.run}")

    def _planned(self, plan: Plan) -> None:
        self.plan = plan
        self._total = len(plan.cells)
        for cell in plan.cells:
            self._counts.setdefault((cell.op, cell.backend), Counter())
        self._term.note(f"{self._total} cells, {plan.run.dir}")

    def _started(self, cell: Cell) -> None:
        self._running[cell.id] = time.monotonic()
        self._term.detail(f"start {cell.id}")

    def _ended(self, data: Mapping[str, Any], reused: bool) -> None:
        sort = sort_of(data)
        self._done += 1
        self._running.pop(data["cell"], None)
        self._counts.setdefault((data["op"], data["backend"]), Counter())[sort] += 1
        if self._term.json:
            self._term.emit(data)
        if self._live is None and not (reused and not self._term.verbose):
            width = len(str(self._total))
            self._term.note(f"[{self._done:{width}}/{self._total}] {line(data, sort)}")

    def _still(self) -> str:
        now = time.monotonic()
        known = [f"{name}: {now - since:.0f} s" for name, since in list(self._running.items())]
        return f"running {', '.join(known)}" if known else ""

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, title=f"{self._done} of {self._total} cells", title_justify="left")
        for name in ("op", "backend", *SORTS):
            table.add_column(name)
        for (op, backend), counts in self._counts.items():
            if counts:
                numbers = (Text(str(counts[s] or ""), style=_STYLE[s]) for s in SORTS)
                table.add_row(op, backend, *numbers)
        for name, since in list(self._running.items()):
            table.add_row(Text(f"{time.monotonic() - since:4.0f} s  {name}", style="dim"))
        return table


def line(data: Mapping[str, Any], sort: str) -> str:
    """Return a cell on one line: what came out, how much of the error budget was used, how fast."""
    words = [f"{sort:11}", data["cell"]]
    if data.get("where"):
        words.append(str(data["where"]))
    if data.get("same_text_as"):
        words.append(f"same text as {data['same_text_as']}")
    if data.get("budget_ratio") is not None and sort == "accurate":
        words.append(f"{100 * float(data['budget_ratio']):.0f} % of the error allowed")
    if (data.get("speedup") or {}).get("torch_eager"):
        words.append(f"{data['speedup']['torch_eager']:.2f} x torch")
    if data.get("reason"):
        words.append(str(data["reason"]).partition("\n")[0])
    return "  ".join(words)
