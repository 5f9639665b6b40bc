"""Cells of several archs that are one text: what makes them one, what is taken over, and that all else runs by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from septran import backends
from septran.batch import worker
from septran.batch.cells import expand
from septran.batch.file import load_batch
from septran.batch.order import spread
from septran.batch.same_text import keep, ran_as, taken_over, text_of, without_arch
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.result import Result
from septran.settings import load


def request(backend: str, arch: str, op: str = "relu", **more: Any) -> GenRequest:
    return GenRequest(**{"op": op, "backend": backend, "arch": arch, "where": "emulated", **more})


def key(backend: str, arch: str, op: str = "relu", **more: Any) -> str:
    found = text_of(request(backend, arch, op, **more), load())
    assert found is not None
    return found.key


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("backend", "one", "other"),
    [
        ("cuda_c", "sm_80", "sm_120a"),
        ("hip_c", "gfx942", "gfx950"),
        ("tilelang_hip", "gfx942", "gfx950"),
        ("triton_cuda", "sm_90", "sm_100"),
        ("triton_hip", "gfx942", "gfx90a"),
        ("tilelang_cuda", "sm_90a", "sm_100a"),
    ],
)
def test_the_same_kernel_for_another_arch_is_one_text(backend: str, one: str, other: str):
    assert key(backend, one) == key(backend, other)
    assert key(backend, one) != key(backend, one, dims={"N": 9})
    assert key(backend, one) != key(backend, one, op="silu")
    assert key(backend, one) != key(backend, one, seed=4)


def test_another_text_is_another_key():
    """gfx1201 has waves of 32 and tiles of its own; on sm_90a products of float16 are wgmma's."""
    assert key("triton_hip", "gfx942") != key("triton_hip", "gfx1201")
    assert key("cuda_c", "sm_80", "gemm", dtype="float16") != key(
        "cuda_c", "sm_90a", "gemm", dtype="float16"
    )


@pytest.mark.parametrize(
    ("backend", "arch"), [("cpp", "generic"), ("dsa_c", "generic"), ("dsa_c", "bm1684x")]
)
def test_archs_that_differ_in_how_they_run_are_never_one(backend: str, arch: str):
    assert text_of(request(backend, arch), load()) is None


@pytest.mark.parametrize(
    "more", [{"require": ("compile",)}, {"dynamic": ("N",)}, {"writer": "auto"}]
)
def test_what_asks_for_more_than_a_verdict_runs(more: dict[str, Any]):
    assert text_of(request("cuda_c", "sm_80", **more), load()) is None


def kernel_of(arch: str):
    program = lower_plan(resolve(request("cuda_c", arch))).program
    return backends.get("cuda_c").emit(program, {})


def test_a_change_below_the_head_is_seen():
    """A word that is an arch's name counts where the text may read it."""
    kernel = kernel_of("sm_80")
    more = replace(
        kernel, files=tuple((n, f"{t}\nconstexpr int on = sm_80;\n") for n, t in kernel.files)
    )
    other = kernel_of("sm_120a")
    much = replace(
        other, files=tuple((n, f"{t}\nconstexpr int on = sm_120a;\n") for n, t in other.files)
    )
    assert without_arch(kernel) == without_arch(other)
    assert without_arch(more) != without_arch(much)


def result(arch: str, **more: Any) -> Result:
    cell = {
        "op": "relu",
        "backend": "cuda_c",
        "id": f"relu/{arch}",
        "key": arch,
        "request": {"arch": arch, "dims": {"N": 9}, "dtype": "float32"},
    }
    return replace(Result.of_cell(cell), **more)


def accurate(arch: str, **more: Any) -> Result:
    words = {
        "level": "accurate",
        "where": "emulated",
        "status": "passed",
        "exit_code": 0,
        "seed": 7,
    }
    return result(arch, **{**words, "budget_ratio": 0.5, "max_error": 1e-6, **more})


def test_a_verdict_is_taken_over_with_whose_it_is(tmp_path: Path):
    text = text_of(request("cuda_c", "sm_120a"), load())
    assert text is not None
    first = replace(text, arch="sm_80")
    keep(first, accurate("sm_80", not_checked=["compile for sm_80: no nvcc", "races"]), tmp_path)
    ran = ran_as(text, tmp_path)
    assert ran is not None
    compiled = result("sm_120a", level="compiled", not_checked=["compile for sm_120a: no nvcc"])
    data = taken_over(compiled, ran).to_json()
    assert data["level"] == "accurate" and data["same_text_as"] == "sm_80" and data["seed"] == 7
    assert data["arch"] == "sm_120a"
    assert data["not_checked"] == ["compile for sm_120a: no nvcc", "races"]
    json.dumps(data)


@pytest.mark.parametrize(
    "kept",
    [
        accurate("sm_80", level="rejected", exit_code=1),
        accurate("sm_80", where="device"),
        accurate("sm_80", exit_code=3),
    ],
)
def test_only_an_accurate_emulated_verdict_is_kept(tmp_path: Path, kept: Result):
    text = text_of(request("cuda_c", "sm_80"), load())
    assert text is not None
    keep(text, kept, tmp_path)
    assert not list(tmp_path.iterdir())


def test_less_room_than_it_ran_with_is_another_run(tmp_path: Path):
    text = text_of(request("tilelang_cuda", "sm_90a"), load())
    assert text is not None
    keep(text, accurate("sm_90a"), tmp_path)
    small = text_of(request("tilelang_cuda", "sm_120a"), load())
    assert small is not None and small.key == text.key and small.room < text.room
    assert ran_as(small, tmp_path) is None
    keep(small, accurate("sm_120a"), tmp_path)
    assert ran_as(text, tmp_path) is not None


def test_its_own_compiler_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A kernel that its arch's compiler refuses is not accurate because another arch ran the same text."""
    text = text_of(request("cuda_c", "sm_120a"), load())
    assert text is not None
    keep(replace(text, arch="sm_80"), accurate("sm_80"), tmp_path)
    asked: list[str | None] = []

    def refused(request: GenRequest, **_: Any) -> Result:
        asked.append(request.stop_after)
        return result("sm_120a", level="emitted", status="compile_error", exit_code=1)

    monkeypatch.setattr(worker, "gen", refused)
    words = {"op": "relu", "backend": "cuda_c", "arch": "sm_120a", "dims": {}, "dtype": "float32"}
    cell = {"id": "a", "key": "b", "op": "relu", "backend": "cuda_c", "request": words}
    data = worker.run_cell(cell, into=tmp_path / "runs", timed=False, texts=tmp_path)
    assert asked == ["compile"]
    assert data["level"] == "emitted" and data["exit_code"] == 1 and "same_text_as" not in data


def test_spread_sees_every_operator_on_every_target_first(tmp_path: Path):
    file = tmp_path / "b.yaml"
    text = "ops: [relu, silu, gelu, add]\nbackends: [cuda_c, dsa_c]\narchs: all\ndims: [odd, sample]\ntime: false\n"
    file.write_text(text)
    cells = expand(load_batch(file), load())
    found = spread(cells)
    assert sorted(c.id for c in found) == sorted(c.id for c in cells)
    first = found[:8]
    assert len({(c.op, c.backend) for c in first}) == 8
    assert {c.request["arch"] for c in first if c.backend == "cuda_c"} == {
        "sm_80", "sm_90a", "sm_100a", "sm_120a",
    }  # fmt: skip
    relu = [c for c in found if c.op == "relu" and c.backend == "cuda_c"]
    assert len({c.id.split("/")[2] for c in relu[:4]}) == 1  # archs of one size meet
