"""A planted bug in the logic, a leaf, a pass or the emitter is rejected and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends.base import Backend
from septran.backends.cpp import backend as cpp
from septran.errors import InternalError
from septran.ir.access import map_bodies
from septran.ir.nodes import Copy, For, Program, Stmt
from septran.kernel import Kernel, Leaf, LeafSpec
from septran.plan import resolve as plan_module
from septran.run.gen import GenRequest, gen
from septran.settings import load


def plant(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    """Give every plan a cpp backend with a bug."""
    honest = cpp.CPP

    def get(name: str) -> Backend:
        assert name == "cpp"
        return replace(honest, **changes)  # type: ignore[arg-type]

    monkeypatch.setattr(plan_module.backends, "get", get)


def run(op: str, **dims: int) -> dict[str, object]:
    request = GenRequest(op=op, backend="cpp", dims=dims)
    result = gen(request, settings=load(), progress=lambda text: None)
    assert result.exit_code == 1, result.data
    return dict(result.data)


def leaf_bug(task: str, old: str, new: str) -> Callable[[LeafSpec], Leaf | None]:
    """Return a library in which `task`'s leaf has `old` replaced by `new`."""

    def library(spec: LeafSpec) -> Leaf | None:
        leaf = cpp.library_leaf(spec)
        if leaf is None or spec.task != task:
            return leaf
        assert old in leaf.source, leaf.source
        return replace(leaf, source=leaf.source.replace(old, new))

    return library


def by_hand(task: str, body: str) -> Callable[[LeafSpec], Leaf | None]:
    """Return a library in which `task`'s leaf has the given body."""

    def library(spec: LeafSpec) -> Leaf | None:
        if spec.task != task:
            return cpp.library_leaf(spec)
        head = cpp.signature(spec).rstrip().rstrip(";")
        return Leaf(spec=spec, writer="library", name="planted", source=f"{head} {{\n{body}\n}}\n")

    return library


