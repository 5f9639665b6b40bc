"""Every operator of every GPU backend on the GPU of this machine: accuracy and speed, in one call.

    python benchmarks/gpu.py                               everything; page in docs/gpu-results.md
    python benchmarks/gpu.py --only gemm,attention --backends cuda_c --minutes 20
    python benchmarks/gpu.py --dry-run                     everything up to the launch; needs no GPU

Each kernel is verified on the device first (septran gen, sample and odd dims), then timed at large sizes with the
target's policy and the variants of benchmarks/gpu.yaml, against torch eager, torch.compile and the library call
(cuBLAS, SDPA). The limits are measured, too: a copy and cuBLAS. What matters most comes first, on every backend; a
cell that fails leaves the others alone. Every row is on disk before the next begins; a killed run goes on where it
was. Exit 0: all accurate; 1: not all; 3: no GPU here.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import math
import multiprocessing
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import gpu_cells, gpu_check, gpu_torch  # noqa: E402
from benchmarks.gpu_cells import Cell, Lowering  # noqa: E402
from benchmarks.gpu_plot import drawn  # noqa: E402
from benchmarks.gpu_report import Rows, page  # noqa: E402
from septran import gpu  # noqa: E402
from septran.atomic import write_atomic  # noqa: E402
from septran.backends.base import Backend  # noqa: E402
from septran.errors import SeptranError  # noqa: E402
from septran.kernel import content_hash  # noqa: E402
from septran.plan.cores import cores  # noqa: E402
from septran.plan.problem import problem_of  # noqa: E402
from septran.run import store  # noqa: E402
from septran.tasklang.operator import Operator  # noqa: E402
from septran.trial.place import place_of  # noqa: E402
from septran.verify import timing  # noqa: E402
from septran.verify.problem import Problem  # noqa: E402

Kernel = tuple[str, str, str, str]
"""Operator, backend, arch and type: what is verified once."""
Planned = tuple[Operator, Backend, Cell]


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=_words, default=[], help="operators, globs, comma separated")
    parser.add_argument("--backends", type=_words, default=[], help="default: all that run here")
    parser.add_argument("--dtypes", type=_words, default=[], help="default: those of gpu.yaml")
    parser.add_argument("--arch", default="", help="default: the GPU's")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no cell after; go on later"
    )
    parser.add_argument(
        "--jobs", type=int, default=_jobs(), help="kernels checked or prepared side by side"
    )
    parser.add_argument("--dry-run", action="store_true", help="emit and compile; launch nothing")
    parser.add_argument("--small", action="store_true", help="time at the operators' sample sizes")
    parser.add_argument("--no-check", action="store_true", help="do not verify small sizes first")
    parser.add_argument("--no-compile", action="store_true", help="do not time torch.compile")
    parser.add_argument("--no-variants", action="store_true", help="the targets' policies only")
    parser.add_argument("--render", action="store_true", help="write the page from the rows only")
    parser.add_argument("--rows", type=Path, default=ROOT / "benchmarks" / "results" / "gpu.jsonl")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "gpu-results.md")
    return parser.parse_args(argv)


def _jobs() -> int:
    return max(1, min(12, cores() - 2))


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    rows = Rows(args.rows)
    if args.render:
        write_page(rows, args.page)
        return 0
    found = {vendor: gpu.find(vendor) for vendor in ("nvidia", "amd")}
    here = next((g for g in found.values() if isinstance(g, gpu.Gpu)), None)
    targets = gpu_cells.targets(args.backends, args.arch, dry=args.dry_run)
    if not args.dry_run and (here is None or not targets):
        sys.stderr.write("nothing was measured: no GPU backend runs here\n")
        sys.stderr.writelines(f"  {text}\n" for text in gpu_cells.left_out(args.backends))
        sys.stderr.write("--dry-run emits and compiles everything without a GPU\n")
        return 3
    session = Session(args, rows, None if args.dry_run else here, targets)
    return session.run()


def write_page(rows: Rows, path: Path) -> None:
    """Write the page, and a picture for each GPU beside it."""
    pictures = {}
    for name in dict.fromkeys(row["gpu"] for row in rows.of("machine")):
        if text := drawn(rows.of("speed"), name):
            slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
            pictures[name] = f"{path.stem}-{slug}.svg"
            write_atomic(path.with_name(pictures[name]), text.encode())
    write_atomic(path, page(rows, pictures).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a cell gave. facts: of its row. problem: what was timed, None where nothing was. new: not read from a row."""

    key: str
    facts: Mapping[str, Any]
    problem: Problem | None = None
    new: bool = True


