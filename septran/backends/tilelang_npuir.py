"""The tilelang_npuir backend: Huawei Ascend 910B through TileLang for NPU IR."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from septran.backends.base import Availability, Backend, Built, Capability
from septran.backends.npuir_check import dialect_errors
from septran.backends.npuir_emit import emit
from septran.backends.npuir_leaves import library, signature
from septran.backends.npuir_windows import load_parts
from septran.ir.access import map_bodies
from septran.ir.nodes import LeafCall, Program, Stmt
from septran.kernel import Kernel
from septran.passes.hoist_copies import hoist_copies
from septran.passes.insert_copies import insert_copies
from septran.passes.merge_stages import merge_stages

SIMULATOR = Path(__file__).resolve().parent / "tilesim"
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
    """Write the kernel and the simulator, check the dialect; say which compilers are not here."""
    started = time.monotonic()
    for name, text in kernel.files:
        (folder / name).write_text(text, encoding="utf-8")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SIMULATOR, folder / "septran_tilesim", ignore=ignore, dirs_exist_ok=True)
    errors = dialect_errors(kernel.source)
    return Built(
        ok=not errors,
        artifact=folder / kernel.main if not errors else None,
        log="\n".join(errors),
        command="dialect check",
        seconds=time.monotonic() - started,
        facts=(("form", dict(kernel.options).get("form", "")),),
        not_checked=(
            f"compile for {kernel.arch}: needs tilelang-mlir-ascend with CANN on an Ascend host",
            "compile with bishengir: kernels are not emitted as HIVM text",
        ),
    )


def available() -> Mapping[Capability, Availability]:
    """Return what works here; the simulator needs only numpy."""
    torch_npu = importlib.util.find_spec("torch_npu") is not None
    cann = Path("/usr/local/Ascend").exists()
    missing = [n for n, ok in (("CANN", cann), ("torch_npu", torch_npu)) if not ok]
    lack = Availability(ok=False, detail=f"missing: {', '.join(missing)}", install=_CANN)
    there = Availability(ok=True, detail="CANN and torch_npu found")
    return {
        "emit": Availability(ok=True, detail="built in"),
        "compile": Availability(ok=True, detail="dialect check only; the compiler is part of CANN"),
        "emulate": Availability(ok=True, detail="numpy simulator of the dialect"),
        "device": lack if missing else there,
    }


TILELANG_NPUIR = Backend(
    name="tilelang_npuir",
    title="TileLang for Ascend NPU IR",
    language="python",
    suffix=".py",
    arches=("910b",),
    machine=lambda arch: f"tilelang_npuir.{arch}",
    passes=(
        ("stage_operands", stage_operands),
        ("insert_copies", insert_copies),
        ("hoist_copies", hoist_copies),
        ("load_parts", load_parts),
        ("merge_stages", merge_stages),
    ),
    library=library,
    signature=signature,
    emit=emit,
    build=build,
    loader="tilesim.py.j2",
    where="emulated",
    available=available,
    docs="tilelang_npuir",
    dtypes=("float32", "float16", "bfloat16"),
)
