"""What warps take of memory: from the emulation's report to a verdict, a card and the words for a model."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from septran.cli.main import main
from septran.kernel import Kernel
from septran.verify import warp_accesses as of_warps
from septran.verify.reports import Reports
from septran.verify.warp_accesses import figures, told, warp_accesses, with_files

KERNEL = Kernel(
    name="k",
    backend="cuda_c",
    arch="sm_80",
    entry="k",
    params=(),
    main="k.cu",
    files=(("k.cu", "one\n  y[t] = s[32 * t];\nthree\n"), ("st.cuh", "x\n")),
    leaves=(),
)
SITE = {"bytes": 4, "times": 2, "taken": 40, "needed": 2, "worst": 20}
RAW: dict[str, Any] = {
    "lanes": 32,
    "sector": 32,
    "left_out": 0,
    "global": {"times": 4, "taken": 16, "needed": 16, "sites": {"40a0 store": SITE | {"taken": 8, "needed": 8}}},
    "shared": {"times": 4, "taken": 84, "needed": 6, "sites": {"4010 load": SITE, "4020 load": SITE, "4030 store": SITE | {"taken": 4}}},
}  # fmt: skip
PLACES = {0x4010: ("k.cu", 2), 0x4020: ("k.cu", 2), 0x4030: ("k.cu", 3)}
FILE = """#include <cuda_runtime.h>
__global__ void turn(const float* in, float* out, int rows, int cols) {
  __shared__ float tile[32][WIDTH];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  if (x < cols && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * cols + x];
  __syncthreads();
  int ox = blockIdx.y * 32 + threadIdx.x, oy = blockIdx.x * 32 + threadIdx.y;
  if (ox < rows && oy < cols)
    out[oy * rows + ox] = tile[threadIdx.x][threadIdx.y];
}
void run(const float* in, float* out, int rows, int cols) {
  turn<<<dim3((cols + 31) / 32, (rows + 31) / 32), dim3(32, 32)>>>(in, out, rows, cols);
}
"""
TURNED = """import torch
def reference(x):
    return x.t().contiguous()
def get_inputs():
    return [torch.rand(64, 96)]
"""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(of_warps, "places", lambda codes, kernel, host: PLACES)
    return dict(warp_accesses(RAW, KERNEL, None))


def test_places_of_one_line_are_taken_together(found: dict[str, Any]) -> None:
    worst = found["shared"]["worst"]
    assert (worst["file"], worst["line"], worst["text"]) == ("k.cu", 2, "y[t] = s[32 * t];")
    assert (worst["does"], worst["times"], worst["taken"], worst["needed"]) == ("load", 4, 80, 4)
    assert worst["worst"] == 20
    assert "worst" not in found["global"]  # nothing is lost there


def test_in_words(found: dict[str, Any]) -> None:
    rows = dict(told(with_files(found, lambda name: name.replace("k.cu", "mine.cu"))))
    assert rows["global memory"] == "16 sectors of 32 bytes, 1.00 x what the bytes need"
    assert rows["shared memory"] == (
        "84 wavefronts, 78 of them for bank conflicts; worst line 2 of mine.cu (loads of 4 bytes, 20-way): `y[t] = s[32 * t];`"
    )
    assert told({}) == []
    assert "not all accesses were counted" in told({**found, "partial": True})[0][1]


def test_figures_of_a_leaf(found: dict[str, Any]) -> None:
    assert figures(found) == {
        "global_sectors": 16.0,
        "needed_sectors": 16.0,
        "shared_wavefronts": 84.0,
        "conflict_wavefronts": 78.0,
    }
    assert figures({**found, "partial": True}) == {} == figures({})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("shared", "needed"), 85),
        (("shared", "needed"), 0),
        (("global", "times"), -1),
        (("global", "taken"), 16.0),
        (("lanes",), True),
        (("left_out",), "0"),
        (("global", "sites"), {"nowhere": SITE}),
        (("global", "sites"), {"40a0 load": SITE}),
        (("shared",), 7),
    ],
)
def test_an_impossible_count_is_none(path: tuple[str, ...], value: object) -> None:
    raw: Any = copy.deepcopy(RAW)
    into = raw
    for name in path[:-1]:
        into = into[name]
    into[path[-1]] = value
    assert warp_accesses(raw, KERNEL, None) == {}


def test_the_first_report_with_a_count_is_kept() -> None:
    reports = Reports()
    for accesses in (RAW, {"lanes": 0}):
        assert reports.add(json.dumps({"errors": [], "accesses": accesses})) == ""
    assert reports.accesses == RAW and reports.figures == {}
    assert reports.add(json.dumps({"errors": [], "accesses": [1]})) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("width", "conflicts"), [(32, 96 * 64 // 32 * 31), (33, 0)])
def test_a_transposition_of_somebody(
    width: int, conflicts: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, reference = tmp_path / "turn.cu", tmp_path / "turn.py"
    file.write_text(FILE.replace("WIDTH", str(width)))
    reference.write_text(TURNED)
    given = ["--reference", str(reference), "--number", "rows=64", "--number", "cols=96"]
    assert main(["judge", str(file), *given]) == 0
    card = capsys.readouterr().out
    assert "global memory  1536 sectors of 32 bytes, 1.00 x what the bytes need\n" in card
    assert f"{conflicts} of them for bank conflicts" in card
    assert ("worst line 9 of turn.cu (loads of 4 bytes, 32-way)" in card) == (conflicts > 0)
