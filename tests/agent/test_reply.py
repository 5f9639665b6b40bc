"""Replies as models really write them: what counts as the body, and why the rest does not."""

from __future__ import annotations

import json

import pytest

from septran.agent.frame import assemble, make_frame
from septran.agent.reply import clean, extract_body, extract_json, fences
from septran.environment.tasks import Asked, leaf_tasks
from tests.agent.leaves import BACKEND, GEMM, RELU, RIGHT

FRAME = make_frame(RELU, BACKEND, "body")
LOOPS = make_frame(RELU, BACKEND, "loops")
WHOLE = (
    f"static void {RELU.symbol}(st::View<float, 2> Y, st::View<const float, 2> X) {{\n{RIGHT}}}\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"```cpp\n{RIGHT}```",
        f"```c++\n{RIGHT}```",
        f"```\n{RIGHT}```",
        f"~~~cpp\n{RIGHT}~~~",
        f"````cpp\n{RIGHT}````",
        f"Sure! Here it is:\n\n```cpp\n{RIGHT}```\n\nI hope this helps. PASS",
        f"```cpp\nfirst draft;\n```\nBetter:\n```cpp\n{RIGHT}```",
        f"```text\nan explanation\n```\n```cpp\n{RIGHT}```\n```text\noutput\n```",
        f"```cpp\n{RIGHT}",
        RIGHT,
        "\ufeff```cpp\r\n" + RIGHT.replace("\n", "\r\n") + "```",
        f"<think>\n```cpp\nwrong();\n```\n</think>\n```cpp\n{RIGHT}```",
        "still thinking ```cpp\nwrong();\n``` </think>```\n".replace("```\n", "\n")
        + f"```cpp\n{RIGHT}```",
        "1. do this:\n   ```cpp\n" + RIGHT.replace("\n", "\n   ") + "\n   ```",
        f"```cpp\n{WHOLE}```",
        f"```cpp\n#include <cmath>\n{WHOLE}```",
        f"```cpp\n#include <cmath>\n# include <bits/stdc++.h>\n{RIGHT}```",
        f"```cpp\n{WHOLE.replace(RELU.symbol, 'relu')}```",
        f"```cpp\nstruct Relu {{ {WHOLE.replace(RELU.symbol, 'operator()')} }};\n```",
        json.dumps({"code": RIGHT}),
        f"```json\n{json.dumps({'explanation': 'fast', 'body': RIGHT})}\n```",
        json.dumps({"name": "submit", "arguments": json.dumps({"code": f"```cpp\n{RIGHT}```"})}),
        "```diff\n--- a/leaf.cpp\n+++ b/leaf.cpp\n@@ -1 +1,9 @@\n-// YOUR CODE\n"
        + "".join(f"+{line}\n" for line in RIGHT.splitlines())
        + "```",
    ],
)
def test_the_body_is_found(text: str) -> None:
    found = extract_body(text, FRAME, RELU)
    assert found.problem == ""
    lines = [line.strip() for line in found.body.splitlines() if line.strip()]
    assert lines == [line.strip() for line in RIGHT.splitlines()]


def test_what_is_declared_in_front_of_the_function_goes_along() -> None:
    front = (
        "#include <cmath>\nusing V = st::f32v;  // a vector\nstatic inline constexpr long L =\n    st::lanes<V>;\n"
        "constexpr float T[2] = {1, 2};\n// using Q = float;\nstatic float helper(float x) {\n    const float y = x;\n    return y;\n}\n"
    )
    found = extract_body(f"```cpp\n{front}{WHOLE}```", FRAME, RELU)
    declared = "using V = st::f32v;\nstatic constexpr long L =\n    st::lanes<V>;\nconstexpr float T[2] = {1, 2};\n"
    assert found.problem == ""
    assert found.body.startswith(declared)
    assert "helper" not in found.body
    assert "Q" not in found.body
    assert found.body.endswith(extract_body(f"```cpp\n{WHOLE}```", FRAME, RELU).body)


