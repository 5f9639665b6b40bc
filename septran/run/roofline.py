"""How close a kernel comes to what its machine can do: the roofline share.

The limits of the processor (multiply-adds from registers or matrix tiles, copies at several sizes) are measured once and kept in
the cache; a machine file's `peak_gflops` and `peak_gbytes_per_s` win over them. No kernel of an operator with work W
and bytes B can take less than max(W / peak, B / bandwidth) seconds; the share is that time over the kernel's.
Source: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009. B counts each tensor once, and the bandwidth is
that of copies of the same size, so that tensors which stay in a cache are held to the cache's speed.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from septran import assets
from septran.atomic import write_atomic
from septran.bind import ArgType
from septran.ir.nodes import Program
from septran.machine import Machine
from septran.plan.resolve import Plan, arguments
from septran.run.work import work_of
from septran.toolchain.compilers import wants_tiles
from septran.verify.environment import environment_facts

_PROBE = Path(__file__).with_name("roofline_probe.cpp")
_SCHEMA = 1
UNMEASURED = "`septran bench` measures them, once"
EMULATED = "an emulation has no speed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Most GFLOP/s by compute dtype, and (bytes read and written, GB/s) of copies, the smallest first."""

    gflops: Mapping[str, float]
    copies: tuple[tuple[int, float], ...]

    def bandwidth(self, moved: int) -> float:
        """Return GB/s of the largest measured copy that is not larger than `moved` bytes."""
        found = [speed for size, speed in self.copies if size <= moved]
        return found[-1] if found else max(speed for _, speed in self.copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """share: of the machine's limit (0..1), None with the reason. by: arithmetic or memory.

    gflops, gbytes_per_s: the limits it was compared with.
    """

    share: float | None = None
    by: str = ""
    gflops: float | None = None
    gbytes_per_s: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def share_of(
    plan: Plan, program: Program, seconds: float | None, *, where: str | None, threads: int
) -> Share:
    """Return which share of its machine's limit a kernel of `plan` reaches at `seconds` per call.

    Measures nothing: `measured` does, before a bench or a large batch.
    """
    if where == "emulated":
        return Share(reason=EMULATED)
    if not seconds:
        return Share(reason="it was not timed")
    moved = bytes_of(plan)
    known = _declared(plan.machine)
    if known == (None, None):
        if where != "native":
            return Share(reason=f"no peak figures are known for {plan.machine.name}")
        limits = _read(_kept(threads))
        if limits is None:
            return Share(reason=f"no limits of this machine for {threads} threads: {UNMEASURED}")
        kind = plan.dtype if plan.dtype in limits.gflops else "float32"
        known = (limits.gflops.get(kind), limits.bandwidth(moved))
    share = _compare(known, work_of(program), moved, seconds)
    if share.share is not None and share.share > 1 and where == "native":
        # a limit that was measured on a busy machine is too low: what was done can be done
        _kept(threads).unlink(missing_ok=True)
        return replace(share, share=1.0)
    return share


def _compare(
    known: tuple[float | None, float | None], flops: int | None, moved: int, seconds: float
) -> Share:
    times = {}
    if flops and known[0]:
        times["arithmetic"] = flops / known[0] / 1e9
    if known[1]:
        times["memory"] = moved / known[1] / 1e9
    if not times:
        return Share(reason="the work of this operator is not known")
    by = max(times, key=lambda name: times[name])
    return Share(share=times[by] / seconds, by=by, gflops=known[0], gbytes_per_s=known[1])


def _declared(machine: Machine) -> tuple[float | None, float | None]:
    found = (machine.limits.get(name) for name in ("peak_gflops", "peak_gbytes_per_s"))
    gflops, gbytes = (float(value) if value else None for value in found)
    return gflops, gbytes


def bytes_of(plan: Plan) -> int:
    """Return the bytes of all tensors: what must be moved at least once."""
    return sum(
        math.prod(value.shape) * _width(value.dtype)
        for value in arguments(plan, plan.dims).values()
        if isinstance(value, ArgType)
    )


def _width(dtype: str) -> int:
    bits = "".join(c for c in dtype if c.isdigit())
    return max(1, int(bits) // 8) if bits else 1


def measured(threads: int) -> Limits:
    """Return this processor's limits for `threads` threads, from the cache or measured now (4 seconds).

    Raises:
        EnvironmentProblem: V110, they cannot be measured here. SeptranError: V214.
    """
    import fcntl

    path = _kept(threads)
    if (known := _read(path)) is not None:
        return known
    single = measured(1) if threads > 1 else None
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two that measure at a time disturb each other
        if (known := _read(path)) is not None:
            return known
        found = _measure(threads)
        if (
            single is not None
        ):  # more threads are never slower: a busy machine only made them look so
            found = _larger(found, single)
        write_atomic(path, json.dumps(asdict(found), indent=1) + "\n")
    return found


def _read(path: Path) -> Limits | None:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return _limits(data["gflops"], data["copies"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _larger(one: Limits, two: Limits) -> Limits:
    gflops = {kind: max(value, two.gflops.get(kind, 0.0)) for kind, value in one.gflops.items()}
    other = dict(two.copies)
    return Limits(
        gflops=gflops,
        copies=tuple((size, max(speed, other.get(size, 0.0))) for size, speed in one.copies),
    )


def _limits(gflops: Mapping[str, Any], copies: Any) -> Limits:
    pairs = tuple(sorted((int(size), float(speed)) for size, speed in copies))
    if not pairs or not gflops:
        raise ValueError("no figures")
    # a smaller copy is never slower than a larger one
    rising = accumulate((speed for _, speed in reversed(pairs)), max)
    sizes = (size for size, _ in reversed(pairs))
    return Limits(
        gflops={k: float(v) for k, v in gflops.items()},
        copies=tuple(sorted(zip(sizes, rising, strict=True))),
    )


@functools.cache
def _kept(threads: int) -> Path:
    text = _PROBE.read_text(encoding="utf-8")
    parts = [_SCHEMA, threads, environment_facts().get("cpu", ""), text, wants_tiles()]
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
    return assets.home() / "cache" / "limits" / f"{digest}.json"


def _measure(threads: int) -> Limits:
    from septran.errors import EnvironmentProblem
    from septran.toolchain.compilers import cpp_compiler, flags_for
    from septran.toolchain.confined import run_confined

    compiler = cpp_compiler("native")
    if compiler is None:
        raise EnvironmentProblem.of("V110", "no g++ to measure the machine's limits with")
    flags = [f for f in flags_for("native") if f not in ("-shared", "-fPIC")]
    with tempfile.TemporaryDirectory(prefix="septran-limits-") as folder:
        work = Path(folder)
        (work / "probe.cpp").write_text(_PROBE.read_text(encoding="utf-8"), encoding="utf-8")
        done = run_confined([compiler.path, *flags, "probe.cpp", "-o", "probe"], work, 60.0)
        if done.code == 0:
            done = run_confined(
                [str(work / "probe"), str(threads)], work, 60.0, env={"OMP_WAIT_POLICY": "active"}
            )
        if done.code != 0:
            text = done.output.strip()[-200:]
            raise EnvironmentProblem.of("V110", f"the machine's limits were not measured: {text}")
    gflops: dict[str, float] = {}
    copies: list[tuple[int, float]] = []
    for line in done.output.splitlines():
        name, *figures = line.split()
        if name == "copy":
            copies.append((int(figures[0]), float(figures[1])))
        else:
            gflops[name] = float(figures[0])
    # vectors hold twice as many singles
    gflops["float32"] = max(gflops["float32"], 2 * gflops["float64"])
    return _limits(gflops, copies)
