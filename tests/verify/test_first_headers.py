"""What every kernel of a target includes first is parsed once, and changes nothing of what is compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from septran.intact import intact
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.toolchain import first_headers, hosted
from septran.toolchain.compilers import cpp_compiler
from septran.toolchain.confined import Finished, run_confined

FLAGS = ("-std=c++20", "-O2", "-march=native", "-fPIC")


def _build(backend: str, rows: int, folder: Path) -> bytes:
    """Return the object of row_sum with so many rows, built as `gen` does."""
    plan = resolve(GenRequest(op="row_sum", backend=backend, dims={"M": rows, "N": 67}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    built = plan.backend.build(plan.backend.emit(lowered.program, leaves), folder)
    assert built.ok, built.log
    return (folder / "kernel.o").read_bytes()


def _telling(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return what gives the lines that compilers print from here on."""
    said: list[str] = []

    def run(command: list[str], *args: Any, **how: Any) -> Finished:
        done = run_confined(
            [*command[:-1], command[-1].replace(" -c ", " -H -c ", 1)], *args, **how
        )
        said.extend(done.output.splitlines())
        return done

    monkeypatch.setattr(hosted, "run_confined", run)
    return lambda: said


def _made(home: Path) -> list[Path]:
    return sorted((home / "cache" / "headers").glob("*/first.h.gch"))


@pytest.mark.wider
@pytest.mark.parametrize("backend", ["cpp", pytest.param("cuda_c", marks=pytest.mark.slow)])
def test_the_second_kernel_parses_them_for_all_after_it(
    backend: str, fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = [_build(backend, 19, tmp_path / "1")]
    assert not _made(fresh_home)
    alone.append(_build(backend, 20, tmp_path / "2"))
    found = _made(fresh_home)
    assert found
    used = found[0].parent.stat().st_mtime_ns
    told = _telling(monkeypatch)
    assert _build(backend, 21, tmp_path / "3") != alone[0]
    assert found[0].parent.stat().st_mtime_ns > used
    # with -H the compiler names what it reads, "!" before what is precompiled
    assert [line for line in told() if line.startswith("! ")] == [f"! {found[0]}"]
    # the same kernels, built anew with it and never with it
    for kept in (fresh_home / "cache" / "compiled").glob("*"):
        kept.unlink()
    assert [_build(backend, n, tmp_path / f"again{n}") for n in (19, 20)] == alone


def test_one_that_was_changed_is_made_again(fresh_home: Path) -> None:
    compiler = cpp_compiler("native")
    assert compiler is not None

    def asked() -> Path | None:
        return first_headers.first_headers(compiler, FLAGS, "#include <utility>\n")

    assert asked() is None
    header = asked()
    assert header is not None and header == asked()
    made = header.with_name("first.h.gch")
    torn = made.read_bytes()[:-1]
    made.write_bytes(torn)
    assert asked() == header
    assert made.read_bytes() != torn and intact(made)


def test_what_does_not_compile_is_tried_once(
    fresh_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = cpp_compiler("native")
    assert compiler is not None
    for _ in range(2):
        assert first_headers.first_headers(compiler, FLAGS, "#include <nowhere.h>\n") is None
    monkeypatch.setattr(first_headers, "run_tool", None)
    assert first_headers.first_headers(compiler, FLAGS, "#include <nowhere.h>\n") is None


def test_no_more_are_kept_than_are_used(fresh_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_headers, "_MOST", 2)
    compiler = cpp_compiler("native")
    assert compiler is not None
    for number in range(3):
        for _ in range(2):
            found = first_headers.first_headers(
                compiler, (*FLAGS, f"-DN={number}"), "#include <cstddef>\n"
            )
        assert found is not None and found.is_file()
    assert len(_made(fresh_home)) == 2
    assert found.with_name("first.h.gch") in _made(fresh_home)
