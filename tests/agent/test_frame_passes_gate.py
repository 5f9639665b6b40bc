"""What the agent assembles is a leaf that the gate has printed; a body outside the subset is refused with its line."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from septran.agent.frame import assemble, body_problem, make_frame
from septran.backends.cpp.emit import runtime_folder
from septran.ir.nodes import Prim
from septran.kernel import LeafSpec, leaf_specs
from septran.leafgate import Refusal, printed
from septran.plan.resolve import GenRequest, lower_plan, resolve
from tests.agent.leaves import BACKEND, GEMM, RELU, RIGHT, param, spec
from tests.backends.operators import all_operators


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


DECLARED = re.compile(r"\b(?:const )?(?:float|double|long) (\w+) = ")
NAMES = spec(
    "names",
    (
        param("value", (8, 64), "w", "bfloat16"),
        param("i", (8, 64), "r", "bfloat16"),
        param("l", (8, 1), "r"),
    ),
    Prim(
        name="map",
        out="value",
        named=(("i", "i"), ("l", "l"), ("e", "l")),
        attrs=(("expr", "max(i / l, 1.0e-3) + e"),),
    ),
)
PRODUCT = spec(
    "product",
    (param("sum", (32, 48), "rw"), param("a", (32, 16), "r"), param("k", (16, 48), "r")),
    Prim(name="gemm_acc", out="sum", ins=("a", "k")),
)


@pytest.mark.parametrize("one", [NAMES, PRODUCT])
def test_a_frame_hides_no_operand(one: LeafSpec) -> None:
    """Attention has a tensor l, and a frame that declared a number of that name could be filled by nobody."""
    text = make_frame(one, BACKEND, "loops").text
    assert not set(DECLARED.findall(text)) & {p.name for p in one.params}


def test_a_frame_whose_operands_have_its_names_computes_what_is_meant(tmp_path: Path) -> None:
    frame = make_frame(NAMES, BACKEND, "loops")
    assert "// assign value_: max(i_ / l_, 1.0e-3) + e\n" in frame.text
    leaf = assemble(frame, "value_ = max(i_ / l_, 1.0e-3f) + e;\n", NAMES, "llm", "m")
    assert compiles(leaf.source, tmp_path)
    wrong = assemble(frame, "value_ = max(i / l, 1.0e-3f) + e;\n", NAMES, "llm", "m")
    assert not compiles(wrong.source, tmp_path)
    product = make_frame(PRODUCT, BACKEND, "loops")
    leaf = assemble(product, "sum_ += a_ * b;\n", PRODUCT, "llm", "m")
    assert compiles(leaf.source, tmp_path)


def compiles(text: str, folder: Path) -> bool:
    source = folder / "leaf.cpp"
    parts = [(runtime_folder() / f"{n}.h").read_text() for n in ("view", "vec", "vmath")]
    source.write_text("\n".join([*parts, text]))
    command = ["g++", "-std=c++20", "-fsyntax-only", "-march=native"]
    return not subprocess.run([*command, str(source)], capture_output=True).returncode


def test_every_shipped_leaf_with_loops_can_be_filled() -> None:
    seen = 0
    for op in all_operators():
        asked = GenRequest(op=op, backend="cpp")
        for one in {s.key: s for _, s in leaf_specs(lower_plan(resolve(asked)).program)}.values():
            frame = make_frame(one, BACKEND, "loops")
            if frame.kind == "loops":
                seen += 1
                hidden = set(DECLARED.findall(frame.text)) & {p.name for p in one.params}
                assert not hidden, (op, one.task)
    assert seen > 15
