"""The tilelang_npuir backend: Huawei Ascend 910B through TileLang for NPU IR."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Availability, Backend, Built, Capability
from septran.backends.device.simulated import write_simulated
from septran.backends.npuir.dialect import dialect_errors
from septran.backends.npuir.emit import emit
from septran.backends.npuir.hoist import scratch
from septran.backends.npuir.leaves import library, signature
from septran.backends.npuir.passes.cast_copies import cast_copies, check_tiles
from septran.backends.npuir.passes.cut_windows import cut_windows
from septran.backends.npuir.passes.place_tiles import place_tiles
from septran.backends.npuir.passes.start_products import start_products
from septran.backends.npuir.passes.widen_operands import widen_operands
from septran.backends.npuir.reading import read
from septran.backends.npuir.toolchain import (
    INSTALL_BISHENGIR,
    INSTALL_TILELANG,
    ascend_target,
    bishengir,
    run_ascend,
    run_bishengir,
)
from septran.ir.access import map_bodies
from septran.ir.nodes import LeafCall, Program, Stmt
from septran.ir.written_out import WRITTEN_OUT
from septran.kernel import Kernel
from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import insert_copies
from septran.passes.load_parts import load_parts
from septran.passes.merge_stages import merge_stages
from septran.toolchain.built import built_since

_CANN = "https://github.com/tile-ai/tilelang-mlir-ascend (install_npuir.sh) and CANN 8.5 or newer"


def stage_operands(program: Program) -> Program:
    """Ask for a tile for each operand that is still in GLOBAL; the NPU computes on tiles only.

    A leaf that only stores a local tile keeps its target: the store is a copy.
    """

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(_staged(s) if isinstance(s, LeafCall) else s for s in body)

    return replace(program, body=map_bodies(program.body, change))


def _staged(call: LeafCall) -> LeafCall:
    if len(call.prims) == 1 and call.prims[0].name == "copy":
        prim = call.prims[0]
        out, src = call.arg(prim.out), call.arg(prim.ins[0])
        stays = out.region.buffer.mem == "GLOBAL" and src.region.buffer.mem != "GLOBAL"
        if stays and not src.mem and len(call.args) == 2:
            return replace(call, args=tuple(replace(a, mem="") for a in call.args))
    args = tuple(
        replace(a, mem="REGISTER") if a.region.buffer.mem == "GLOBAL" and not a.mem else a
        for a in call.args
    )
    return replace(call, args=args)


def build(kernel: Kernel, folder: Path) -> Built:
    """Write the kernel and the simulator, check the dialect, and run the compilers that are here.

    facts: form, bishengir and ascend_c (what they said). A refusal of the 910B compiler is one;
    what could not run, or has no form for the kernel, is in not_checked with the reason.
    """
    started = time.monotonic()
    main = write_simulated(kernel, folder)
    facts: dict[str, object] = {"form": dict(kernel.options).get("form", "")}
    errors = dialect_errors(kernel.source)
    if errors:
        return built_since(None, facts, "\n".join(errors), "dialect check", started, ())
    hivm = run_bishengir(kernel, folder)
    if hivm.status == "refused":
        command = "dialect check; bishengir-compile"
        return built_since(None, facts, hivm.log, command, started, hivm.not_enforced)
    ascend = run_ascend(kernel, folder)
    ran = {"bishengir-compile": hivm, "tilelang.lower(ascend)": ascend}
    facts |= {k: g.fact for k, g in (("bishengir", hivm), ("ascend_c", ascend)) if g.fact}
    command = "; ".join(("dialect check", *(n for n, g in ran.items() if g.status == "passed")))
    notes = [note for g in ran.values() for note in (g.note, *g.not_enforced) if note]
    log = "\n".join(g.log for g in ran.values() if g.log)
    return built_since(main, facts, log, command, started, tuple(dict.fromkeys(notes)))


def available() -> Mapping[Capability, Availability]:
    """Return what works here; the simulator needs only numpy."""
    torch_npu = importlib.util.find_spec("torch_npu") is not None
    cann = Path("/usr/local/Ascend").exists()
    missing = [n for n, ok in (("CANN", cann), ("torch_npu", torch_npu)) if not ok]
    lack = Availability(ok=False, detail=f"missing: {', '.join(missing)}", install=_CANN)
    there = Availability(ok=True, detail="CANN and torch_npu found")
    return {
        "emit": Availability(ok=True, detail="built in"),
        "compile": _compilers(),
        "emulate": Availability(ok=True, detail="numpy simulator of the dialect"),
        "device": lack if missing else there,
    }


def _compilers() -> Availability:
    """The dialect check is always there; the two compilers that need no device are optional."""
    bisheng, missing = bishengir(), ascend_target()
    parts = ["dialect check"]
    parts.append("bishengir-compile for Expert kernels" if bisheng else "no bishengir-compile")
    parts.append(f"no Ascend C text: {missing}" if missing else "Ascend C text by tilelang")
    wanted = ("" if bisheng else INSTALL_BISHENGIR, INSTALL_TILELANG if missing else "")
    return Availability(
        ok=True, detail="; ".join(parts), install="; ".join(word for word in wanted if word)
    )


TILELANG_NPUIR = Backend(
    name="tilelang_npuir",
    title="TileLang for Ascend NPU IR",
    language="python",
    subset="npuir",
    suffix=".py",
    arches=("910b",),
    machine=lambda arch: f"tilelang_npuir.{arch}",
    copies_ordered_by="the NPU compiler orders copies itself",
    passes=(
        ("stage_operands", stage_operands),
        ("insert_copies", insert_copies),
        ("hoist_copies", hoist_copies),
        ("load_parts", load_parts),
        ("merge_stages", merge_stages),
        ("widen_operands", widen_operands),
    ),
    finish=(
        ("place_tiles", place_tiles),
        ("start_products", start_products),
        ("cast_copies", cast_copies),
        ("cut_windows", cut_windows),
        ("check_tiles", check_tiles),
    ),
    scratch=scratch,
    library=library,
    signature=signature,
    print_kernel=emit,
    read_back=read,
    build=build,
    loader="tilesim.py.j2",
    where="emulated",
    available=available,
    docs="tilelang_npuir",
    dtypes=("float32", "float16", "bfloat16"),
    lacks=(("float64", "an Ascend NPU's vector and cube cores do not compute in it"),),
    views=True,
    fills=True,
    functions=WRITTEN_OUT,
    movement=("scan", "argreduce", "gather", "scatter_acc"),
)
