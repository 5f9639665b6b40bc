"""`septran judge`: files from tutorials as they are, mistakes that people report, files that cannot be judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran import settings
from septran.backends.text.python_host import needed
from septran.backends.tilelang.foreign import host as tilelang_host
from septran.backends.triton.foreign import hosts as hosts_of
from septran.cli.main import main
from septran.cli.values import parse_numbers
from septran.errors import ConfigError
from septran.outcome import Level
from septran.run.judge import judge
from septran.run.judgement import Judgement, JudgeRequest
from tests.judge.corpus import BUGS, HERE, HONEST, REFERENCES, Bug, Honest

QUICK = (
    "inline add: the check is off by one",
    "add: blocks overlap",
    "C++ add: the wrong stride",
    "CUDA add: the check is off by one",
    "C++ sum: no reduction clause",
    "TileLang waited: no wait",
)


def judged(case: Honest | Bug, folder: Path) -> Judgement:
    honest = case.honest if isinstance(case, Bug) else case
    file = folder / honest.file
    file.write_text(case.text(), encoding="utf-8")
    request = JudgeRequest(
        file=file,
        reference=REFERENCES / honest.reference,
        entry=honest.entry,
        numbers=honest.numbers,
    )
    return judge(request, settings=settings.load())


def test_a_tutorial_as_it_is(capsys):
    file, reference = HERE / "tutorial_add.py", REFERENCES / "vector_add.py"
    code = main(["judge", str(file), "--reference", str(reference), "--json"])
    out, told = capsys.readouterr()
    found = json.loads(out)
    assert [line for line in told.splitlines() if not line.startswith("still ")] == [
        "building tutorial_add.py",
        "running it on secret inputs",
        "looking for what few inputs, sizes and machines show",
        "proving what holds for all of them",
        "asking its compiler",
    ]
    assert (code, found["schema"], found["level"]) == (0, "septran.judge/1", "accurate")
    assert (found["entry"], found["backend"]) == ("add", "triton_cuda")
    assert found["left_out"][-1].startswith("lines "), "the demonstration was not run"
    assert found["compiler"].startswith("Triton ")
    assert not any(text.startswith("compile for a GPU") for text in found["not_checked"])
    assert found["proved"] == ["bounds", "races"]
    assert found["verdict"]["schema"] == "septran.verdict/1"


@pytest.mark.wider
def test_a_tilelang_tutorial_as_it_is(capsys):
    """Sizes come from the reference's shapes, blocks from the file's own demonstration, which does not run."""
    file, reference = HERE / "tutorial_tilelang.py", REFERENCES / "matmul_half.py"
    code = main(
        [
            "judge",
            str(file),
            "--reference",
            str(reference),
            "--entry",
            "matmul",
            "--json",
            "--quiet",
        ]
    )
    out, told = capsys.readouterr()
    found = json.loads(out)
    assert told == ""
    assert (code, found["level"], found["backend"]) == (0, "accurate", "tilelang_cuda")
    assert "guard pages" in found["verdict"]["enforced"]
    assert any(text.startswith("compile for a GPU") for text in found["not_checked"])


@pytest.mark.slow
def test_what_the_tilelang_emulator_lacks_is_said_and_nobody_accused(tmp_path):
    text = (HERE / "tutorial_tilelang.py").read_text()
    file = tmp_path / "warps.py"
    file.write_text(
        text.replace("T.clear(C_local)", "T.clear(C_local)\n            T.cluster_sync()")
    )
    request = JudgeRequest(file=file, reference=REFERENCES / "matmul_half.py", entry="matmul")
    found = judge(request, settings=settings.load())
    assert (found.code, found.finding, found.verdict.code) == (3, "", "V217")
    assert "cluster_sync is unknown to this emulator" in found.verdict.message


@pytest.mark.few(1)
@pytest.mark.parametrize("name", QUICK)
def test_a_mistake_is_named(name, tmp_path):
    bug = next(b for b in BUGS if b.name == name)
    found = judged(bug, tmp_path)
    assert found.finding in bug.findings, found.verdict.message
    assert found.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda b: b.name)
def test_every_mistake_is_found(bug, tmp_path):
    found = judged(bug, tmp_path)
    assert found.finding in bug.findings, f"{found.finding}: {found.verdict.message}"
    assert not bug.code or found.verdict.code == bug.code, found.verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("honest", HONEST, ids=lambda h: h.name)
def test_no_honest_kernel_is_accused(honest, tmp_path):
    found = judged(honest, tmp_path)
    assert found.verdict.level is Level.ACCURATE, found.verdict.message
    assert found.proof.proved == honest.proved, found.proof.not_proven
    assert all(honest.why in why for why in found.proof.not_proven.values())


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("import triton\n", "C170", "no function launches"),
        ("import triton\ndef (", "C170", "invalid syntax"),
        ("import numpy\n", "C170", "cannot be told"),
        ("from torch.utils.cpp_extension import load\n", "C173", "judge the .cu file"),
        ("import tilelang\n", "C170", "no function launches"),
        (
            "import tilelang\n@tilelang.jit\ndef f(n, block):\n    @T.prim_func\n"
            "    def g(A: T.Tensor((n,)), B: T.Tensor((n,)), C: T.Tensor((n,))):\n        pass\n    return g\n",
            "C172",
            "f wants block",
        ),
        (
            "import triton\ndef a(x):\n    k[1](x)\ndef b(x):\n    k[1](x)\n",
            "C170",
            "2 functions launch",
        ),
        ("import triton\ndef f(x, y, z, w, v):\n    k[1](x)\n", "C172", "f(x, y, z, w, v)"),
    ],
)
def test_a_file_that_cannot_be_judged_says_why(text, code, word, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(text)
    request = JudgeRequest(file=file, reference=REFERENCES / "vector_add.py")
    with pytest.raises(ConfigError) as error:
        judge(request, settings=settings.load())
    assert error.value.codes == (code,)
    assert word in str(error.value)


@pytest.mark.parametrize("missing", ["kernel", "reference"])
def test_a_file_that_is_not_there_is_named_once(missing, tmp_path, septran_said):
    there = tmp_path / "there.py"
    there.write_text("import triton\n@triton.jit\ndef k(): pass\ndef f(x, y):\n    k[1](x)\n")
    gone = tmp_path / "gone.py"
    kernel, reference = (gone, there) if missing == "kernel" else (there, gone)
    code, err = septran_said("judge", str(kernel), "--reference", str(reference))
    assert code == 2
    said = err.splitlines()[0]
    assert said.count("gone.py") == 1
    assert "No such file or directory" in said
    assert "Errno" not in err


@pytest.fixture
def septran_said(capsys):
    def call(*words):
        capsys.readouterr()
        code = main(list(words))
        return code, capsys.readouterr().err

    return call


MODULE = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, factor * tl.load(x_ptr + at, mask=at < n), mask=at < n)

class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        out = torch.empty_like(x)
        _scale[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), self.factor, BLOCK=128)
        return RETURNED
"""
SCALED = """
import torch
from torch import nn
FACTOR = 2.5
class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        MORE
    def forward(self, x):
        return self.factor * x
def get_inputs():
    return [torch.randn(333)]
def get_init_inputs():
    return [FACTOR]
"""


