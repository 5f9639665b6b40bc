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
import contextlib
import datetime
import math
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks import gpu_cells  # noqa: E402
from benchmarks.gpu_cells import Cell, Lowering  # noqa: E402
from benchmarks.gpu_report import Rows, page  # noqa: E402
from septran import gpu  # noqa: E402
from septran.atomic import write_atomic  # noqa: E402
from septran.backends.base import Backend  # noqa: E402
from septran.errors import SeptranError  # noqa: E402
from septran.kernel import content_hash  # noqa: E402
from septran.plan.problem import problem_of  # noqa: E402
from septran.plan.resolve import GenRequest  # noqa: E402
from septran.run import store  # noqa: E402
from septran.run.gen import gen  # noqa: E402
from septran.settings import load  # noqa: E402
from septran.tasklang.operator import Operator  # noqa: E402
from septran.trial.place import place_of  # noqa: E402
from septran.verify import timing  # noqa: E402
from septran.verify.cases import Case, draw  # noqa: E402
from septran.verify.problem import Problem  # noqa: E402

TORCH_S = 180.0
"""Seconds for one of torch's ways to do an operator at one size, compiling included."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=_words, default=[], help="operators, globs, comma separated")
    parser.add_argument("--backends", type=_words, default=[], help="default: all that run here")
    parser.add_argument("--dtypes", type=_words, default=[], help="default: those of gpu.yaml")
    parser.add_argument("--arch", default="", help="default: the GPU's")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no cell after; go on later"
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


def _words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    rows = Rows(args.rows)
    if args.render:
        args.page.write_text(page(rows), encoding="utf-8")
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

    @property
    def name(self) -> str:
        return self.device.name if self.device else "dry run"

    def run(self) -> int:
        ops = gpu_cells.operators(self.args.only, list(self.given["sizes"]))
        if self.device is not None:
            self._machine()
            self._limits()
        plan = gpu_cells.planned(
            ops, self.targets, self.dtypes, self.given,
            small=self.args.small, candidates=not self.args.no_variants,
        )  # fmt: skip
        checked: dict[tuple[str, ...], bool] = {}
        with tempfile.TemporaryDirectory(prefix="septran-gpu-") as folder:
            for number, (op, backend, cell) in enumerate(plan):
                if time.monotonic() > self.end:
                    self._say(f"out of time, {len(plan) - number} left; run again to go on")
                    self._write()
                    return 1
                try:
                    self._one(op, backend, cell, Path(folder) / str(number), checked)
                except Exception as error:  # one cell must not cost the others
                    self._failed(cell, error)
        self._write()
        return 1 if self.bad else 0

    def _one(
        self,
        op: Operator,
        backend: Backend,
        cell: Cell,
        folder: Path,
        checked: dict[tuple[str, ...], bool],
    ) -> None:
        kernel = (cell.op, cell.backend, cell.arch, cell.dtype)
        if kernel not in checked:
            checked[kernel] = False  # also when the check does not end
            checked[kernel] = self._check(op, cell, folder)
        if checked[kernel]:
            self._cell(backend, cell, folder / "cell")

    def _failed(self, cell: Cell, error: Exception) -> None:
        """Write down what went wrong; the next call tries the cell again."""
        text = f"{type(error).__name__}: {error}"[:300]
        self.bad += 1
        self._say(f"{_title(cell)}: {text}")
        about = {**_about(cell), "gpu": self.name}
        self.rows.add("failed", content_hash(about), **about, date=_today(), note=text)

    def _check(self, op: Operator, cell: Cell, folder: Path) -> bool:
        """Verify the kernel on the device at sample and odd dims; what is not right is not timed."""
        if self.device is None or self.args.no_check:
            return True
        right = True
        for dims in (dict(op.dims), *({**op.dims, **odd} for odd in op.odd_dims[:1])):
            small = gpu_cells.replace(cell, dims=dims, candidate="", change={})
            key = self._key(small, folder)
            row = self.rows.known("check", key) if key else None
            if row is None:
                row = self._verify(small, key, folder)
                self._write()
            right = right and row["exit_code"] == 0 and row["where"] == "device"
        self.bad += not right
        return right

    def _key(self, cell: Cell, folder: Path) -> str:
        try:
            return gpu_cells.lowering(cell, folder).key(self.name)
        except (SeptranError, LookupError):
            return ""

    def _verify(self, cell: Cell, key: str, folder: Path) -> Mapping[str, Any]:
        request = GenRequest(
            op=cell.op, backend=cell.backend, arch=cell.arch, dims=cell.dims, dtype=cell.dtype,
            where="device", require=("device",),
        )  # fmt: skip
        facts = {**_about(cell), "gpu": self.name, "date": _today(), "where": None}
        try:
            data = gen(
                request, settings=load(), progress=_silent, into=folder / "gen", timed=False
            ).to_json()
            names = ("level", "where", "exit_code", "max_error", "budget_ratio", "reason")
            facts |= {name: data.get(name) for name in (*names, "not_checked")}
        except SeptranError as e:
            facts |= {"level": "failed", "exit_code": e.exit_code, "reason": str(e)[:300]}
        self._say(
            f"{_title(cell)}: {facts['level']} {facts['where'] or ''} {facts.get('reason') or ''}"
        )
        return self.rows.add("check", key, **facts)

    def _cell(self, backend: Backend, cell: Cell, folder: Path) -> None:
        facts: dict[str, Any] = {**_about(cell), "gpu": self.name, "date": _today()}
        kind = "speed" if self.device is not None else "built"
        try:
            made = gpu_cells.lowering(cell, folder)
        except (SeptranError, LookupError) as e:
            text = str(e).partition("\n")[0]
            key = content_hash([_about(cell), self.name])
            self.bad += not cell.candidate
            if self.rows.known(kind, key) is None:
                self._say(f"{_title(cell)}: {text}")
                self.rows.add(kind, key, **facts, note=text)
            return
        key = made.key(self.name)
        known = self.rows.known(kind, key)
        if known is not None:
            self.bad += bool(known.get("note")) and not cell.candidate
            return
        folder.mkdir(parents=True, exist_ok=True)
        facts |= (
            self._measured(backend, cell, made, folder)
            if self.device
            else self._built(backend, made, folder)
        )
        self.rows.add(kind, key, **facts)
        self._write()
        note = facts.get("note") or ""
        self.bad += bool(note) and not cell.candidate
        took = f"{facts['ms']:.4g} ms " if facts.get("ms") else ""
        self._say(f"{_title(cell)}: {took}{note or 'compiled' if not took else note}")

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

    def _measured(
        self, backend: Backend, cell: Cell, made: Lowering, folder: Path
    ) -> dict[str, Any]:
        assert backend.device is not None
        place = place_of(backend, cell.arch, "device", 1)
        (folder / "build").mkdir()
        built = place.build(made.kernel, folder / "build")
        if not built.ok or built.artifact is None:
            return {"note": f"not compiled: {built.log[-300:]}"}
        problem = problem_of(made.plan, made.lowered.program, made.plan.dims)
        torch_key = self._torch(cell, problem)
        found = timing.measure(
            made.kernel, built.artifact, problem, run_dir=folder, settings=place.sessions
        )
        facts: dict[str, Any] = {"facts": dict(built.facts), "torch": torch_key}
        if not found.ok:
            return {**facts, "note": found.why[:300]}
        return {**facts, "ms": 1e3 * found.kernel_s, **self._rates(cell, problem, found.kernel_s)}

    def _rates(self, cell: Cell, problem: Problem, seconds: float) -> dict[str, Any]:
        """Return TFLOP/s or GB/s, and the share of the measured limit."""
        limits = {
            row["what"]: row["value"] for row in self.rows.of("limit") if row["gpu"] == self.name
        }
        flops = flop_count(cell.op, cell.dims)
        if flops:
            rate = flops / seconds / 1e12
            limit = limits.get(f"cuBLAS {cell.dtype}")
            return {"tflops": rate, "share": rate / limit if limit else None}
        rate = moved_bytes(problem) / seconds / 1e9
        return {"gbytes": rate, "share": rate / limits["copy"] if limits.get("copy") else None}

    def _torch(self, cell: Cell, problem: Problem) -> str:
        """Measure torch once for each operator, type and size; return the row's key."""
        import torch

        key = content_hash([*cell.problem, self.name, torch.__version__])
        if self.rows.known("torch", key) is not None:
            return key
        facts: dict[str, Any] = {"gpu": self.name, "date": _today(), **_about(cell)}
        given: Mapping[str, Any] | None = None
        try:
            inputs = draw(problem, Case(name="timing", family="normal", seed=1))
            given = timing.gpu_tensors(problem, inputs)
        except Exception as error:  # such as a GPU too small for the inputs
            facts["note"] = f"{type(error).__name__}: {error}"[:200]
        eager, scalars = problem.reference.fn, dict(problem.scalars)
        calls: dict[str, Callable[..., object]] = {"eager_ms": eager}
        if not self.args.no_compile:
            calls["compile_ms"] = torch.compile(eager, dynamic=False)
        other = library(cell.op)
        if other is not None:
            calls["library_ms"] = other
        for name, call in calls.items() if given is not None else ():
            try:
                with _within(TORCH_S), torch.no_grad(), torch.device("cuda"):
                    facts[name] = self._time(lambda call=call: call(**given, **scalars))
            except Exception as error:  # torch.compile has many ways to fail; the row says which
                facts[name], facts[f"{name}_note"] = None, f"{type(error).__name__}: {error}"[:200]
        given = None  # the kernel's own process needs the memory
        torch.cuda.empty_cache()
        self.rows.add("torch", key, **facts)
        return key

    def _time(self, call: Callable[[], object], *, repeats: int = 20) -> float:
        """Return the median milliseconds of `call` with a cold L2, by events."""
        import torch

        assert self.device is not None
        flush = torch.empty(max(4 * self.device.l2, 1 << 27), dtype=torch.uint8, device="cuda")
        for _ in range(3):
            call()
        found = []
        for _ in range(repeats):
            flush.fill_(1)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            stop.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(stop))
        return statistics.median(found)

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
        import torch

        if self.rows.known("limit", content_hash([self.name, "copy"])) is None:
            a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
            b = torch.empty_like(a)
            rate = 2 * a.numel() / self._time(lambda: b.copy_(a)) / 1e6
            self._limit("copy", rate, "GB/s")
            del a, b
        for dtype in self.dtypes:
            what = f"cuBLAS {dtype}"
            if self.rows.known("limit", content_hash([self.name, what])) is not None:
                continue
            kind = getattr(torch, dtype)
            x, y = (torch.randn(8192, 8192, device="cuda").to(kind) for _ in range(2))
            self._limit(what, 2 * 8192**3 / self._time(lambda x=x, y=y: x @ y) / 1e9, "TFLOP/s")
        torch.cuda.empty_cache()

    def _limit(self, what: str, value: float, unit: str) -> None:
        key = content_hash([self.name, what])
        self.rows.add("limit", key, gpu=self.name, what=what, value=value, unit=unit)
        self._say(f"limit: {what} {value:.0f} {unit}")

    def _write(self) -> None:
        if self.device is not None:
            write_atomic(self.args.page, page(self.rows).encode())

    def _say(self, text: str) -> None:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the body after that time; torch.compile may take for ever."""

    def over(signum: int, frame: object) -> None:
        raise TimeoutError(f"not done in {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _about(cell: Cell) -> dict[str, Any]:
    names = ("op", "backend", "arch", "dtype", "candidate")
    return {**{name: getattr(cell, name) for name in names}, "dims": dict(cell.dims)}


def _title(cell: Cell) -> str:
    dims = ",".join(f"{k}={v}" for k, v in cell.dims.items())
    return f"{cell.op}/{cell.backend}.{cell.arch}/{dims}/{cell.dtype}/{cell.candidate or 'policy'}"


def _today() -> str:
    return str(datetime.datetime.now(datetime.UTC).date())


def _silent(text: str) -> None:
    """Progress of a single kernel is not this script's."""