class Session:
    """One call of this script. `device` is None in a dry run."""

    def __init__(
        self,
        args: argparse.Namespace,
        rows: Rows,
        device: gpu.Gpu | None,
        targets: list[tuple[Backend, str]],
    ) -> None:
        self.args, self.rows, self.device, self.targets = args, rows, device, targets
        self.given = gpu_cells.settings()
        self.dtypes = args.dtypes or self.given["dtypes"]
        self.end = time.monotonic() + 60 * args.minutes
        self.bad = 0
        self.right: dict[Kernel, bool] = {}
        self.begun: set[str] = set()
        self.lock = threading.Lock()
        self.quiet = threading.Lock()
        """held by whoever times on the GPU, or has it judge what was timed"""

    @property
    def name(self) -> str:
        return self.device.name if self.device else "dry run"

    def run(self) -> int:
        ops = gpu_cells.operators(self.args.only, list(self.given["sizes"]))
        if self.device is not None:
            self._machine()
            self._limits()
        turns = gpu_cells.planned(
            ops, self.targets, self.dtypes, self.given,
            small=self.args.small, candidates=not self.args.no_variants,
        )  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="septran-gpu-") as folder:
            for number, turn in enumerate(turns):
                self._check(turn, Path(folder) / f"{number}-checks")
                if not self._measure(turn, Path(folder) / str(number)):
                    break
        self._write()
        if self._over():
            self._say("out of time, cells are left; run again to go on")
        return 1 if self.bad or self._over() else 0

    def _over(self) -> bool:
        return time.monotonic() > self.end

    def _check(self, turn: Sequence[Planned], folder: Path) -> None:
        """Verify the turn's kernels on the device at sample and odd dims, several at a time; none is timed meanwhile."""
        todo: list[tuple[Kernel, Cell, str]] = []
        for op, _, cell in turn:
            if self.device is None or self.args.no_check:
                self.right[_kernel(cell)] = True
            if _kernel(cell) in self.right:
                continue
            self.right[_kernel(cell)] = True
            for dims in (dict(op.dims), *({**op.dims, **odd} for odd in op.odd_dims[:1])):
                small = gpu_cells.replace(cell, dims=dims, candidate="", change={})
                key = self._key(small, folder)
                row = self.rows.known("check", key) if key else None
                if row is None:
                    todo.append((_kernel(cell), small, key))
                else:
                    self._checked(_kernel(cell), row)
        folders = (folder / f"gen{number}" for number in range(len(todo)))
        for (kernel, cell, key), facts in self._verified(todo, folders):
            if facts is None:
                self.right[kernel] = False  # not begun: the next call checks it
                continue
            about = {**_about(cell), "gpu": self.name, "date": _today()}
            row = self.rows.add("check", key, **about, **facts)
            self._checked(kernel, row)
            said = f"{row['level']} {row['where'] or ''} {row.get('reason') or ''}"
            self._say(f"{_title(cell)}: {said.strip()}")
        self._write()

    def _verified(
        self, todo: Sequence[tuple[Kernel, Cell, str]], folders: Iterable[Path]
    ) -> Iterator[tuple[tuple[Kernel, Cell, str], Mapping[str, Any] | None]]:
        """Yield the verdict on each, None where time was over before it began."""
        if self.args.jobs == 1 or len(todo) < 2:
            for each, folder in zip(todo, folders, strict=False):
                yield each, None if self._over() else gpu_check.verify(each[1], folder)
            return
        context = multiprocessing.get_context("spawn")
        workers = min(self.args.jobs, len(todo))
        with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
            begun = [
                pool.submit(gpu_check.verify, each[1], folder)
                for each, folder in zip(todo, folders, strict=False)
            ]
            for each, future in zip(todo, begun, strict=True):
                if self._over() and not future.running() and not future.done():
                    future.cancel()
                yield each, None if future.cancelled() else future.result()

    def _checked(self, kernel: Kernel, row: Mapping[str, Any]) -> None:
        right = row["exit_code"] == 0 and row["where"] == "device"
        self.bad += self.right[kernel] and not right
        self.right[kernel] &= right

    def _key(self, cell: Cell, folder: Path) -> str:
        try:
            return gpu_cells.lowering(cell, folder).key(self.name)
        except (SeptranError, LookupError):
            return ""

    def _measure(self, turn: Sequence[Planned], folder: Path) -> bool:
        """Build and load several cells at a time and time one at a time; return whether there was time for all."""
        cells = [(b, cell) for _, b, cell in turn if self.right.get(_kernel(cell))]
        with concurrent.futures.ThreadPoolExecutor(max(1, self.args.jobs // 2)) as pool:
            begun = [
                pool.submit(self._cell, backend, cell, folder / f"cell{number}")
                for number, (backend, cell) in enumerate(cells)
            ]
            for (_, cell), future in zip(cells, begun, strict=True):
                try:
                    found = future.result()
                except Exception as error:  # one cell must not cost the others
                    self._failed(cell, error)
                    continue
                if found is not None:
                    self._found(cell, found)
        return not self._over()

    def _failed(self, cell: Cell, error: Exception) -> None:
        """Write down what went wrong; the next call tries the cell again."""
        text = f"{type(error).__name__}: {error}"[:300]
        self.bad += 1
        self._say(f"{_title(cell)}: {text}")
        about = {**_about(cell), "gpu": self.name}
        self.rows.add("failed", content_hash(about), **about, date=_today(), note=text)

    def _found(self, cell: Cell, found: Found) -> None:
        """Keep what a cell gave, and torch's times at its size."""
        facts: dict[str, Any] = {**_about(cell), "gpu": self.name, "date": _today(), **found.facts}
        if found.problem is not None:
            facts["torch"] = self._torch(cell, found.problem)
        if found.problem is not None and facts.get("ms"):
            facts |= self._rates(cell, found.problem, facts["ms"] / 1e3)
        note = facts.get("note") or ""
        self.bad += bool(note) and not cell.candidate
        if found.new:
            self.rows.add("speed" if self.device else "built", found.key, **facts)
            self._write()
            took = f"{facts['ms']:.4g} ms" if facts.get("ms") else note or "compiled"
            self._say(f"{_title(cell)}: {took}")

    def _cell(self, backend: Backend, cell: Cell, folder: Path) -> Found | None:
        """Return what one cell gives; None when time is over."""
        if self._over():
            return None
        kind = "speed" if self.device is not None else "built"
        try:
            made = gpu_cells.lowering(cell, folder)
        except (SeptranError, LookupError) as e:
            key = content_hash([_about(cell), self.name])
            new = self.rows.known(kind, key) is None
            return Found(key=key, facts={"note": str(e).partition("\n")[0]}, new=new)
        key = made.key(self.name)
        known = self.rows.known(kind, key)
        if known is not None:
            return Found(key=key, facts={"note": known.get("note")}, new=False)
        with self.lock:
            if key in self.begun:  # variants of a policy that come to the same kernel
                return None
            self.begun.add(key)
        folder.mkdir(parents=True, exist_ok=True)
        if self.device is None:
            return Found(key=key, facts=self._built(backend, made, folder))
        return self._timed(backend, cell, made, folder)

    def _built(self, backend: Backend, made: Lowering, folder: Path) -> dict[str, Any]:
        """Do what comes before a launch: the target's compiler, and for CUDA C++ the library that is loaded."""
        assert backend.device is not None
        for number, build in enumerate((backend.device.build, backend.build)):
            place = folder / str(number)
            place.mkdir()
            built = build(made.kernel, place)
            if not built.ok:
                return {"note": f"not compiled: {built.log[-300:]}"}
        missing = [text for text in built.not_checked if text.startswith("compile")]
        return {"facts": dict(built.facts), "note": "", "not_checked": missing}

    def _timed(self, backend: Backend, cell: Cell, made: Lowering, folder: Path) -> Found | None:
        place = place_of(backend, cell.arch, "device", 1)
        (folder / "build").mkdir()
        built = place.build(made.kernel, folder / "build")
        key = made.key(self.name)
        if not built.ok or built.artifact is None:
            return Found(key=key, facts={"note": f"not compiled: {built.log[-300:]}"})
        if self._over():
            return None
        problem = problem_of(made.plan, made.lowered.program, made.plan.dims)
        found = timing.measure(
            made.kernel,
            built.artifact,
            problem,
            run_dir=folder,
            settings=place.sessions,
            budget_s=0.4,
            quiet=self.quiet,
        )
        facts: dict[str, Any] = {"facts": dict(built.facts)}
        facts |= {"ms": 1e3 * found.kernel_s} if found.ok else {"note": found.why[:300]}
        return Found(key=key, facts=facts, problem=problem)

    def _rates(self, cell: Cell, problem: Problem, seconds: float) -> dict[str, Any]:
        """Return TFLOP/s or GB/s, and the share of the measured limit."""
        limits = {
            row["what"]: row["value"] for row in self.rows.of("limit") if row["gpu"] == self.name
        }
        flops = gpu_torch.flop_count(cell.op, cell.dims)
        if flops:
            rate = flops / seconds / 1e12
            limit = limits.get(f"cuBLAS {cell.dtype}")
            return {"tflops": rate, "share": rate / limit if limit else None}
        rate = gpu_torch.moved_bytes(problem) / seconds / 1e9
        return {"gbytes": rate, "share": rate / limits["copy"] if limits.get("copy") else None}

    def _torch(self, cell: Cell, problem: Problem) -> str:
        """Measure torch once for each operator, type and size; return the row's key."""
        import torch

        assert self.device is not None
        key = content_hash([*cell.problem, self.name, torch.__version__])
        if self.rows.known("torch", key) is None:
            facts = gpu_torch.torch_times(
                cell.op,
                problem,
                self.device.l2,
                compiled=not self.args.no_compile,
                quiet=self.quiet,
            )
            about = {**_about(cell), "gpu": self.name, "date": _today()}
            self.rows.add("torch", key, **about, **facts)
        return key

    def _machine(self) -> None:
        import torch

        assert self.device is not None
        facts = {
            "gpu": self.name, "arch": self.device.arch, "driver": self.device.driver, "date": _today(),
            "versions": {**store.versions(), "CUDA": torch.version.cuda or torch.version.hip},
            "left_out": gpu_cells.left_out(self.args.backends),
        }  # fmt: skip
        self.rows.add("machine", self.name, **facts)
        if not torch.cuda.is_available():
            raise SystemExit(
                f"torch {torch.__version__} does not see the GPU; install a build that does"
            )
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False

    def _limits(self) -> None:
        """Measure what the machine can do: a copy, and cuBLAS (rocBLAS) at 8192 in each type."""
        assert self.device is not None
        for dtype in ("", *self.dtypes):
            what = f"cuBLAS {dtype}" if dtype else "copy"
            if self.rows.known("limit", content_hash([self.name, what])) is None:
                self._limit(what, *gpu_torch.limit(dtype, self.device.l2))

    def _limit(self, what: str, value: float, unit: str) -> None:
        key = content_hash([self.name, what])
        self.rows.add("limit", key, gpu=self.name, what=what, value=value, unit=unit)
        self._say(f"limit: {what} {value:.0f} {unit}")

    def _write(self) -> None:
        if self.device is not None:
            write_page(self.rows, self.args.page)

    def _say(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def _kernel(cell: Cell) -> Kernel:
    return cell.op, cell.backend, cell.arch, cell.dtype


def _about(cell: Cell) -> dict[str, Any]:
    names = ("op", "backend", "arch", "dtype", "candidate")
    return {**{name: getattr(cell, name) for name in names}, "dims": dict(cell.dims)}


def _title(cell: Cell) -> str:
    dims = ",".join(f"{k}={v}" for k, v in cell.dims.items())
    return f"{cell.op}/{cell.backend}.{cell.arch}/{dims}/{cell.dtype}/{cell.candidate or 'policy'}"


def _today() -> str:
    return str(datetime.datetime.now(datetime.UTC).date())


if __name__ == "__main__":
    sys.exit(main())
