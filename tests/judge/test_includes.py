"""Files beside a judged file: read with it, gated with it, hashed with it, and nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.errors import ConfigError
from septran.run.judge import judge
from septran.run.judge_includes import with_includes
from septran.run.judgement import Judgement, JudgeRequest
from septran.settings import load

MAIN = """#include <cuda_runtime.h>
#include "scale.cuh"
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = twice(x[i]);
}
void solve(const float* x, float* y, int n) { scale<<<(n + 127) / 128, 128>>>(x, y, n); }
"""
GOOD = "#pragma once\n__device__ inline float twice(float x) {\n  return 2.0f * x;\n}\n"
REFERENCE = "import torch\n\ndef reference(x):\n    return 2 * x\n\ndef get_inputs():\n    return torch.rand(300)\n"


def judged(folder: Path, files: dict[str, str], main: str = "main.cu") -> Judgement:
    for name, text in {**files, "ref.py": REFERENCE}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    request = JudgeRequest(file=folder / main, reference=folder / "ref.py", seed=1)
    return judge(request, settings=load())


@pytest.mark.slow
def test_a_file_beside_it_is_judged_with_it(tmp_path: Path) -> None:
    right = judged(tmp_path / "right", {"main.cu": MAIN, "scale.cuh": GOOD})
    assert right.verdict.passed, right.verdict.message
    assert "bounds" in right.proof.proved and "races" in right.proof.proved
    wrong = judged(tmp_path / "wrong", {"main.cu": MAIN, "scale.cuh": GOOD.replace("2.0f", "2.1f")})
    assert wrong.finding and wrong.sha != right.sha


@pytest.mark.slow
def test_a_mistake_in_it_has_its_own_file_and_line(tmp_path: Path) -> None:
    files = {"main.cu": MAIN, "scale.cuh": GOOD.replace("return 2.0f", "return unknown")}
    found = judged(tmp_path, files).verdict
    assert "scale.cuh:3" in found.message, found.message
    files = {"main.cu": MAIN.replace("twice", "thrice"), "scale.cuh": GOOD}
    found = judged(tmp_path, files).verdict
    assert "main.cu:5" in found.message, found.message


@pytest.mark.slow
def test_what_it_says_is_gated_as_the_file_is(tmp_path: Path) -> None:
    files = {"main.cu": MAIN, "scale.cuh": GOOD + "#include <thrust/sort.h>\n"}
    with pytest.raises(ConfigError) as error:
        judged(tmp_path, files)
    assert error.value.codes == ("C173",)
    asks = '#include <cstdlib>\ninline int blocks(int n) { return (n + 127) / 128 + (getenv("X") != nullptr); }\n'
    main = MAIN.replace("(n + 127) / 128", "blocks(n)")
    found = judged(tmp_path, {"main.cu": main, "scale.cuh": GOOD + asks}).verdict
    assert found.code == "V217" and "getenv" in found.message, found.message


@pytest.mark.parametrize("how", ["above", "link", "folder"])
def test_a_file_from_elsewhere_is_refused(how: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.cuh"
    secret.write_text(GOOD)
    folder = tmp_path / "own"
    folder.mkdir()
    word = {"above": "../secret.cuh", "link": "scale.cuh", "folder": "below/secret.cuh"}[how]
    if how == "link":
        (folder / "scale.cuh").symlink_to(secret)
    if how == "folder":
        (folder / "below").symlink_to(tmp_path)
    with pytest.raises(ConfigError) as error:
        judged(folder, {"main.cu": MAIN.replace("scale.cuh", word)})
    assert error.value.codes == ("C173",)
    span = error.value.diagnostics[0].span
    assert span is not None and span.line == 2


def test_files_include_further_ones_and_each_once(tmp_path: Path) -> None:
    texts = {
        "main.cpp": '#include "a.h"\n#include "sub/b.h"\n// #include "c.h"\nconst char* t = R"(\n#include "c.h"\n)";\nint main_line;\n',
        "a.h": '#pragma once\n#include "sub/b.h"\nint a;',
        "sub/b.h": '#pragma once\n#include "d.h"\nint b;\n',
        "sub/d.h": "int d;\n",
        "c.h": "int c;\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    whole = with_includes(tmp_path / "main.cpp", texts["main.cpp"])
    assert [whole.text.count(f"int {n};") for n in "abcd"] == [1, 1, 0, 1]
    assert whole.files == ("a.h", "sub/b.h", "sub/d.h")
    at = whole.text.split("\n").index("int main_line;") + 1
    assert whole.said(f"main.cpp:{at}: here", "main.cpp") == "main.cpp:7: here"
    at = whole.text.split("\n").index("int d;") + 1
    assert whole.said(f"x at line {at}", "main.cpp") == "x at line 1 of sub/d.h"


def test_files_that_include_each_other_without_end(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#include "a.h"\n')
    with pytest.raises(ConfigError) as error:
        with_includes(tmp_path / "main.cpp", '#include "a.h"\n')
    assert error.value.codes == ("C173",)


def test_a_guard_ends_what_includes_itself(tmp_path: Path) -> None:
    (tmp_path / "a.h").write_text('#ifndef A\n#define A\n#include "b.h"\n#endif\n')
    (tmp_path / "b.h").write_text("int b;\n")
    text = '#include "a.h"\n#include "a.h"\n'
    assert with_includes(tmp_path / "m.cpp", text).text.count("#define A") == 2
