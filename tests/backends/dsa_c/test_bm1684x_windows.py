"""Windows of the BM1684X's kernels: what is beside what, and what the clock of windows refuses.

The vendor's library is not needed: its calls are empty functions here that say their names, between a printed kernel and the
clock. Its model runs a window in the order given and could not show a race.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.backends.dsa import library
from septran.kernel import Kernel
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.verify.gate_binary import allowed_symbols

DSA = backends.get("dsa_c")
SOPHGO = Path(library.__file__).parent / "sophgo"
CALLS = library.wrapped((SOPHGO / "calls.c",))
TYPES = """#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
typedef uint32_t local_addr_t;
typedef uint64_t global_addr_t, system_addr_t;
typedef enum { DT_FP32, DT_FP16, DT_BFP16, DT_INT8, DT_UINT8, DT_INT32, DT_UINT32 } data_type_t;
typedef enum { RM_HALF_TO_EVEN } rounding_mode_t;
typedef enum { SCALAR, TENSOR, VECTOR } variable_type_t;
typedef struct { int n, c, h, w; } dim4;
typedef struct { int h, w; } dim2;
typedef struct { int top, bottom, left, right; } padding_t;
typedef union { float f32; uint32_t u32; } scalar_t;
typedef struct { variable_type_t type; union { local_addr_t addr; scalar_t scalar; } context; } variable_t;
"""
HOST = """#include "clock.h"
#include "model.h"
#include <stdint.h>
#include <stdio.h>
extern void ENTRY(void *const *);
void clock_say(const char *text) { printf("refused: %s\\n", text); }
void *sg_bind(const char *name, void *host, size_t bytes, int written) {
  static uintptr_t at = 4096;
  (void)name, (void)host, (void)written;
  at += (bytes + 4095) / 4096 * 4096;
  return (void *)at;
}
void sg_run(void (*kernel)(void *), void *args) { clock_reset(); kernel(args); clock_finish(); }
int main(void) { void *none[8] = {0}; ENTRY(none); return 0; }
"""
# one line of rows: a load of the wrong slot meets the product in a window, not only in the next one, where the model sees it
SMALL = {"gemm": {"M": 64, "N": 37, "K": 600}, "attention": {"Z": 1, "S": 600, "D": 64}}


def gcc(*arguments: str | Path, folder: Path) -> None:
    done = subprocess.run(
        ["gcc", "-std=gnu11", "-O0", "-Wall", "-Wno-unused", *map(str, arguments)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Objects of the clock, of what tells it the calls, and of calls that only say their names."""
    there = tmp_path_factory.mktemp("machine")
    declared = "".join(f"void {name}();\n" for name in CALLS)
    (there / "tpu_kernel.h").write_text(TYPES + declared)
    said = "".join(f'void {name}() {{ puts("{name}"); }}\n' for name in CALLS)
    (there / "empty.c").write_text(f"#include <stdio.h>\n{said}")
    sources = (there / "empty.c", SOPHGO / "calls.c", SOPHGO / "clock.c")
    gcc("-I.", "-c", *sources, folder=there)
    return there


def printed(op: str, dtype: str) -> Kernel:
    plan = resolve(GenRequest(op=op, backend="dsa_c", arch="bm1684x", dtype=dtype, dims=SMALL[op]))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    return plan.backend.emit(lowered.program, leaves)


def ran(kernel: Kernel, machine: Path, folder: Path) -> list[str]:
    """Return the calls that a kernel makes, and what the clock refuses."""
    for name, text in kernel.files:
        (folder / name).write_text(text)
    (folder / "host.c").write_text(HOST.replace("ENTRY", kernel.entry))
    objects = [machine / f"{name}.o" for name in ("empty", "calls", "clock")]
    wraps = [f"-Wl,--wrap={name}" for name in CALLS]
    gcc("-I.", f"-I{machine}", f"-I{SOPHGO}", kernel.main, "host.c", *objects, *wraps, "-o", "run", folder=folder)  # fmt: skip
    run = subprocess.run([folder / "run"], capture_output=True, text=True, check=True, timeout=60)
    return run.stdout.splitlines()


def windows(lines: list[str]) -> list[list[str]]:
    text = "\n".join(lines)
    found = re.findall(r"^tpu_parallel_start\n(.*?)^tpu_parallel_end$", text, re.DOTALL | re.M)
    return [window.split() for window in found]


@pytest.mark.parametrize(
    ("op", "dtype"), [("gemm", "float32"), ("gemm", "bfloat16"), ("attention", "float32")]
)
def test_the_next_tile_is_loaded_beside_a_product(
    op: str, dtype: str, machine: Path, tmp_path: Path
) -> None:
    lines = ran(printed(op, dtype), machine, tmp_path)
    assert not [line for line in lines if line.startswith("refused")]
    product = "tpu_bdc_fp32_mm" if dtype == "float32" else "tpu_bdc_fp_mm"
    found = windows(lines)
    assert any("tpu_gdma_cpy_S2L" in window and product in window for window in found)
    assert all([x for x in window if x.startswith("tpu_bdc")] == [product] for window in found)


def test_operands_of_16_bits_are_not_moved_between_lanes(machine: Path, tmp_path: Path) -> None:
    lines = ran(printed("gemm", "bfloat16"), machine, tmp_path)
    first, last = (lines.index("tpu_bdc_fp_mm"), len(lines) - lines[::-1].index("tpu_bdc_fp_mm"))
    assert "tpu_gdma_cpy_L2L" not in lines[first:last]