def module(folder: Path, returned: str = "out", more: str = "") -> Judgement:
    file, reference = folder / "new.py", folder / "model.py"
    file.write_text(MODULE.replace("RETURNED", returned), encoding="utf-8")
    reference.write_text(SCALED.replace("MORE", more), encoding="utf-8")
    return judge(JudgeRequest(file=file, reference=reference), settings=settings.load())


@pytest.mark.slow
def test_a_module_that_a_benchmark_asks_for_is_judged_as_it_is(tmp_path):
    found = module(tmp_path)
    assert (found.entry, found.verdict.level) == ("ModelNew", Level.ACCURATE), found.verdict.message
    assert found.proof.proved == ("bounds", "races")
    cheat = module(tmp_path, returned="self.factor * x")
    assert cheat.finding == "cheat" and "torch's mul" in cheat.verdict.message


WEIGHTS = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _row(x_ptr, w_ptr, b_ptr, out_ptr, n, k, BLOCK: tl.constexpr):
    row, col = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * k + at, mask=at < k, other=0.0)
    w = tl.load(w_ptr + col * k + at, mask=at < k, other=0.0)
    tl.store(out_ptr + row * n + col, tl.sum(x * w) + tl.load(b_ptr + col))

class ModelNew(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.NAME = nn.Linear(k, n)
        KEPT

    def forward(self, x):
        held = self.NAME
        out = torch.empty(x.shape[0], held.bias.shape[0], device=x.device)
        _row[(x.shape[0], held.bias.shape[0])](x, held.weight, held.bias, out, held.bias.shape[0], x.shape[1], BLOCK=64)
        return RETURNED
"""
LINEAR = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, k, n):
        super().__init__()
        self.linear = nn.Linear(k, n)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.randn(7, 45)]
def get_init_inputs():
    return [45, 11]
"""


def with_weights(folder: Path, name="linear", kept="pass", returned="out") -> Judgement:
    file, reference = folder / "new.py", folder / "model.py"
    text = WEIGHTS.replace("NAME", name).replace("KEPT", kept).replace("RETURNED", returned)
    file.write_text(text, encoding="utf-8")
    reference.write_text(LINEAR, encoding="utf-8")
    return judge(JudgeRequest(file=file, reference=reference), settings=settings.load())


def test_a_module_with_weights_is_given_secret_ones(tmp_path):
    found = with_weights(tmp_path)
    assert (found.entry, found.verdict.level) == ("ModelNew", Level.ACCURATE), found.verdict.message


@pytest.mark.slow
def test_a_module_that_does_not_take_the_weights_is_told_why(tmp_path):
    other = with_weights(tmp_path, name="other")
    assert other.verdict.code == "V204"
    assert (
        "linear.weight is none of the module's: other.weight, other.bias" in other.verdict.message
    )
    kept = with_weights(tmp_path, kept="self.turned = self.linear.weight.t()")
    assert kept.verdict.code == "V217" and "turned" in kept.verdict.message
    cheat = with_weights(tmp_path, returned="held(x)")
    assert cheat.finding == "cheat", cheat.verdict.message


def test_a_count_is_not_guessed_where_tensors_differ(tmp_path):
    file = tmp_path / "kernel.cpp"
    file.write_text("void total(const float* x, float* out, int n) { out[0] = x[n - 1]; }\n")
    request = JudgeRequest(file=file, reference=REFERENCES / "row_sums.py")
    with pytest.raises(ConfigError) as error:
        judge(request, settings=settings.load())
    assert error.value.codes == ("C172",)
    assert "--number n=" in str(error.value)


def test_what_a_script_does_is_left_out_whatever_it_names():
    """The guard's names are often those of the host function's parameters: it was kept, and refused for asking its name."""
    text = """
B = 2
C = 3
E = 5
def g(x, a=B):
    global C
    h = lambda d: d + E
    try:
        return h(x) + a
    except ValueError as error:
        raise error from None
if __name__ == "__main__":
    x = g(3); a = 7; d = 2; h = 1; error = 2
"""
    kept, left = needed(text, "g")
    assert "__main__" not in kept and left == ("lines 12-13",)
    assert all(f"{name} = {n}\n" in kept for name, n in (("B", 2), ("C", 3), ("E", 5)))


def test_what_a_script_binds_of_the_module_is_kept():
    """A file that is another one when it runs as a script is not judged without that."""
    kept, left = needed("def g(x):\n    return x\nif __name__ == '__main__':\n    g = None\n", "g")
    assert "__main__" in kept and not left


APPLIED = """
class _Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y=None):
        kernel[(1,)](x, y)
class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x
add, plain = 1, 2
add = _Add.apply
plain = _Plain.apply
"""


def test_what_an_autograd_function_applies_is_a_host_function():
    assert [h.name for h in hosts_of(APPLIED)] == ["add"]
    assert [(p.name, p.default) for p in hosts_of(APPLIED)[0].params] == [("x", False), ("y", True)]
    called = APPLIED + "def total(a):\n    return _Add.apply(a, a)\n"
    assert [h.name for h in hosts_of(called)] == ["total"], "it is part of that function"
    alone = APPLIED.replace("add = _Add.apply", "")
    assert [h.name for h in hosts_of(alone)] == ["_Add"], "users call its apply"
    assert [p.name for p in hosts_of(alone)[0].params] == ["x", "y"]


AUTOGRAD = """
import torch
import triton
import triton.language as tl

@triton.jit
def twice(x_ptr, o_ptr, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, block=128):
        o = torch.empty_like(x)
        twice[(triton.cdiv(x.numel(), block),)](x, o, x.numel(), B=block)
        return o
"""


@pytest.mark.slow
def test_an_autograd_function_itself_is_called_as_its_users_do(tmp_path):
    (tmp_path / "twice.py").write_text(AUTOGRAD)
    (tmp_path / "wanted.py").write_text(
        "import torch\ndef reference(x): return x * 2\ndef get_inputs(): return [torch.randn(300)]\n"
    )
    for entry, block in (("", 64), ("Twice", 256)):
        request = JudgeRequest(
            file=tmp_path / "twice.py",
            reference=tmp_path / "wanted.py",
            entry=entry,
            numbers={"block": block},
        )
        found = judge(request, settings=settings.load())
        assert (found.code, found.entry) == (0, "Twice"), found.verdict.message
    (tmp_path / "twice.py").write_text(AUTOGRAD.replace("* 2, mask", "* 3, mask"))
    assert judge(request, settings=settings.load()).finding == "wrong"


SHOWN = """
import tilelang
def make(M, N, block, threads, dtype="float16", causal=False):
    shape = [M, N]
    @T.prim_func
    def main(A: T.Tensor(shape, dtype)):
        pass
    return main
def demo(M=1024):
    N, block = 512, 64
    config = {"threads": 128, "dtype": "float32"}
    for threads in (1, 2):
        other = threads
    kernel = make(M, N, block, causal=True, **config)
"""


def test_a_factory_is_shown_values_through_names_and_written_dicts():
    found = tilelang_host(SHOWN, "make")
    assert found is not None and found.maker is not None
    assert found.maker.dims == (("M", "N"),), "extents are the reference's"
    shown = {"block": 64, "causal": True, "threads": 128, "dtype": "float32"}
    assert dict(found.maker.shown) == shown
    twice = SHOWN.replace("    for", "    block = 32\n    for")
    again = tilelang_host(twice, "make")
    assert again is not None and again.maker is not None
    assert "block" not in dict(again.maker.shown), "two values are none"


def test_a_number_may_be_true():
    assert parse_numbers(["causal=True", "k=1", "eps=1e-5"]) == {
        "causal": True,
        "k": 1,
        "eps": 1e-5,
    }
    assert parse_numbers(["causal=false"])["causal"] is False