def test_functions_in_front_that_the_leaf_calls_become_lambdas() -> None:
    front = (
        "template <class T> T other(T x) { return x; }\n__device__ __forceinline__ float low(float x) { return x < 0 ? 0 : x; }\n"
        "static inline void put(float& y, const float x) {\n    y = low(x);  // {\n}\nint main() { return system(1); }\n"
    )
    whole = WHOLE.replace(RIGHT, "    put(Y(0, 0), X(0, 0));\n")
    found = extract_body(f"```cpp\n{front}{whole}```", FRAME, RELU)
    assert found.problem == ""
    assert found.body.splitlines()[:2] == [
        "const auto low = [&](float x) -> float { return x < 0 ? 0 : x; };",
        "const auto put = [&](float& y, const float x) -> void {",
    ]
    assert "main" not in found.body
    assert "other" not in found.body
    assert "low(x)" in assemble(FRAME, found.body, RELU, "", "llm").source


def test_constants_in_front_of_a_python_function_go_along() -> None:
    (task,) = leaf_tasks(Asked(op="relu", backend="triton_cuda", dims={"N": 64}))
    frame = make_frame(task.spec, task.plan.backend, "body")
    text = frame.text.replace("@@BODY@@", "Y = X * SCALE\n    return Y")
    front = "import triton.language as tl\n\nSCALE = 2.0\nROWS, COLS = 4, 8\n\n\ndef other(x):\n    y = 1\n"
    found = extract_body(f"```python\n{front}\n{text}\nLATER = 1\n```", frame, task.spec)
    lines = found.body.splitlines()
    assert lines[:2] == ["SCALE = 2.0", "ROWS, COLS = 4, 8"]
    assert lines[2:] == ["Y = X * SCALE", "return Y"]
    bare = extract_body(
        "```python\nimport os\nfrom a import b\n\nY = X\nreturn Y\n```", frame, task.spec
    )
    assert bare.body.strip().splitlines() == ["Y = X", "return Y"]
    used = extract_body("```python\nimport os\nos.system(1)\n```", frame, task.spec)
    assert ".system is not part of a leaf" in used.problem


def test_a_name_of_the_examples_is_told_with_its_line() -> None:
    found = extract_body("```cpp\nV x = {};\n```", FRAME, RELU)
    assert "`using V = st::f32v;`: write it into the leaf" in found.problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no code block"),
        ("I will not do that.", "no code block"),
        ("```cpp\n```", "no code block"),
        ("```cpp\n// only a comment\n```", "empty"),
        ("```python\nprint('PASS')\n```", "tagged 'python'"),
        ("```cpp\n}\nvoid evil() {\n```", "leaves the function"),
        ("```cpp\nfor (;;) {\n```", "not closed"),
        ('```cpp\n#include "/etc/passwd"\n```', "outside a comment"),
        ("```cpp\n#define float int\n```", "headers and macros are generated"),
        ('```cpp\nasm volatile("nop");\n```', "without text"),
        ("```cpp\nsystem(7);\n```", "system is neither declared"),
        ("```cpp\nfloat* p = new float[9];\n```", "use a local array"),
        ("```cpp\nprintf(X);\n```", "printf is neither declared"),
        ("```cpp\nint x __attribute__((constructor));\n```", "expected ;"),
        (f"```cpp\nstatic void {RELU.symbol}(int a) {{ for (;;) {{\n```", "no complete body"),
        ("```cpp\n" + "x = 1;\n" * 20_000 + "```", "characters"),
        ("<think>\n```cpp\nY(0, 0) = 1;\n```", "no code block"),
    ],
)
def test_what_is_not_a_body(text: str, problem: str) -> None:
    found = extract_body(text, FRAME, RELU)
    assert found.body == ""
    assert problem in found.problem


def test_forbidden_words_in_comments_and_strings_are_harmless() -> None:
    body = "// printf( and system( are not used; #include is not either }\nY(0, 0) = 1;\n"
    assert extract_body(f"```cpp\n{body}```", FRAME, RELU).problem == ""


def test_typographic_quotes_and_invisible_characters() -> None:
    text = "```cpp\nY(0, 0)\u200b = 1 \u2212 1;  // \u2018a\u2019\n```"
    assert extract_body(text, FRAME, RELU).body == "Y(0, 0) = 1 - 1;  // 'a'\n"


def test_loops_frame_takes_the_hole_out_of_a_repeated_frame() -> None:
    inner = "Y(i, j) = x < 0 ? 0 : x;\n"
    assert extract_body(f"```cpp\n{inner}```", LOOPS, RELU).body == inner
    repeated = LOOPS.fill(inner)
    found = extract_body(f"```cpp\n{repeated}```", LOOPS, RELU)
    assert found.body.strip() == inner.strip()


