"""What the agent assembles from an honest body passes the source gate; a dishonest body does not."""

from __future__ import annotations

import pytest

from septran.agent.frame import assemble, make_frame
from septran.verify.gate_source import scan_c_source
from tests.agent.leaves import BACKEND, GEMM, RELU, RIGHT


@pytest.mark.parametrize("kind", ["body", "loops"])
@pytest.mark.parametrize("leaf", [RELU, GEMM])
def test_generated_frames_pass(leaf: object, kind: str) -> None:
    frame = make_frame(leaf, BACKEND, kind)  # type: ignore[arg-type]
    made = assemble(frame, "// nothing\n;\n", RELU, "llm", "m")
    assert scan_c_source(made.source, name="m") == []


@pytest.mark.parametrize("line", ["static int calls = 0;", "static float f(5.0f);"])
def test_static_inside_is_still_refused(line: str) -> None:
    frame = make_frame(RELU, BACKEND, "body")
    made = assemble(frame, f"{line}\n{RIGHT}", RELU, "llm", "m")
    assert [f.what for f in scan_c_source(made.source, name="m")] == ["uses static"]
