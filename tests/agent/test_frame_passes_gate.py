"""What the agent assembles is a leaf that the gate has printed; a body outside the subset is refused with its line."""

from __future__ import annotations

import pytest

from septran.agent.frame import assemble, body_problem, make_frame
from septran.leafgate import Refusal, printed
from tests.agent.leaves import BACKEND, GEMM, RELU, RIGHT


@pytest.mark.parametrize("kind", ["body", "loops"])
@pytest.mark.parametrize("spec", [RELU, GEMM])
def test_generated_frames_pass(spec: object, kind: str) -> None:
    frame = make_frame(spec, BACKEND, kind)  # type: ignore[arg-type]
    made = assemble(frame, "// nothing\n;\n", spec, "llm", "m")  # type: ignore[arg-type]
    signature = BACKEND.signature(spec)  # type: ignore[arg-type]
    assert printed(made, signature=signature, subset="cpp") == made


@pytest.mark.parametrize("line", ["static int calls = 0;", "static float f(5.0f);"])
def test_static_inside_is_refused_with_its_line(line: str) -> None:
    frame = make_frame(RELU, BACKEND, "body")
    assert body_problem(frame, f"{RIGHT}{line}").startswith(
        "not a leaf of this target: line 6 of the body: static"
    )
    with pytest.raises(Refusal, match="static without constexpr"):
        assemble(frame, f"{RIGHT}{line}", RELU, "llm", "m")


def test_comments_do_not_reach_the_compiler() -> None:
    made = assemble(make_frame(RELU, BACKEND, "body"), f"// it's \\\n{RIGHT}", RELU, "llm", "m")
    assert "\\" not in made.source
    assert "//" not in made.source
