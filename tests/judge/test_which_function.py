"""Which function of somebody's file is judged, and what a user may say of its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran.backends.judged.python_file import refusals
from septran.backends.text.python_host import any_function, needed
from septran.backends.tilelang.foreign import _RULES as RULES
from septran.backends.tilelang.foreign import host as tilelang_host
from septran.backends.tilelang.foreign import hosts as tilelang_hosts
from septran.cli.main import main
from septran.cli.values import parse_numbers
from septran.errors import ConfigError
from septran.run.judge_target import entry_of
from tests.judge.corpus import HERE, REFERENCES

EXAMPLE = """
import argparse
import scipy
import tilelang
import tilelang.language as T
from tilelang.autotuner import *

def ref_program(stride):
    def main(A):
        return scipy.linalg.hadamard(A)
    return main

def run_regression_perf():
    return hadamard(n, other)

def split(M, block):
    @T.prim_func
    def kernel(A: T.Tensor((M,), "float32")):
        pass
    return kernel

@autotune(configs=[])
@tilelang.jit(out_idx=[1])
def hadamard(M, block, fast=True):
    @T.prim_func
    def slow_one(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
        pass
    @T.prim_func
    def fast_one(A: T.Tensor((M,), "float32"), B: T.Tensor((M,), "float32")):
        pass
    if fast:
        return fast_one
    else:
        return slow_one

@tilelang.jit
def eager(A, B, M, block: int = 64, *, eps=1e-5):
    A: T.Tensor[[M], T.float32]
    B: T.Tensor((M,), T.float32)
    with T.Kernel(1):
        pass

def caller(x, out):
    eager(x, out, 4)

def main():
    hadamard(1024, block=128)
"""


def test_which_functions_of_an_example_may_be_meant():
    """What it calls scipy's, what makes a reference, demonstrations and benchmarks launch nothing that is judged."""
    found = {h.name: h.tier for h in tilelang_hosts(EXAMPLE)}
    assert found == {"caller": 0, "hadamard": 1, "eager": 1, "split": 2}
    made = tilelang_host(EXAMPLE, "hadamard")
    assert made is not None and made.maker is not None
    assert [p.name for p in made.params] == ["A"]
    assert dict(made.maker.shown) == {"M": 1024, "block": 128}, "the reference's M goes before"
    eager = tilelang_host(EXAMPLE, "eager")
    assert eager is not None and eager.maker is not None
    assert [p.name for p in eager.params] == ["A", "B"]
    assert [(p.name, p.default) for p in eager.maker.params] == [
        ("M", False),
        ("block", True),
        ("eps", True),
    ]
    assert eager.maker.dims == (("M",), ("M",))


def test_everything_of_a_module_is_imported_by_name():
    text, _ = needed(
        "from tilelang.autotuner import *\n@autotune()\ndef f(x):\n    pass\n",
        "f",
        {"tilelang.autotuner": ("autotune",)},
    )
    assert text.splitlines()[0] == "from tilelang.autotuner import autotune"


def test_the_function_that_fits_the_reference_is_meant():
    hosts = tilelang_hosts(EXAMPLE)
    assert entry_of(Path("f.py"), hosts, lambda h: h.name == "hadamard").name == "hadamard"
    assert entry_of(Path("f.py"), hosts, lambda h: True).name == "caller"
    assert entry_of(Path("f.py"), hosts, lambda h: False).name == "caller", "its misfit is told"
    with pytest.raises(ConfigError, match="2 functions launch"):
        entry_of(Path("f.py"), hosts, lambda h: h.tier == 1)


def test_a_number_may_be_a_word():
    found = parse_numbers(["dtype=float16", "accum=T.float32", "n=1e3"])
    assert found == {"dtype": "float16", "accum": "T.float32", "n": 1000.0}
    for wrong in ("dtype=", "n=1,2", "n=a b", "n=nan", "1n=2"):
        with pytest.raises(ConfigError, match="is not NAME=VALUE"):
            parse_numbers([wrong])


def test_a_number_is_for_a_parameter_that_there_is(tmp_path, capsys):
    text = (HERE / "tutorial_add.py").read_text()
    file = tmp_path / "add.py"
    file.write_text(
        text.replace("y: torch.Tensor):", "y: torch.Tensor, *, scale, other=1):").replace(
            "add_kernel[grid](", "assert (scale, other) == (2.5, 1)\n    add_kernel[grid]("
        )
    )
    call = ["judge", str(file), "--reference", str(REFERENCES / "vector_add.py")]
    assert main(call) == 2
    assert "does not fit" in capsys.readouterr().err
    assert main([*call, "--number", "scale=2.5", "--number", "othre=1"]) == 2
    said = capsys.readouterr().err
    assert "add has no parameter 'othre'; did you mean 'other'?" in said
    assert main([*call, "--number", "scale=2.5"]) == 0, capsys.readouterr().out


def test_a_word_is_no_number_of_c(capsys):
    code = main(["judge", str(HERE / "rows.cu"), "--reference", str(REFERENCES / "softmax.py"), "--entry", "softmax", "--number", "rows=many"])  # fmt: skip
    assert code == 2
    assert "C172" in capsys.readouterr().err


@pytest.mark.wider
def test_a_kernel_in_eager_style_as_it_is(capsys):
    """The file's own demonstration does not run; blocks are the function's defaults."""
    file, reference = HERE / "eager_tilelang.py", REFERENCES / "matmul_half.py"
    code = main(["judge", str(file), "--reference", str(reference), "--entry", "matmul", "--number", "block_M=32"])  # fmt: skip
    assert code == 0
    assert "matmul of eager_tilelang.py on tilelang_cuda (emulated)" in capsys.readouterr().out


def test_a_parameter_may_have_the_name_of_a_builtin():
    """`input` is what torch calls its own."""
    text = "import torch\ndef scaled(input, hash):\n    return torch.empty_like(input) if hash else input\n"
    assert refusals(text, "scaled", rules=RULES) == ()
    asked = "import torch\ndef scaled(x):\n    return torch.empty_like(x) if input() else x\n"
    assert [what for _, what, _ in refusals(asked, "scaled", rules=RULES)] == ["uses input"]


def test_a_function_takes_whatever_it_is_given(tmp_path, capsys):
    """`*args` and dtypes that torch works out: neither is computing."""
    text = (HERE / "tutorial_add.py").read_text()
    found = any_function(text + "\n\ndef add(*args):\n    return args\n", "add")
    assert found is not None
    assert found.params == (("*args", True),), "of two of one name the last is the module's"
    file = tmp_path / "add.py"
    name = "def add(x: torch.Tensor, y: torch.Tensor):"
    assert text.count(name) == 1
    file.write_text(
        text.replace(
            name,
            "def add(*args, **kwargs):\n    x, y = args\n    assert torch.promote_types(x.dtype, y.dtype) == torch.result_type(x, y)\n    assert torch.can_cast(x.dtype, torch.float64)",
        )
    )
    code = main(["judge", str(file), "--reference", str(REFERENCES / "vector_add.py")])
    assert code == 0, capsys.readouterr().out


@pytest.mark.wider
def test_a_kernel_may_be_wrapped_for_torch_compile(tmp_path, capsys):
    text = (HERE / "tutorial_add.py").read_text()
    launch = "    add_kernel[grid]("
    assert text.count(launch) == 1
    file = tmp_path / "add.py"
    call = ["judge", str(file), "--reference", str(REFERENCES / "vector_add.py")]
    file.write_text(text.replace(launch, "    torch.library.wrap_triton(add_kernel)[grid]("))
    assert main(call) == 0, capsys.readouterr().out
    file.write_text(text.replace(launch, "    torch.library.custom_op\n    add_kernel[grid]("))
    assert main(call) == 3, "nothing is known of it, and nobody accused"
    assert "[V217]" in capsys.readouterr().out


FLAT = """
import tilelang.language as T
import tilelang

@tilelang.jit
def doubled(X, Y):
    N = T.const("N")
    X: T.Tensor((N, 2), T.float32)
    Y: T.Tensor((N, 2), T.float32)
    with T.Kernel(1):
        flat = T.Tensor((N * 2,), T.float32, Y.data)
        flat[0] = helper(X)

def helper(x):
    return x
"""


def test_only_the_language_is_handed_memory():
    """What Python code gets of it could be computed with here, and on no device."""

    def refused(text):
        return [what for _, what, _ in refusals(text, "doubled", rules=RULES)]

    assert refused(FLAT) == []
    for change in (
        "return x.data",
        "return x[0:1].read()",
        "return T.Tensor((1,), 'float32', [x.data])",
        "return x[0].buffer",
    ):
        assert refused(FLAT.replace("return x", change)), change
    shadowed = "def Tensor(*a):\n    return a[-1].sum()\n"
    assert refused(
        FLAT.replace("def helper", shadowed + "class T:\n    Tensor = Tensor\n\ndef helper")
    )
    wrapped = FLAT.replace("def helper", "def jit(f):\n    return f\n\n@jit\ndef helper").replace(
        "return x", "with T.Kernel(1):\n        return x.data"
    )
    assert refused(wrapped), "a decorator's name makes nothing of it the language"
