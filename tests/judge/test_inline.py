"""Files whose kernels are CUDA inside Python (`load_inline`): what is read of them, and what is refused with its line."""

from __future__ import annotations

import json

import pytest

from septran import settings
from septran.backends.base import Unjudged
from septran.backends.cuda.inline import FOREIGN, hosts
from septran.backends.judged.inline_text import extension
from septran.cli.main import main
from septran.errors import ConfigError
from septran.plan.wanted import load_wanted
from septran.run.host_call import host_call
from septran.run.judge import judge
from septran.run.judgement import JudgeRequest
from tests.judge.corpus import HERE, REFERENCES

ADD = (HERE / "inline_add.py").read_text(encoding="utf-8")
TWO = HERE / "inline_two.py"
CALL = "self.elementwise_add.add_cuda(a, b)"


def refused(text, folder):
    file = folder / "answer.py"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        request = JudgeRequest(file=file, reference=REFERENCES / "inline_add.py")
        judge(request, settings=settings.load())
    assert error.value.codes == ("C173",)
    return str(error.value)


def test_the_sources_are_read_and_nothing_is_run():
    read = extension(f"raise SystemExit('it ran')\n{ADD}")
    assert read.offered == {"add_cuda": "add_cuda"}
    assert "__global__ void add_kernel" in read.text and "import" not in read.text
    assert read.text.count("#line") == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("inline_add", "a[idx] + b[idx]", "a[idx] + oops"),
        ("tutorial_add", "x + y", "x + oops"),
    ],
)
def test_what_a_compiler_or_interpreter_says_names_the_users_file_and_line(
    name, right, wrong, tmp_path
):
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    assert right in text
    line = 1 + text[: text.index(right)].count("\n")
    file = tmp_path / "mine.py"
    file.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    request = JudgeRequest(file=file, reference=REFERENCES / "inline_add.py")
    verdict = judge(request, settings=settings.load()).verdict
    assert not verdict.passed
    assert f"mine.py:{line}" in verdict.message
    assert "judged_kernel" not in verdict.message


@pytest.mark.parametrize(
    "change",
    [
        ("source = ", "source = '' + "),
        ("cuda_sources=source", "cuda_sources=[source]"),
        ('functions=["add_cuda"]', 'functions={"add_cuda": "adds"}'),
        ('functions=["add_cuda"]', 'functions="add_cuda"'),
        ("cuda_sources=source", 'cuda_sources=f"{source}"'),
    ],
)
def test_sources_may_be_said_in_other_ways(change):
    read = extension(ADD.replace(*change))
    assert read.offered == {"add_cuda": "add_cuda"} and "add_kernel<<<" in read.text


def test_without_a_module_the_functions_that_are_offered_are_entries():
    assert [h.name for h in hosts(ADD[: ADD.index("class ModelNew")])] == ["add_cuda"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (("cuda_sources=source", "cuda_sources=open('k.cu').read()"), "not written out"),
        (("return out;", "return torch::add(a, b);"), "torch::add of torch's own library"),
        (("#include <cuda_runtime.h>", "#include <thrust/sort.h>"), "a CUDA C++ library"),
    ],
)
def test_what_is_not_judged_is_refused_with_its_reason(change, word, tmp_path):
    assert ADD.count(change[0]) == 1
    assert word in refused(ADD.replace(*change), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (CALL, f"torch.relu({CALL})", "`torch.relu("),
        (CALL, f"a + {CALL}", "arithmetic on tensors"),
        (CALL, "self.elementwise_add.add_cuda(a, self.weight)", "no weight of the reference"),
        (f"return {CALL}", f"for _ in range(2):\n            a = {CALL}", "for _ in range(2):"),
    ],
)
def test_python_that_does_more_than_call_is_not_read_but_run(old, new, word):
    text = ADD.replace(old, new)
    wanted = load_wanted(REFERENCES / "inline_add.py", specials=False)
    host = FOREIGN.host(text, "ModelNew")
    call = host_call(host, wanted, {}, file=HERE / "inline_add.py")
    with pytest.raises(Unjudged) as error:
        FOREIGN.kernel(text, call, wanted.problem.params, "sm_90a")
    assert word in error.value.what
    kernel, _ = FOREIGN.otherwise.kernel(text, call, wanted.problem.params, "sm_90a")
    assert [name for name, _ in kernel.files] == ["judged_kernel.cu", "judged_kernel.py"]
    assert new.splitlines()[-1] in dict(kernel.files)["judged_kernel.py"]


def test_a_source_that_is_not_written_out_has_its_line():
    with pytest.raises(Unjudged) as error:
        extension("import os\nload_inline('x', '',\n  cuda_sources=os.environ['K'])\n")
    assert error.value.line == 3


@pytest.mark.slow
def test_two_extensions_in_one_file_with_flags(capsys):
    """Both have a kernel `k`; one needs a definition of its build, whose other flags are told."""
    reference = REFERENCES / "scaled_sum.py"
    code = main(["judge", str(TWO), "--reference", str(reference), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["level"], found["backend"]) == (0, "accurate", "cuda_c"), found["reason"]
    assert found["left_out"][-1] == "flags of its build, -arch=sm_80: judged without them"


def test_definitions_of_the_build_belong_to_their_extension():
    read = extension(TWO.read_text(encoding="utf-8"))
    assert read.offered == {"scale": "scale", "add2": "add2"}
    assert read.flags == ("-arch=sm_80",)
    first, _, second = read.text.partition("#undef BLOCK")
    assert "#define BLOCK 128" in first
    assert "#define k k_of_extension_1" in second
    assert second.rstrip().endswith("#undef k")
    assert "k_of_extension" not in first


def test_two_extensions_that_offer_the_same_name_are_refused_with_the_line():
    text = TWO.read_text(encoding="utf-8").replace('functions=["add2"]', 'functions=["scale"]')
    with pytest.raises(Unjudged) as error:
        extension(text)
    assert "both offer scale" in error.value.what
    assert error.value.line > 20
