"""Every operator of the cuda_c backend on a GPU: accuracy and speed against torch, in one call.

    python benchmarks/gpu_cuda_c.py                      all operators, report in docs/gpu-results.md
    python benchmarks/gpu_cuda_c.py --only gemm,softmax  some
    python benchmarks/gpu_cuda_c.py --dry-run            build everything, launch nothing (no GPU needed)

Each kernel is compared with torch in float64 on the GPU, then timed with CUDA events, with the L2 cache
flushed before each launch; torch eager (cuBLAS, SDPA, native kernels) and torch.compile are timed the
same way. The measured limits are a device copy (GB/s) and cuBLAS at 8192 (TFLOP/s).
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from septran.backends.cuda_build import compile_device  # noqa: E402
from septran.kernel import Kernel, leaf_specs  # noqa: E402
from septran.run.plan import GenRequest, Plan, lower_plan, resolve  # noqa: E402
from septran.tasklang.operator import Operator  # noqa: E402

SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "gemm": (
        {"M": 4096, "N": 4096, "K": 4096},
        {"M": 8192, "N": 8192, "K": 8192},
        {"M": 4095, "N": 4093, "K": 4097},
    ),
    "gemm_seed": ({"M": 4096, "N": 4096, "K": 4096},),
    "gemm_bias_relu": ({"M": 4096, "N": 4096, "K": 4096},),
    "gemm_bias_gelu": ({"M": 4096, "N": 4096, "K": 4096},),
    "gemm_bias_silu": ({"M": 4096, "N": 4096, "K": 4096},),
    "batched_gemm": ({"S": 32, "M": 1024, "N": 1024, "K": 1024},),
    "gemv": ({"M": 16384, "K": 16384},),
    "attention": ({"Z": 64, "S": 4096, "D": 128}, {"Z": 64, "S": 2048, "D": 64}),
    "attention_causal": ({"Z": 64, "S": 4096, "D": 128},),
    "conv2d": ({"B": 32, "H": 56, "W": 56, "Ci": 64, "Co": 64},),
    "conv2d_stride2": ({"B": 32, "H": 56, "W": 56, "Ci": 64, "Co": 128},),
    "conv2d_1x1": ({"B": 32, "H": 56, "W": 56, "Ci": 256, "Co": 64},),
    "transpose": ({"M": 8192, "N": 8192},),
}
ROWS = {"M": 16384, "N": 4096}
ELEMENTS = 1 << 27
TOLERANCE = {"float32": 2e-4, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured cell; times in ms, None where not measured."""

    op: str
    dtype: str
    dims: Mapping[str, int]
    registers: int | None
    error: float | None = None
    ours: float | None = None
    eager: float | None = None
    compiled: float | None = None
    tflops: float | None = None
    gbytes: float | None = None
    share: float | None = None
    note: str = ""


def main() -> int:
    """Measure, write the report, return 0 when every launched kernel was accurate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="operators, comma separated")
    parser.add_argument("--dtypes", default="float16,bfloat16,float32")
    parser.add_argument("--arch", default="", help="sm_80 or sm_90a; default: the device's")
    parser.add_argument("--dry-run", action="store_true", help="build only; needs no GPU")
    parser.add_argument("--no-compile", action="store_true", help="do not time torch.compile")
    parser.add_argument("--small", action="store_true", help="the operators' own sample sizes")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "gpu-results.md")
    args = parser.parse_args()
    device = None if args.dry_run else Device()
    arch = args.arch or (device.arch if device else "sm_90a")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, op in operators(args.only).items():
            for dtype in (d for d in args.dtypes.split(",") if d in op.dtypes):
                for number, dims in enumerate(sizes(op, small=args.small)):
                    place = Path(folder) / f"{name}-{dtype}-{number}"
                    row = cell(op, dtype, dims, arch, place, device, compiled=not args.no_compile)
                    print(json.dumps({f: getattr(row, f) for f in Row.__slots__}), flush=True)
                    rows.append(row)
    if device is not None:
        args.output.write_text(report(rows, device, arch), encoding="utf-8")
    bad = [r for r in rows if r.note]
    return 1 if bad else 0


def operators(only: str) -> dict[str, Operator]:
    """Return the shipped operators by name."""
    from septran.tasklang.load import load_logic

    found: dict[str, Operator] = {}
    for path in sorted((ROOT / "septran" / "ops").glob("[a-z]*.py")):
        found.update(load_logic(path).operators)
    names = set(only.split(",")) if only else set(found)
    return {n: o for n, o in found.items() if n in names}


def sizes(op: Operator, *, small: bool) -> tuple[Mapping[str, int], ...]:
    """Return the dims to measure an operator at."""
    if small:
        return (op.dims, *op.odd_dims)
    if op.name in SIZES:
        return SIZES[op.name]
    if set(op.dims) == {"M", "N"}:
        return (ROWS,)
    if len(op.dims) == 1:
        return ({next(iter(op.dims)): ELEMENTS},)
    return (op.dims,)


def kernel_of(plan: Plan) -> Kernel:
    """Return the library's kernel of a plan."""
    program = lower_plan(plan).program
    leaves = {}
    for _, spec in leaf_specs(program):
        leaf = plan.backend.library(spec)
        assert leaf is not None
        leaves[spec.key] = leaf
    return plan.backend.emit(program, leaves)


