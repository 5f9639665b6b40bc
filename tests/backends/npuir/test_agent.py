"""A model writes leaves for tilelang_npuir: a scripted server, the real judge and simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import settings
from septran.plan.resolve import GenRequest
from septran.run.gen import gen
from tests.support.openai_double import Answer, ChatDouble

UNKNOWN = "T.vleaky(X, Y)"
UNINITIALISED = 't = T.alloc_ub([1, 100], "float32")\nT.vmax(t, 0.0, Y)'
WRONG = "T.vmin(X, 0.0, Y)"
RIGHT = "T.vmax(X, 0.0, Y)"
SCRATCH = 't = T.alloc_ub([1, 100], "float32")\nT.vmax(X, 0.0, t)\nT.copy(t, Y)'


def fenced(body: str) -> Answer:
    return Answer(f"```python\n{body}\n```")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No compiler but the dialect's check: the gates have their own tests."""
    monkeypatch.setattr("septran.backends.npuir.toolchain.ascend_target", lambda: "not asked")
    monkeypatch.setattr("septran.backends.npuir.toolchain.bishengir", lambda: None)
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "home"))


def written(
    double: ChatDouble, monkeypatch: pytest.MonkeyPatch, folder: Path, attempts: int
) -> dict:
    """Run gen; `accept: verified` because nothing is timed in the simulator."""
    config = folder / "agent.yaml"
    config.write_text("dsl: tilelang_npuir\naccept: verified\n", encoding="utf-8")
    monkeypatch.setenv("SEPTRAN_BASE_URL", double.base_url)
    monkeypatch.setenv("SEPTRAN_MODEL", double.model)
    request = GenRequest(
        op="relu",
        backend="tilelang_npuir",
        dims={"N": 100},
        writer="llm",
        leaves=("relu_leaf",),
        attempts=attempts,
        config=config,
    )
    found = gen(request, settings=settings.load(), progress=lambda _: None)
    return found.data | {"exit": found.exit_code}


def asked(double: ChatDouble, at: int) -> str:
    return "\n".join(str(m["content"]) for m in double.requests[at].body["messages"])


@pytest.mark.wider
def test_a_model_writes_a_leaf_after_three_refusals(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = [fenced(b) for b in (UNKNOWN, UNINITIALISED, WRONG, RIGHT, RIGHT, RIGHT)]
    with ChatDouble(lambda _: script[min(len(double.requests), len(script)) - 1]) as double:
        found = written(double, monkeypatch, tmp_path, 5)
    assert found["exit"] == 0 and found["level"] == "accurate", found
    (leaf,) = found["leaves"]
    assert leaf["writer"] == "llm" and leaf["name"] == double.model
    assert "T.vmax(X, 0.0, Y)" in Path(found["kernel"]).read_text(encoding="utf-8")
    first = asked(double, 0)
    assert "alloc_ub" in first and "T.macro" in first  # the dialect's own pages
    assert "T.vleaky is not part of a leaf; T.* known here: alloc_ub" in asked(double, 1)
    assert "uninitialised UB" in asked(double, 2)
    assert "expected" in asked(double, 3)


def test_a_leaf_with_scratch_is_hoisted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with ChatDouble(lambda _: fenced(SCRATCH)) as double:
        found = written(double, monkeypatch, tmp_path, 1)
    assert found["exit"] == 0, found
    assert found["leaves"][0]["writer"] == "llm"
    text = Path(found["kernel"]).read_text(encoding="utf-8")
    assert text.index("alloc_ub") > text.index("T.Kernel(")


@pytest.mark.few(2)
@pytest.mark.parametrize("reply", [UNKNOWN, WRONG, "import os\nos.system('id')", "no idea"])
def test_a_bad_leaf_leaves_the_library(
    reply: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ChatDouble(lambda _: fenced(reply)) as double:
        found = written(double, monkeypatch, tmp_path, 2)
    assert found["exit"] == 0 and found["leaves"][0]["writer"] == "library", found