def test_loops_frame_takes_its_own_declarations_only_once() -> None:
    inner = "Y(i, j) = x < 0 ? 0 : x;\n"
    again = "const float x = float(X(i, j));\n"
    assert again.strip() in LOOPS.text
    assert extract_body(f"```cpp\n{again}{inner}```", LOOPS, RELU).body == inner
    other = "const float x = float(X(i, 0));\n"
    assert extract_body(f"```cpp\n{other}{inner}```", LOOPS, RELU).body == other + inner


def test_loops_frame_takes_a_whole_function_as_its_own_body() -> None:
    found = extract_body(f"```cpp\n{WHOLE}```", LOOPS, RELU)
    leaf = assemble(LOOPS, found.body, RELU, "llm", "m")
    assert leaf.source.count("for (") == 2
    assert leaf.source.startswith(BACKEND.signature(RELU))
    assert "const auto max =" in leaf.source, "the frame's functions are there too"


def test_assembled_leaf_keeps_the_generated_signature() -> None:
    leaf = assemble(FRAME, RIGHT, RELU, "llm", "m")
    assert leaf.source.startswith(BACKEND.signature(RELU))
    assert leaf.source.count("{") == leaf.source.count("}")


def test_frames_with_loops() -> None:
    assert "const float x = float(X(i, j));" in LOOPS.text
    gemm = make_frame(GEMM, BACKEND, "loops").text
    assert "float sum = float(C(i, j));" in gemm
    assert "A(i, k)" in gemm
    assert "B(k, j)" in gemm


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"action": "stop"}', {"action": "stop"}),
        (
            'Sure:\n```json\n{"action": "repair", "advice": "x"}\n```',
            {"action": "repair", "advice": "x"},
        ),
        ('<think>{"action": "stop"}</think>{"action": "repair"}', {"action": "repair"}),
        ('{not json} {"a": {"b": 1}} trailing', {"a": {"b": 1}}),
        ("[1, 2]", None),
        ("nothing", None),
        ("{" * 50, None),
    ],
)
def test_json(text: str, value: object) -> None:
    assert extract_json(text) == value


def test_a_function_with_other_parameters_is_asked_for_again() -> None:
    other = WHOLE.replace(RELU.symbol, "relu").replace("> Y,", "> out,")
    assert extract_body(f"```cpp\n{other}```", FRAME, RELU).problem == (
        "the reply defines relu(out, X), the leaf has the parameters (Y, X): write its body alone, with these names"
    )


def test_a_python_function_of_another_name_is_the_leafs_where_its_parameters_are() -> None:
    (task,) = leaf_tasks(Asked(op="relu", backend="triton_cuda", dims={"N": 64}))
    frame, spec = make_frame(task.spec, task.plan.backend, "body"), task.spec
    head = next(line for line in frame.text.splitlines() if line.startswith("def "))
    code = head.replace(spec.symbol, "relu") + "\n    return tl.where(X < 0, 0.0, X)\n"
    found = extract_body(f"```python\nimport triton\n@triton.jit\n{code}```", frame, spec)
    assert (found.body, found.problem) == ("return tl.where(X < 0, 0.0, X)\n", "")
    other = code.replace("(X", "(x", 1)
    said = extract_body(f"```python\n{other}```", frame, spec).problem
    assert said.startswith("the reply defines relu(x") and "write its body alone" in said


def test_a_function_that_nests_without_end_is_left_to_the_gate() -> None:
    (task,) = leaf_tasks(Asked(op="relu", backend="triton_cuda", dims={"N": 64}))
    frame, spec = make_frame(task.spec, task.plan.backend, "body"), task.spec
    for name in (spec.symbol, "other"):
        code = f"def {name}(y, x):\n    y[:] = {'-' * 20_000}x\n"
        found = extract_body(f"```python\n{code}```", frame, spec)
        assert found.problem or "-" * 20_000 in found.body


def test_hostile_sizes_are_fast() -> None:
    for text in (
        "`" * 100_000,
        "```\n" * 30_000,
        "<think>" * 20_000,
        "{" * 20_000,
        "```\nvoid f" + "(" * 90_000,
        "```\n" + "void f() " * 9_000,
        "```\nvoid f(" + "<" * 90_000 + ">" * 90_000 + ") {",
        '{"code": ' * 9_000,
        "\u200b" * 200_000,
    ):
        extract_body(text, FRAME, RELU)
        extract_json(text)
        fences(clean(text))