def cell(
    op: Operator,
    dtype: str,
    dims: Mapping[str, int],
    arch: str,
    folder: Path,
    device: Device | None,
    *,
    compiled: bool,
) -> Row:
    """Build one kernel and, on a device, check and time it."""
    plan = resolve(GenRequest(op=op.name, backend="cuda_c", arch=arch, dims=dims, dtype=dtype))
    kernel = kernel_of(plan)
    built = compile_device(kernel, folder)
    facts = dict(built.facts)
    registers = int(str(facts.get("registers", 0)))
    row = {"op": op.name, "dtype": dtype, "dims": dict(plan.dims), "registers": registers}
    if not built.ok:
        return Row(**row, note=f"not compiled: {built.log[-300:]}")  # type: ignore[arg-type]
    if device is None:
        return Row(**row)  # type: ignore[arg-type]
    return device.measure(op, plan, kernel, built.artifact, row, compiled=compiled)


class Device:
    """The GPU, its measured limits, and timing on it."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("no CUDA device here; --dry-run builds without one")
        self.torch = torch
        major, minor = torch.cuda.get_device_capability()
        self.arch = "sm_90a" if (major, minor) == (9, 0) else "sm_80"
        self.name = torch.cuda.get_device_name()
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.bandwidth = self._copy_rate()
        self.peak = {d: self._peak(getattr(torch, d)) for d in ("float16", "bfloat16", "float32")}

    def _copy_rate(self) -> float:
        a = self.torch.empty(1 << 30, dtype=self.torch.uint8, device="cuda")
        b = self.torch.empty_like(a)
        return 2 * a.numel() / self.time(lambda: b.copy_(a)) / 1e6

    def _peak(self, dtype: Any) -> float:
        a, b = (self.torch.randn(8192, 8192, device="cuda").to(dtype) for _ in range(2))
        return 2 * 8192**3 / self.time(lambda: a @ b) / 1e9

    def time(self, f: Callable[[], object], *, repeats: int = 20) -> float:
        """Return the median milliseconds of `f`, with a cold L2."""
        torch = self.torch
        for _ in range(3):
            f()
        found = []
        for _ in range(repeats):
            self.flush.zero_()
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            f()
            stop.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(stop))
        return statistics.median(found)

    def inputs(self, op: Operator, plan: Plan, kernel: Kernel) -> dict[str, Any]:
        """Return tensors for every parameter; outputs are NaN."""
        torch = self.torch
        torch.manual_seed(0)
        found = {}
        for p in kernel.params:
            dtype = getattr(torch, p.dtype)
            if p.name in op.outputs:
                found[p.name] = torch.full(p.shape, float("nan"), device="cuda", dtype=dtype)
            elif p.dtype.startswith("int"):
                domain = op.domains.get(p.name)
                high = plan.dims.get(str(domain.high), 2) if domain is not None else 2
                found[p.name] = torch.randint(0, high, p.shape, device="cuda", dtype=dtype)
            else:
                found[p.name] = torch.randn(p.shape, device="cuda").to(dtype)
        return found

    def measure(
        self,
        op: Operator,
        plan: Plan,
        kernel: Kernel,
        library: Path | None,
        row: dict[str, Any],
        *,
        compiled: bool,
    ) -> Row:
        """Return the row of one kernel: error first, then times."""
        torch = self.torch
        tensors = self.inputs(op, plan, kernel)
        function = ctypes.CDLL(str(library))[f"{kernel.entry}_on"]
        function.restype = ctypes.c_char_p
        pointers = (ctypes.c_void_p * len(kernel.params))(
            *(tensors[p.name].data_ptr() for p in kernel.params)
        )
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def ours() -> None:
            error = function(pointers, stream)
            if error:
                raise RuntimeError(error.decode())

        try:
            ours()
            torch.cuda.synchronize()
        except RuntimeError as e:
            return Row(**row, note=f"launch: {e}")
        given = {n: t for n, t in tensors.items() if n not in op.outputs}
        scalars = op.scalar_values(plan.dims)
        error = self.error(op, tensors, given, scalars)
        if not error <= TOLERANCE[plan.dtype]:
            return Row(**row, error=error, note="not accurate")
        eager = baseline(op.name) or op.reference.fn

        def theirs() -> object:
            return eager(**given, **scalars)

        times: dict[str, float | None] = {"ours": self.time(ours), "eager": self.time(theirs)}
        if compiled:
            faster = torch.compile(eager, dynamic=False)
            times["compiled"] = self.time(lambda: faster(**given, **scalars))
        return Row(**row, error=error, **times, **self.rates(op, plan, kernel, times["ours"] or 1))

    def error(
        self,
        op: Operator,
        tensors: Mapping[str, Any],
        given: Mapping[str, Any],
        scalars: Mapping[str, Any],
    ) -> float:
        """Return the largest error relative to the largest result, reference in float64."""
        torch = self.torch
        wide = {n: t.double() if t.is_floating_point() else t for n, t in given.items()}
        with torch.device("cuda"):
            want = op.reference.fn(**wide, **scalars)
        outs = want if isinstance(want, tuple) else (want,)
        worst = 0.0
        for name, w in zip(op.outputs, outs, strict=True):
            found = (tensors[name].double() - w).abs().max() / w.abs().max().clamp_min(1e-30)
            worst = max(worst, float("inf") if torch.isnan(found) else float(found))
        return worst

    def rates(self, op: Operator, plan: Plan, kernel: Kernel, ms: float) -> dict[str, float]:
        """Return TFLOP/s or GB/s and the share of the measured limit."""
        flops = flop_count(op.name, plan.dims)
        if flops:
            rate = flops / ms / 1e9
            return {"tflops": rate, "share": rate / self.peak[plan.dtype]}
        itemsize = {"float64": 8, "float32": 4, "int64": 8, "int32": 4}
        total = 0
        for p in kernel.params:
            size = itemsize.get(p.dtype, 2)
            for n in p.shape:
                size *= n
            total += size
        rate = total / ms / 1e6
        return {"gbytes": rate, "share": rate / self.bandwidth}


def baseline(name: str) -> Callable[..., object] | None:
    """Return torch's fast form where the reference spells the mathematics out."""
    import torch.nn.functional as F

    if not name.startswith("attention"):
        return None
    causal = name == "attention_causal"

    def attention(Q: Any, K: Any, V: Any, scale: float) -> object:
        q, k, v = (t.unsqueeze(0) for t in (Q, K, V))
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)

    return attention


