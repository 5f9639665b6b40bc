"""The optional compilers: found by probing, run confined, and what they say reaches the verdict."""

from __future__ import annotations

import importlib
import re
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends.npuir import toolchain as G
from septran.backends.npuir.ascend import NoAscendForm, ascend_source
from septran.backends.npuir.backend import available, build
from septran.backends.npuir.hivm import hivm_text
from septran.backends.npuir.hivm_ops import NoHivmForm
from septran.kernel import Kernel
from septran.outcome import Level, Status
from septran.run.require import exit_code
from septran.toolchain.confined import Finished
from septran.verify.verdict import Verdict
from tests.backends.npuir import running as R

NO_HIVMC = 'loc("kernel.mlir":1:1): error: External hivmc run fails, returning module'
OVERFLOW = 'loc("kernel.mlir":9:5): error: ub overflow, requires 2 bits while 1 bits available!'


@pytest.fixture(scope="module")
def softmax() -> Kernel:
    return R.kernel_of("softmax", {"M": 37, "N": 777}, "float16")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Neither compiler is there, whatever this machine has."""
    empty = tmp_path / "nothing"
    empty.mkdir()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("tilelang", "ascendnpuir"):
        for held in [m for m in sys.modules if m.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, held)
    real = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> object:
        if name not in ("tilelang", "ascendnpuir"):
            return real(name, package)
        places = [p for p in sys.path if Path(p).is_relative_to(tmp_path)]
        return importlib.machinery.PathFinder.find_spec(name, places)

    monkeypatch.setattr("importlib.util.find_spec", find)
    return tmp_path


def fake_tool(folder: Path, text: str) -> Path:
    tool = folder / "bin" / "bishengir-compile"
    tool.parent.mkdir(parents=True)
    tool.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool


def compiled(not_checked: tuple[str, ...]) -> int:
    verdict = Verdict(
        level=Level.ACCURATE,
        status=Status.PASSED,
        where="emulated",
        kernel="k",
        kernel_sha="",
        backend="tilelang_npuir",
        arch="910b",
        dims={},
        seed=1,
        not_checked=not_checked,
    )
    return exit_code(verdict, ("compile",))


# -- nothing is installed ---------------------------------------------------------------------


def test_without_compilers_the_verdict_says_so(alone: Path, softmax: Kernel) -> None:
    work = alone / "work"
    work.mkdir()
    built = build(softmax, work)
    assert built.ok and built.command == "dialect check"
    assert any("bishengir: not installed; pip install ascendnpu-ir" in n for n in built.not_checked)
    assert any("tilelang is not installed; pip install" in n for n in built.not_checked)
    assert compiled(built.not_checked) == 3
    assert (work / "bishengir" / "kernel.mlir").is_file()  # to be compiled elsewhere
    here = available()["compile"]
    assert here.ok and "no bishengir-compile" in here.detail
    assert "pip install ascendnpu-ir" in here.install and "tilelang" in here.install


# -- bishengir --------------------------------------------------------------------------------


def test_the_compiler_is_found_in_its_package_without_importing_it(
    alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = alone / "site" / "ascendnpuir"
    tool = fake_tool(package, "exit 0")
    (package / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    assert G.bishengir() is None
    monkeypatch.syspath_prepend(str(alone / "site"))
    assert G.bishengir() == tool
    assert "bishengir-compile for Expert kernels" in available()["compile"].detail
    tool.unlink()
    assert G.bishengir() is None


def test_the_compiler_is_found_on_the_path(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = fake_tool(alone, "exit 0")
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    assert G.bishengir() == tool


@pytest.mark.parametrize(
    ("script", "ok", "note", "required"),
    [
        (f"echo '{NO_HIVMC}'; exit 1", True, "hivmc, the last step, is part of CANN", 0),
        ("exit 0", True, "", 0),
        (f"echo '{OVERFLOW}'; exit 1", False, "", 0),
        (f"echo '{OVERFLOW}'; echo '{NO_HIVMC}'; exit 1", False, "", 0),
        ("echo 'cannot open the file'; exit 1", False, "", 0),
        ("echo 'LLVM ERROR: PlanMemory failed'; exit 134", True, "LLVM ERROR: PlanMemory", 3),
        ("kill -SEGV $$", True, "the compiler did not end", 3),
    ],
)
def test_what_the_compiler_says(
    alone: Path,
    monkeypatch: pytest.MonkeyPatch,
    softmax: Kernel,
    script: str,
    ok: bool,
    note: str,
    required: int,
) -> None:
    tool = fake_tool(alone, f"test -f kernel.mlir || exit 0\n{script}")
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    work = alone / "work"
    work.mkdir()
    built = build(softmax, work)
    assert built.ok == ok, built.log
    notes = [n for n in built.not_checked if "Ascend C" not in n and "sandbox" not in n]
    assert [note in n for n in notes] == ([True] if note else [])
    if not ok:
        assert "overflow" in built.log or "cannot open" in built.log
        assert str(alone) not in built.log
    assert compiled(tuple(notes)) == required


def test_developer_kernels_are_not_compiled_with_it(alone: Path) -> None:
    found = G.run_bishengir(R.kernel_of("attention", {}), alone)
    assert found.status == "skipped" and "Developer kernels have no HIVM text" in found.note


def test_products_have_their_own_flags(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = fake_tool(alone, "exit 0")
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    seen: dict[str, tuple[str, ...]] = {}
    for name in ("gemm", "relu"):

        def run(command: tuple[str, ...], *_: object, name: str = name) -> Finished:
            seen[name] = command
            return Finished(code=0, output="", seconds=0)

        assert G.run_bishengir(R.kernel_of(name, {}), alone, run).status == "passed"
    assert "--disable-hivm-tensor-compile" in seen["gemm"]
    assert "--disable-hivm-tensor-compile" not in seen["relu"]


# -- the text it gets -------------------------------------------------------------------------


def defined_before_use(text: str) -> None:
    """Every SSA value has one definition, above its uses and in scope."""
    scopes: list[set[str]] = [set()]
    for line in text.splitlines():
        head, equals, tail = line.strip().partition(" = ")
        names = re.findall(r"%\w+", tail if equals and head.startswith("%") else line)
        if line.strip().startswith("} else"):
            scopes[-1] = set()
            continue
        if line.strip().startswith("scf.if"):
            scopes.append(set())
        if line.strip().startswith(("func.func", "scf.for")):
            own = re.findall(r"%\w+(?=:| =)", line)
            scopes.append(set(own))
            names = [n for n in names if n not in own]
        assert all(any(n in s for s in scopes) for n in names), line
        if equals and re.fullmatch(r"%\w+", head):
            assert not any(head in s for s in scopes), line
            scopes[-1].add(head)
        if line.strip() == "}":
            scopes.pop()


@pytest.mark.parametrize(
    "name", ["softmax", "layernorm", "cross_entropy", "transpose", "gelu", "gemm", "conv2d_1x1"]
)
def test_hivm_text_is_well_formed(name: str) -> None:
    for dims in ({}, dict(R.OPERATORS[name][0].odd_dims[0])):
        text = hivm_text(R.kernel_of(name, dims, "float16").source)
        defined_before_use(text)
        assert text.count("{") == text.count("}")
        assert "hivm.hir.store" in text or "hivm.hir.fixpipe {enable_nz2nd" in text


def test_a_product_says_when_its_accumulator_is_empty() -> None:
    text = hivm_text(R.kernel_of("gemm", {}, "bfloat16").source)
    assert text.count("hivm.hir.mmadL1") == 2 and "scf.if" in text  # at the first step, and later
    assert text.count("hivm.hir.nd2nz {dst_continuous}") == 2
    assert "#hivm.fixpipe_pre_quant_mode<F322BF16>" in text
    always = hivm_text(R.kernel_of("conv2d_1x1", {}).source)
    assert always.count("hivm.hir.mmadL1") == 1 and "scf.if" not in always


def test_operations_map_one_to_one(softmax: Kernel) -> None:
    text = hivm_text(softmax.source)
    body = softmax.source
    for ours, theirs in (("T.vexp(", "hivm.hir.vexp "), ("T.reduce(", "hivm.hir.vreduce ")):
        assert text.count(theirs) == body.count(ours) > 0
    assert "memref.subview %X[" in text and "strided<[777, 1], offset: ?>" in text
    assert "broadcast = [1]" in text and "compare_mode = <ne>" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("T.vexp(", "T.cumsum(", "T.cumsum has no HIVM form"),
        ("T.alloc_ub([2, 777]", "T.alloc_shared([2, 777]", "T.alloc_shared"),
        ("T.Kernel(19, is_npu=True) as (cid, _)", 'T.Kernel(19, is_npu=True) as (cid, _), T.Scope("Vector")', "T.Scope"),
    ],
)  # fmt: skip
def test_what_has_no_form_is_named(softmax: Kernel, old: str, new: str, message: str) -> None:
    with pytest.raises(NoHivmForm, match=re.escape(message)) as caught:
        hivm_text(R.changed(softmax, old, new).source)
    assert "line" in str(caught.value)


@pytest.mark.skipif(G.bishengir() is None, reason="needs pip install ascendnpu-ir")
def test_the_real_compiler(tmp_path: Path, softmax: Kernel) -> None:
    assert G.run_bishengir(softmax, tmp_path).status == "passed"
    big = R.changed(R.changed(softmax, "([2, 777]", "([200, 777]"), "([2, 1]", "([200, 1]")
    found = G.run_bishengir(big, tmp_path)
    assert found.status == "refused" and "ub overflow" in found.log
    wrong = R.changed(softmax, 'alloc_ub([2, 1], "float32")', 'alloc_ub([2, 1], "float16")')
    assert G.run_bishengir(wrong, tmp_path).status == "refused"
    for dims in ({}, {"M": 100, "N": 77, "K": 345}):
        gemm = R.kernel_of("gemm", dims, "bfloat16")
        assert G.run_bishengir(gemm, tmp_path).status == "passed"


# -- tilelang's ascend target -----------------------------------------------------------------


def test_the_target_is_probed_both_ways(alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not installed" in G.ascend_target()
    package = alone / "site" / "tilelang"
    (package / "ascend" / "language").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(alone / "site"))
    assert "has no ascend target" in G.ascend_target()
    assert "has no ascend target" in available()["compile"].detail
    (package / "ascend" / "language" / "__init__.py").touch()
    assert G.ascend_target() == ""
    assert "Ascend C text by tilelang" in available()["compile"].detail


@pytest.mark.parametrize(
    ("done", "status", "note"),
    [
        (Finished(code=0, output="", seconds=1), "passed", ""),
        (Finished(code=77, output="ImportError: no x", seconds=1), "skipped", "no x"),
        (Finished(code=1, output="a\nValueError: not that\n  b", seconds=1), "skipped", "not that"),
        (Finished(code=124, output="", seconds=30), "skipped", "longer than 20 s"),
    ],
)
def test_what_the_lowering_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    softmax: Kernel,
    done: Finished,
    status: str,
    note: str,
) -> None:
    monkeypatch.setattr(G, "ascend_target", lambda: "")

    def run(command: tuple[str, ...], work: Path, seconds: float, **_: object) -> Finished:
        assert (work / command[2]).is_file()
        if done.code == 0:
            (work / command[-1]).write_text("one\ntwo\n", encoding="utf-8")
        return done

    found = G.run_ascend(softmax, tmp_path, run)
    assert found.status == status and note in found.note
    assert found.fact == ("2 lines" if status == "passed" else "")


def test_what_has_no_form_there() -> None:
    with pytest.raises(NoAscendForm, match="Developer"):
        ascend_source(R.kernel_of("attention", {}).source)
    with pytest.raises(NoAscendForm, match="tail"):
        ascend_source(R.kernel_of("gemm", {"M": 100, "N": 77, "K": 345}).source)
    text = ascend_source(R.kernel_of("gemm", {}).source)
    assert "with T.Kernel(64) as cid:" in text and "from ascend_forms import T" in text


@pytest.mark.slow
@pytest.mark.skipif(bool(G.ascend_target()), reason="needs tilelang with its ascend target")
@pytest.mark.parametrize("name", ["gemm", "softmax", "cross_entropy", "transpose"])
def test_the_real_lowering(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(G, "ASCEND_SECONDS", 240.0)  # a busy machine is no reason to fail
    kernel = R.kernel_of(name, {}, "float16")
    found = G.run_ascend(kernel, tmp_path)
    assert found.status == "passed", found
    text = (tmp_path / "ascend" / "lowered.cpp").read_text(encoding="utf-8")
    assert ("asc_copy_gm2l1_nd2nz" in text) == (name == "gemm")
    assert ("__vector__" in text) == (name != "gemm")
    broken = replace(kernel, files=((kernel.main, kernel.source.replace("T.copy(", "T.kopy(")),))
    assert G.run_ascend(broken, tmp_path).status == "skipped"