def test_without_pipelining_nothing_is_loaded_beside_a_product(
    machine: Path, tmp_path: Path
) -> None:
    kernel = printed("gemm", "bfloat16")
    text = dict(kernel.files)[kernel.main]
    # what is loaded is waited for at once, as in a loop that is not pipelined
    serial = re.sub(r"(?m)^( *sg_set\((LOAD, MMA), (.*)\);)$", r"\1 sg_wait(\2, \3);", text)
    assert serial != text
    lines = ran(changed(kernel, kernel.main, serial), machine, tmp_path)
    assert not any("tpu_gdma_cpy_S2L" in window for window in windows(lines))


def changed(kernel: Kernel, file: str, text: str) -> Kernel:
    files = tuple((name, text if name == file else old) for name, old in kernel.files)
    return replace(kernel, files=files)


APART = "nothing keeps the two apart"
BUGS: dict[str, tuple[str, str, str, str, str]] = {
    "a window without its end": (
        "bfloat16", "sophgo.h", r"^    if \(window\) tpu_parallel_end\(\);\n", "",
        "window 1 has no end: another begins in it",
    ),
    "a wait dropped": ("bfloat16", "", r"^ *sg_wait\(LOAD, MMA, .*\n", "", APART),
    "the product reads the slot that is loaded": (
        "bfloat16", "", r"(sg_mma\(.*SG_L\(B_s, \(\(dsa_mod\()k0,", r"\1(k0 + 1),", APART,
    ),
    "the load writes the slot that is read": (
        "bfloat16", "", r"(sg_dma\(SG_TILE\(SG_L\(A_s, \(\(dsa_mod\()\(k0 \+ 1\),", r"\1k0,", APART,
    ),
    "one buffer in place of two": (
        "bfloat16", "", r"(SG_L\(B_s, )\(\(dsa_mod\(.*?, 2\)\) \* \d+\) \* \d+\)", r"\g<1>0)", APART,
    ),
    "one place for operands in place of two": (
        "float32", "sophgo.h", r"const int other = i % 2", "const int other = 0", APART,
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_the_clock_refuses(bug: str, machine: Path, tmp_path: Path) -> None:
    dtype, file, pattern, new, told = BUGS[bug]
    kernel = printed("gemm", dtype)
    text = dict(kernel.files)[file or kernel.main]
    wrong, times = re.subn(pattern, new, text, flags=re.MULTILINE)
    assert times, text
    lines = ran(changed(kernel, file or kernel.main, wrong), machine, tmp_path)
    assert told in "\n".join(line for line in lines if line.startswith("refused")), lines


BEGIN, END = "clock_begin();", "clock_end();"
LOAD = 'clock_command(CLOCK_DMA, "load");'
ADD = 'clock_command(CLOCK_COMPUTE, "add");'


def rows(write: int, at: int, columns: int, pitch: int = 64) -> str:
    shape, stride = f"{{1, 128, 1, {columns}}}", f"{{0, {pitch}, 0, 1}}"
    return f"clock_tensor({write}, {at}, 262144, (int[]){shape}, (int[]){stride}, 4);"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (BEGIN + LOAD + rows(1, 512, 64) + ADD + rows(0, 0, 64) + END, ""),
        (BEGIN + LOAD + rows(1, 508, 64) + ADD + rows(0, 0, 64) + END,
         "window 1: add (command 2) reads bytes 256 to 512 of lanes 0 to 63, which load (command 1) writes, "
         "and nothing keeps the two apart"),
        (BEGIN + ADD + rows(1, 0, 64) + LOAD + rows(0, 0, 64) + END,
         "window 1: load (command 2) reads bytes 0 to 256 of lanes 0 to 63, which add (command 1) writes, "
         "and nothing keeps the two apart"),
        (BEGIN + LOAD + rows(0, 0, 64) + ADD + rows(0, 0, 64) + END, ""),
        (BEGIN + LOAD + rows(1, 0, 64) + LOAD + rows(0, 0, 64) + END, ""),
        (BEGIN + LOAD + rows(1, 0, 64) + END + BEGIN + ADD + rows(0, 0, 64) + END, ""),
        (LOAD + rows(1, 0, 64) + ADD + rows(0, 0, 64), ""),
        # other columns of the same rows, and other lanes
        (BEGIN + LOAD + rows(1, 0, 32) + ADD + rows(0, 128, 32) + END, ""),
        (BEGIN + LOAD + "clock_touch(1, 0, 16, 0, 64);" + ADD + "clock_touch(0, 16, 48, 0, 64);" + END, ""),
        (BEGIN + BEGIN + END, "window 1 has no end: another begins in it"),
        (END, "the end of a window that has not begun"),
        (BEGIN, "window 1 has no end: the kernel ends in it"),
    ],
)  # fmt: skip
def test_what_the_clock_tells(body: str, told: str, machine: Path, tmp_path: Path) -> None:
    say = "#include <stdio.h>\nvoid clock_say(const char *text) { puts(text); }\n"
    text = f'#include "clock.h"\n{say}int main(void) {{ clock_reset(); {body} clock_finish(); return 0; }}\n'
    (tmp_path / "one.c").write_text(text)
    gcc(f"-I{SOPHGO}", "one.c", machine / "clock.o", "-o", "one", folder=tmp_path)
    run = subprocess.run([tmp_path / "one"], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[:1] == ([told] if told else [])


def test_every_call_that_the_gate_allows_goes_by_the_clock() -> None:
    names, _ = allowed_symbols("c", "dsa_c.bm1684x")
    calls = {name for name in names if re.match(r"tpu_(bdc|gdma|parallel)_", name)}
    assert calls == set(CALLS)


def test_a_header_says_no_call_that_is_not_there() -> None:
    text = (SOPHGO / "sophgo.h").read_text(encoding="utf-8")
    assert set(re.findall(r"\btpu_(?!kernel)\w+", text)) <= set(CALLS)