def flop_count(name: str, d: Mapping[str, int]) -> int:
    """Return the floating-point operations of a compute-bound operator, 0 for the others."""
    if name.startswith("gemm"):
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


def report(rows: list[Row], device: Device, arch: str) -> str:
    """Return the Markdown table."""
    torch = device.torch

    def number(x: float | None, form: str = ".3f") -> str:
        return "" if x is None else format(x, form)

    def ratio(other: float | None, ours: float | None) -> str:
        return number(other / ours if other and ours else None, ".2f")

    lines = [
        "# cuda_c on a GPU",
        "",
        f"{datetime.datetime.now(datetime.UTC).date()}, {device.name}, {arch}, torch {torch.__version__}, "
        f"CUDA {torch.version.cuda}. Measured limits: copy {device.bandwidth:.0f} GB/s; cuBLAS 8192^3 "
        + ", ".join(f"{d} {p:.0f} TFLOP/s" for d, p in device.peak.items())
        + ". Ratios are torch's time over ours. Written by `benchmarks/gpu_cuda_c.py`.",
        "",
        "| operator | dtype | dims | error | ms | TFLOP/s | GB/s | of limit | eager/ours | compile/ours | regs | note |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        dims = " ".join(f"{k}={v}" for k, v in r.dims.items())
        lines.append(
            f"| {r.op} | {r.dtype} | {dims} | {number(r.error, '.1e')} | {number(r.ours)} | "
            f"{number(r.tflops, '.1f')} | {number(r.gbytes, '.0f')} | {number(r.share, '.2f')} | "
            f"{ratio(r.eager, r.ours)} | {ratio(r.compiled, r.ours)} | {r.registers} | {r.note} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