RELU = {
    "off by one": "for (long i = 0; i + 1 < Y.n[0]; ++i) Y(i) = X(i) > 0 || X(i) != X(i) ? X(i) : 0;",
    "skipped tail": "for (long i = 0; i < Y.n[0] / 8 * 8; ++i) "
    "Y(i) = X(i) > 0 || X(i) != X(i) ? X(i) : 0;",
    "swallowed NaN": "for (long i = 0; i < Y.n[0]; ++i) Y(i) = X(i) > 0 ? X(i) : 0;",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("bug", RELU)
def test_a_bug_in_a_leaf_names_the_leaf(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    plant(monkeypatch, library=by_hand("relu_leaf", RELU[bug]))
    found = run("relu", N=1003)
    assert found["culprit"]["kind"] == "leaf"  # type: ignore[index]
    assert "relu_leaf" in found["culprit"]["name"]  # type: ignore[index]


@pytest.mark.wider
def test_a_wrong_accumulation_names_the_leaf(monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "for (long i = 0; i < C.n[0]; ++i) for (long j = 0; j < C.n[1]; ++j) C(i, j) = C(i, j) + 1;"
    )
    plant(monkeypatch, library=by_hand("mma", body))
    found = run("gemm", M=20, N=20, K=40)
    assert found["culprit"]["kind"] == "leaf"  # type: ignore[index]
    assert "mma" in found["culprit"]["name"]  # type: ignore[index]


def drop_copies_in(program: Program) -> Program:
    """Forget every copy from a parameter (a planted pass)."""
    names = {p.buffer.name for p in program.params}
    if program.name.startswith("leaf_"):  # the bug is in the kernel only, not in leaves alone
        return program

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(s for s in body if not (isinstance(s, Copy) and s.src.buffer.name in names))

    return replace(program, body=map_bodies(program.body, change))


def stop_early(program: Program) -> Program:
    """Run every sequential loop one time too few (a planted pass)."""

    def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            replace(s, extent=s.extent - 1) if isinstance(s, For) and not s.parallel else s
            for s in body
        )

    return replace(program, body=map_bodies(program.body, change))


@pytest.mark.wider
@pytest.mark.parametrize("bug", [pytest.param(drop_copies_in, marks=pytest.mark.wider), stop_early])
def test_a_bug_in_a_pass_names_the_pass(
    monkeypatch: pytest.MonkeyPatch, bug: Callable[[Program], Program]
) -> None:
    plant(monkeypatch, passes=(*cpp.CPP.passes, ("planted", bug)))
    found = run("gemm", M=20, N=20, K=600)
    assert found["culprit"]["kind"] == "pass"  # type: ignore[index]
    assert found["culprit"]["name"] == "planted"  # type: ignore[index]


@pytest.mark.wider
def test_a_bug_in_the_emitter_names_the_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    def emit(program: Program, leaves: object) -> Kernel:
        kernel = cpp.emit(program, leaves)  # type: ignore[arg-type]
        if program.name.startswith("leaf_"):
            return kernel
        text = kernel.source
        at = text.index('extern "C"')
        assert "args[0]" in text[at:] and "args[1]" in text[at:]
        swapped = text[at:].replace("args[1]", "args[#]").replace("args[2]", "args[1]")
        return kernel.with_files({kernel.main: text[:at] + swapped.replace("args[#]", "args[2]")})

    plant(monkeypatch, print_kernel=emit)
    found = run("gemm", M=24, N=24, K=24)
    assert found["culprit"]["kind"] == "emitter"  # type: ignore[index]


@pytest.mark.wider
def test_a_kernel_out_of_time_convicts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter of the target may be slow with large dims; the emitter was named for that."""

    def emit(program: Program, leaves: object) -> Kernel:
        kernel = cpp.emit(program, leaves)  # type: ignore[arg-type]
        if (
            program.name != "gemm"
        ):  # leaves alone, and the kernel that is tried when one did not work
            return kernel
        at = kernel.source.index("{", kernel.source.rindex('extern "C"')) + 1
        endless = " volatile int more = 1; while (more) {} "
        return kernel.with_files({kernel.main: kernel.source[:at] + endless + kernel.source[at:]})

    plant(monkeypatch, print_kernel=emit)
    request = GenRequest(op="gemm", backend="cpp", dims={"M": 24, "N": 24, "K": 24})
    hasty = replace(load(), run_timeout_s=2.0)
    result = gen(request, settings=hasty, progress=lambda text: None)
    assert result.data["status"] == "TIMEOUT"
    assert result.data["culprit"]["kind"] == "limit"


def test_a_wrong_logic_names_the_task(tmp_path: Path) -> None:
    source = Path(cpp.__file__).parents[2] / "ops" / "transpose.py"
    (tmp_path / "wrong.py").write_text(
        source.read_text().replace("lambda X: X.T.contiguous()", "lambda X: 2 * X.T.contiguous()")
    )
    request = GenRequest(op=None, logic=tmp_path / "wrong.py", backend="cpp", dims={"M": 9, "N": 7})
    result = gen(request, settings=load(), progress=lambda text: None)
    assert result.exit_code == 1
    assert result.data["culprit"]["kind"] == "logic"


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("lambda X: torch.where(X > 0, X, torch.zeros_like(X))", "nan"),
        ("lambda X: 1.001 * X.clamp(min=0.0)", "reference"),
    ],
)
def test_blame_is_sought_on_the_inputs_that_failed(
    tmp_path: Path, reference: str, told: str
) -> None:
    """A reference that swallows NaN, or is off by a tenth of a percent, was told as a bug of the emitter."""
    (tmp_path / "mine.py").write_text(MINE.replace("REFERENCE", reference))
    request = GenRequest(op=None, logic=tmp_path / "mine.py", backend="cpp")
    result = gen(request, settings=load(), progress=lambda text: None)
    assert result.exit_code == 1
    assert result.data["culprit"]["kind"] == "logic"
    assert result.data["worst"]["case"] in result.data["culprit"]["why"]
    assert told in result.data["culprit"]["why"]


MINE = """
import task_lang as task
from septran.reference import Reference, torch

@task.define(leaf=True)
def positive(Y, X):
    task.call_primitive("map", Y, expr="max(x, 0.0)", x=X)

@task.define
def entry(Y, X):
    yb, xb = (task.partition(t, by="blocks", shape=(task.tunable("b"),)) for t in (Y, X))
    for i in task.parallel_range(yb.shape[0]):
        task.launch(positive, yb[i], xb[i])

OPERATORS = (
    task.Operator(
        name="positive", about="", entry=entry, tensors={"Y": "N", "X": "N"}, outputs=("Y",),
        dims={"N": 1003}, odd_dims=(), reference=Reference(fn=REFERENCE, kind="elementwise"),
    ),
)
"""


def test_a_pass_that_breaks_the_rules_is_a_bug_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def unallocated(program: Program) -> Program:
        from septran.ir.nodes import Alloc

        def change(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
            return tuple(s for s in body if not isinstance(s, Alloc))

        return replace(program, body=map_bodies(program.body, change))

    plant(monkeypatch, passes=(*cpp.CPP.passes, ("planted", unallocated)))
    with pytest.raises(InternalError, match="after planted"):
        run("gemm", M=20, N=20, K=40)