def library(name: str) -> Callable[..., object] | None:
    """Return the vendor library's call for an operator that has one: cuBLAS through torch, or SDPA."""
    import torch
    import torch.nn.functional as F

    if name in ("gemm", "gemm_seed"):
        return lambda A, B: torch.matmul(A, B)
    if name == "batched_gemm":
        return lambda A, B: torch.bmm(A, B)
    if not name.startswith("attention"):
        return None
    causal = name == "attention_causal"

    def attention(Q: Any, K: Any, V: Any, scale: float) -> object:
        q, k, v = (t.unsqueeze(0) for t in (Q, K, V))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)

    return attention


def flop_count(name: str, d: Mapping[str, int]) -> int:
    """Return the floating-point operations of a compute-bound operator, 0 for the others."""
    if name.startswith("gemm") and name != "gemv":
        return 2 * d["M"] * d["N"] * d["K"]
    if name == "batched_gemm":
        return 2 * d["S"] * d["M"] * d["N"] * d["K"]
    if name.startswith("attention"):
        full = 4 * d["Z"] * d["S"] ** 2 * d["D"]
        return full // 2 if name == "attention_causal" else full
    if name.startswith("conv2d"):
        window, stride = {"conv2d": (3, 1), "conv2d_stride2": (3, 2)}.get(name, (1, 1))
        places = d["B"] * -(-d["H"] // stride) * -(-d["W"] // stride)
        return 2 * places * window * window * d["Ci"] * d["Co"]
    return 0


def moved_bytes(problem: Problem) -> int:
    """Return the bytes of all tensors: what must be moved at least once."""
    widths = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int8": 1, "uint8": 1, "bool": 1}
    return sum(math.prod(p.shape) * widths.get(p.dtype, 2) for p in problem.params)


if __name__ == "__main__":
    sys.exit(main())
