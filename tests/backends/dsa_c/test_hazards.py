"""Every rule of the simulated machine, each broken once: the exact message, with call and generated line.

The kernels are C over vendor_lib.h, compiled into one library. `/*1*/`, `/*2*/` mark the lines a message
names. X is an input of 64 x 64 float32, Y an output of that size.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from septran.backends.dsa.emit import runtime_folder

HEAD = """#include "vendor_lib.h"
#include <stddef.h>
static float *X, *Y;
static inline vl_tile spad(long at) { return VL_TILE(VL_S(at), 16, 16, 16, VL_F32); }
static inline vl_tile acc(long at) { return VL_TILE(VL_A(at), 16, 16, 16, VL_F32); }
static inline vl_tile x(long at) { return VL_TILE(VL_G(X + at), 16, 16, 64, VL_F32); }
static inline vl_tile y(long at) { return VL_TILE(VL_G(Y + at), 16, 16, 64, VL_F32); }
#define ONE if (vendor_lib_core_id() == 0)
"""
LOAD = "vendor_lib_dma_copy(spad(0), x(0));"
FILL = "vendor_lib_fill(spad(0), 1.0);"
ORDER = "nothing orders them (missing set/wait or sync)"
DONE = "vendor_lib_sync();"

# name -> (body, message without "line N: "); {1} and {2} are the marked lines, the first is the message's own
BUGS: dict[str, tuple[str, str]] = {
    "double post": (
        f"""ONE {{ {LOAD}
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 3); /*2*/
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 3); /*1*/
        vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 3); {DONE} }}""",
        "vendor_lib_set: event 3 LOAD>VEC posted twice without a wait in between "
        "(first at line {2})",
    ),
    "post while the last wait may be pending": (
        f"""ONE {{ {LOAD}
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 3);
        vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 3);
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 3); /*1*/
        vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 3); {DONE} }}""",
        "vendor_lib_set: event 3 LOAD>VEC posted again before its last wait is known to be over",
    ),
    "left-over event": (
        f"""ONE {{ {LOAD}
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 7); /*1*/
        {DONE} }}""",
        "vendor_lib_set: event 7 LOAD>VEC is left posted at the end of the kernel",
    ),
    "wait for nothing": (
        f"""ONE {{ vendor_lib_wait(VL_Q_LOAD, VL_Q_MMA, 2); /*1*/
        {DONE} }}""",
        "vendor_lib_wait: event 2 LOAD>MMA was never posted: MMA would wait for ever",
    ),
    "event that the machine lacks": (
        f"""ONE {{ vendor_lib_set(VL_Q_LOAD, VL_Q_MMA, 64); /*1*/
        {DONE} }}""",
        "vendor_lib_set: event 64 from LOAD to MMA: numbers are 0..63 and the queues must differ",
    ),
    "event to itself": (
        f"""ONE {{ vendor_lib_wait(VL_Q_VEC, VL_Q_VEC, 1); /*1*/
        {DONE} }}""",
        "vendor_lib_wait: event 1 from VEC to VEC: numbers are 0..63 and the queues must differ",
    ),
    "read before the load is over": (
        f"""ONE {{ {LOAD} /*2*/
        vendor_lib_vec_unary(VL_EXP, spad(1024), spad(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_vec_unary: src: SPAD hazard at byte 0: VEC reads what LOAD writes at line {2}, "
        f"and {ORDER}",
    ),
    "load over what is still read": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_vec_unary(VL_EXP, spad(1024), spad(0)); /*2*/
        vendor_lib_dma_copy(spad(0), x(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: dst: SPAD hazard at byte 0: LOAD overwrites what VEC still reads at "
        f"line {{2}}, and {ORDER}",
    ),
    "two engines write": (
        f"""ONE {{ {LOAD} /*2*/
        vendor_lib_fill(spad(0), 1.0); /*1*/
        {DONE} }}""",
        "vendor_lib_fill: dst: SPAD hazard at byte 0: VEC overwrites what LOAD writes at line {2}, "
        f"and {ORDER}",
    ),
    "store before the product is over": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_mma(acc(0), spad(0), spad(0), VL_MMA_INIT); /*2*/
        vendor_lib_dma_copy(y(0), acc(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: src: ACC hazard at byte 0: STORE reads what MMA writes at line {2}, "
        f"and {ORDER}",
    ),
    "uninitialised scratchpad": (
        f"""ONE {{ vendor_lib_vec_unary(VL_EXP, spad(1024), spad(64)); /*1*/
        {DONE} }}""",
        "vendor_lib_vec_unary: src: reads SPAD byte 64, which nothing has written",
    ),
    "product without a start": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_mma(acc(0), spad(0), spad(0), 0); /*1*/
        {DONE} }}""",
        "vendor_lib_mma: C: reads ACC byte 0, which nothing has written",
    ),
    "scratchpad overflow": (
        f"""ONE {{ vendor_lib_fill(spad(524288 - 512), 0); /*1*/
        {DONE} }}""",
        "vendor_lib_fill: dst: SPAD overflow: needs 524800 bytes, capacity is 524288",
    ),
    "accumulator overflow": (
        f"""ONE {{ vendor_lib_fill(acc(131072), 0); /*1*/
        {DONE} }}""",
        "vendor_lib_fill: dst: ACC overflow: needs 132096 bytes, capacity is 131072",
    ),
    "misaligned product": (
        f"""ONE {{ vendor_lib_fill(spad(8), 1.0); {DONE}
        vendor_lib_mma(acc(0), spad(8), spad(8), VL_MMA_INIT); /*1*/
        {DONE} }}""",
        "vendor_lib_mma: A: SPAD address 8 is not a multiple of 32 bytes",
    ),
    "misaligned element": (
        f"""ONE {{ vendor_lib_fill(spad(2), 1.0); /*1*/
        {DONE} }}""",
        "vendor_lib_fill: dst: SPAD address 2 is not a multiple of its element size",
    ),
    "misaligned rows": (
        f"""ONE {{ vendor_lib_fill(VL_TILE(VL_S(0), 4, 9, 9, VL_F32), 1.0); /*1*/
        {DONE} }}""",
        "vendor_lib_fill: dst: SPAD row pitch of 36 bytes is not a multiple of 32",
    ),
    "rows off the granule": (
        f"""ONE {{ vendor_lib_fill(VL_TILE(VL_S(0), 8, 8, 8, VL_F32), 1.0); {DONE}
        vendor_lib_mma(VL_TILE(VL_A(0), 8, 8, 16, VL_F32), VL_TILE(VL_S(0), 8, 8, 8, VL_F32), VL_TILE(VL_S(0), 8, 8, 8, VL_F32), 1); /*1*/
        {DONE} }}""",
        "vendor_lib_mma: A: row pitch of 8 elements is not a multiple of the granule 16; "
        "pad the tile",
    ),
    "two cores write one tile": (
        f"""vendor_lib_fill(spad(0), 1.0); {DONE}
        vendor_lib_dma_copy(y(0), spad(0)); /*1*/ /*2*/
        {DONE}""",
        "vendor_lib_dma_copy: dst: race on GLOBAL: core 1 writes what core 0 writes at line {2}, "
        "without a barrier",
    ),
    "a core reads what another writes": (
        f"""if (vendor_lib_core_id() == 0) {{ {FILL} {DONE}
        vendor_lib_dma_copy(y(0), spad(0)); /*2*/
        }} else if (vendor_lib_core_id() == 1)
        vendor_lib_dma_copy(spad(0), y(0)); /*1*/
        {DONE}""",
        "vendor_lib_dma_copy: src: race on GLOBAL: core 1 reads what core 0 writes at line {2}, "
        "without a barrier",
    ),
    "a core writes what another reads": (
        f"""if (vendor_lib_core_id() == 0) {{
        vendor_lib_dma_copy(spad(0), y(0)); /*2*/
        }} else if (vendor_lib_core_id() == 1) {{ {FILL} {DONE}
        vendor_lib_dma_copy(y(0), spad(0)); }} /*1*/
        {DONE}""",
        "vendor_lib_dma_copy: dst: race on GLOBAL: core 1 writes what core 0 reads at line {2}, "
        "without a barrier",
    ),
    "reload before the store is over": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_dma_copy(y(0), spad(0)); /*2*/
        vendor_lib_dma_copy(spad(1024), y(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: src: GLOBAL hazard: LOAD reads what STORE writes at line {2}, "
        f"and {ORDER}",
    ),
    "store over what is still loaded": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_dma_copy(spad(1024), y(0)); /*2*/
        vendor_lib_dma_copy(y(0), spad(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: dst: GLOBAL hazard: STORE overwrites what LOAD still reads at line "
        f"{{2}}, and {ORDER}",
    ),
    "outside every tensor": (
        f"""ONE {{ vendor_lib_dma_copy(spad(0), x(1 << 24)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: src: address outside every tensor of the kernel",
    ),
    "past the end": (
        f"""ONE {{ vendor_lib_dma_copy(spad(0), x(49 * 64)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: src: goes 64 bytes past the end of tensor X",
    ),
    "writes an input": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_dma_copy(x(0), spad(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: dst: writes to input tensor X",
    ),
    "product outside the accumulator": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_mma(spad(1024), spad(0), spad(0), VL_MMA_INIT); /*1*/
        {DONE} }}""",
        "vendor_lib_mma: C must be in ACC (is in SPAD), A and B in SPAD (are in SPAD and SPAD)",
    ),
    "vector engine on a tensor": (
        f"""ONE {{ vendor_lib_vec_unary(VL_EXP, spad(0), x(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_vec_unary: src is in GLOBAL; the vector engine reaches SPAD and ACC only",
    ),
    "DMA between local memories": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_dma_copy(acc(0), spad(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: moves data between GLOBAL and local memory, not SPAD to ACC",
    ),
    "types differ": (
        f"""ONE {{ vendor_lib_dma_copy(VL_TILE(VL_S(0), 16, 16, 16, VL_F16), x(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: element types differ; use vendor_lib_dma_cast",
    ),
    "shapes of a product": (
        f"""ONE {{ {FILL} {DONE}
        vendor_lib_mma(acc(0), VL_TILE(VL_S(0), 16, 8, 16, VL_F32), spad(0), VL_MMA_INIT); /*1*/
        {DONE} }}""",
        "vendor_lib_mma: C is 16 x 16 but A gives 16 x 8 and B gives 16 x 16",
    ),
    "shapes of a copy": (
        f"""ONE {{ vendor_lib_dma_copy(VL_TILE(VL_S(0), 16, 8, 16, VL_F32), x(0)); /*1*/
        {DONE} }}""",
        "vendor_lib_dma_copy: src is 16 x 16 but dst is 16 x 8",
    ),
    "an empty tile": (
        f"""ONE {{ vendor_lib_fill(VL_TILE(VL_S(0), 0, 16, 16, VL_F32), 1.0); /*1*/
        {DONE} }}""",
        "vendor_lib_fill: dst: bad tile 0 x 16 with row pitch 16",
    ),
    "ends with work in flight": (
        f"""ONE {{ {LOAD} /*1*/
        }}""",
        "vendor_lib_sync: missing at the end of the kernel: LOAD still has commands in flight",
    ),
    "a barrier that not all reach": (
        """if (vendor_lib_core_id() == 1)
        vendor_lib_barrier(); /*1*/
        """,
        "vendor_lib_barrier: core 1 waits for core 0, which has ended",
    ),
}
# the same data movement with the missing order: nothing to report
FINE: dict[str, str] = {
    "set and wait": f"""ONE {{ {LOAD}
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 0);
        vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 0);
        vendor_lib_vec_unary(VL_COPY, spad(1024), spad(0));
        vendor_lib_set(VL_Q_VEC, VL_Q_STORE, 0);
        vendor_lib_wait(VL_Q_VEC, VL_Q_STORE, 0);
        vendor_lib_dma_copy(y(0), spad(1024)); {DONE} }}""",
    "an event used again after it is known to be over": f"""ONE {{ {LOAD}
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 3);
        vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 3);
        vendor_lib_set(VL_Q_VEC, VL_Q_LOAD, 3);
        vendor_lib_wait(VL_Q_VEC, VL_Q_LOAD, 3);
        vendor_lib_set(VL_Q_LOAD, VL_Q_VEC, 3);
        vendor_lib_wait(VL_Q_LOAD, VL_Q_VEC, 3); {DONE} }}""",
    "a barrier between cores": f"""if (vendor_lib_core_id() == 0) {{ {FILL} {DONE}
        vendor_lib_dma_copy(y(0), spad(0)); }}
        vendor_lib_barrier();
        if (vendor_lib_core_id() == 1) vendor_lib_dma_copy(spad(0), y(0));
        {DONE}""",
    "one core each": f"""vendor_lib_fill(spad(0), 1.0); {DONE}
        vendor_lib_dma_copy(y(16 * vendor_lib_core_id()), spad(0)); {DONE}""",
    "a store straight after its load": f"""ONE {{ {LOAD} {DONE}
        vendor_lib_dma_copy(y(0), spad(0)); {DONE} }}""",
}
CHILD = """
import ctypes, json, sys
import numpy as np
lib = ctypes.CDLL(sys.argv[1])
lib.vendor_lib_report.restype = ctypes.c_char_p
found = []
for number in range(int(sys.argv[2])):
    x, y = np.ones((64, 64), np.float32), np.zeros((64, 64), np.float32)
    code = getattr(lib, f"run_{number}")(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
    report = json.loads(lib.vendor_lib_report().decode())
    found.append({"code": code, "errors": report["errors"], "y": float(y[:16, :16].sum())})
print(json.dumps(found))
"""


def library() -> tuple[str, dict[str, dict[str, int]]]:
    """Return the C text and, by name, the lines of its marks."""
    text, marks = HEAD, {}
    bodies = {**{k: v[0] for k, v in BUGS.items()}, **FINE}
    for number, (name, body) in enumerate(bodies.items()):
        text += f"static void kernel_{number}(void *arg) {{\n(void)arg;\n"
        start = text.count("\n") + 1
        marks[name] = {
            mark: start + body[: m.start()].count("\n")
            for m in re.finditer(r"/\*(\d)\*/", body)
            for mark in (m.group(1),)
        }
        text += f"{body}\n}}\nint run_{number}(float *in, float *out);\n"
        text += f"int run_{number}(float *in, float *out) {{\n  X = in, Y = out;\n"
        text += '  vendor_lib_bind("X", X, 16384, 0);\n  vendor_lib_bind("Y", Y, 16384, 1);\n'
        text += f"  return vendor_lib_launch(kernel_{number}, NULL);\n}}\n"
    return text, marks


Found = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["program", "dma", "compute"])
def found(request: pytest.FixtureRequest, built: Path) -> Found:
    order = str(request.param)
    names = (*BUGS, *FINE)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(built), str(len(names))],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={"VL_ORDER": order, "PATH": ""},
    )
    known: Found = dict(zip(names, json.loads(done.stdout), strict=True))
    return {**known, "order": {"name": order}}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hazards")
    (folder / "bugs.c").write_text(library()[0], encoding="utf-8")
    root = runtime_folder()
    sources = [str(root / n) for n in ("sim.c", "sim_run.c", "sim_check.c", "sim_cost.c")]
    warnings = ("-Wall", "-Wextra", "-Werror")
    subprocess.run(
        [
            *("gcc", "-std=gnu11", "-O1", *warnings, "-shared", "-fPIC", f"-I{root}"),
            *("-o", str(folder / "bugs.so"), str(folder / "bugs.c"), *sources, "-lm"),
        ],
        check=True,
        timeout=120,
    )
    return folder / "bugs.so"


@pytest.mark.parametrize("name", BUGS)
def test_a_broken_rule_is_told_exactly(name: str, found: Found) -> None:
    lines = library()[1][name]
    message = BUGS[name][1].replace("{2}", str(lines.get("2", 0)))
    assert f"line {lines['1']}: {message}" in found[name]["errors"]
    assert found[name]["code"] != 0


@pytest.mark.parametrize("name", FINE)
def test_nothing_is_said_about_a_kernel_that_is_right(name: str, found: Found) -> None:
    assert found[name]["errors"] == [] and found[name]["code"] == 0


def test_a_hazard_is_found_although_the_result_is_right(found: Found) -> None:
    """Executed at the call, the missing wait does no harm, and is reported all the same."""
    assert found["set and wait"]["y"] == 256.0
    early = found["store before the product is over"]
    assert early["errors"]
    if found["order"]["name"] == "program":
        assert early["y"] == 16.0 * 16 * 16
