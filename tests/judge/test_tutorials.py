"""A kernel from a public tutorial works unchanged, or a precise reason says why not; nobody honest is accused."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from septran.backends.base import UNMODELLED
from septran.backends.judged.python_file import refusals
from septran.backends.text.python_host import needed
from septran.backends.triton.foreign import _RULES as RULES
from septran.backends.triton.foreign import hosts
from septran.cli.main import main
from septran.errors import ConfigError
from septran.plan.wanted import load_wanted
from septran.run.host_call import host_call

SINE = """import torch
from torch.library import triton_op, wrap_triton
import triton
import triton.language as tl
from triton.language import constexpr as Constant

@triton.jit
def sin_kernel(in_ptr, out_ptr, n, BLOCK: "tl.constexpr", FAST: Constant, UNUSED: "triton.language.constexpr" = 4):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(in_ptr + offsets, mask=offsets < n)
    at = offsets + tl.sum(tl.zeros((UNUSED,), dtype=tl.int32))
    if FAST == "no":
        tl.store(out_ptr + at, tl.sin(x), mask=offsets < n)

@triton_op("mylib::mysin", mutates_args={})
def mysin(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(sin_kernel)[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16, FAST="no")
    return out
"""
REFERENCE = "import torch\ndef reference(x): return torch.sin(x)\ndef get_inputs(): return [torch.randn(101)]\n"


def judged(tmp_path, text, reference=REFERENCE, name="file.py", *more):
    """Return the exit code of judging `text` against `reference`."""
    file, wanted = tmp_path / name, tmp_path / "wanted.py"
    file.write_text(text)
    wanted.write_text(reference)
    return main(["judge", str(file), "--reference", str(wanted), *more])


@pytest.mark.wider
def test_torchs_tutorial_as_it_is(tmp_path, capsys):
    """Constants by annotations that are texts, an operator of torch's, a kernel wrapped for torch.compile."""
    assert judged(tmp_path, SINE) == 0, capsys.readouterr().out


NESTED = """import torch
from torch.utils._triton import has_triton

if not has_triton():
    print("Skipping because triton is not supported on this device.")
    def add(x, y):
        return x + y
elif torch.cuda.is_available(): print("a GPU")
else:
    import triton
    from triton import (
        language as tl, testing
    )

    @triton.jit
    def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: "tl.constexpr"):
        tl.program_id(0)

    try:
        @torch.compile(
            fullgraph=True)
        def add(x, y):
            out = torch.empty_like(x)
            add_kernel[(1,)](x, y, out, x.numel(), BLOCK=4)
            return out
        shown = torch.randn(4, device="cuda")
    except ImportError:
        raise RuntimeError("no")

    x = torch.randn(4, device="cuda")
    print(add(x, x))
"""


def test_what_stands_in_an_if_or_try_of_the_module_is_its_own():
    """The branch that launches is the one that is meant; what the others hold, and the demonstration, does not run."""
    (found,) = hosts(NESTED)
    assert (found.name, found.line) == ("add", 22)
    kept, left = needed(NESTED, "add")
    ast.parse(kept)
    lines = kept.splitlines()
    assert "    from triton import language as tl" in lines, "testing is not needed"
    assert not any("randn" in row or "print" in row or "compile" in row for row in lines)
    assert '        raise RuntimeError("no")' in lines, "what becomes of an error stays"
    assert lines[21] == "        def add(x, y):", "lines stay"
    assert left == ("lines 5-8", "line 26", "lines 30-31")
    assert refusals(NESTED, "add", rules=RULES) == ()


@pytest.mark.parametrize(
    "decorator",
    ["torch.compile", "torch.compiler.disable(recursive=False)", "torch.no_grad()", "custom_op('a::b', mutates_args=())", "amp.custom_fwd(device_type='cuda')"],
)  # fmt: skip
def test_a_decorator_that_changes_no_result_is_taken_off(decorator):
    text = f"import torch\nfrom torch import amp\nfrom torch.library import custom_op\n@{decorator}\ndef f(x):\n    k[1](x)\n"
    assert [h.name for h in hosts(text)] == ["f"]
    assert refusals(text, "f", rules=RULES) == ()
    shadowed = text.replace("@", "class torch: pass\namp = custom_op = torch\n@", 1)
    assert ("def f" in needed(shadowed, "f")[0]) and f"@{decorator}" in needed(shadowed, "f")[0]


@pytest.mark.parametrize(
    ("said", "used", "hostile"),
    [
        ("from triton.experimental import gluon", "gluon", False),
        ("import helion", "helion", False),
        ("import numpy as np", "np.prod(x.shape)", False),
        ("from einops import rearrange", "rearrange(x)", False),
        ("import torch.distributed as dist", "dist", False),
        ("from torch.utils.checkpoint import checkpoint", "checkpoint", False),
        ("import copy", "copy.copy(x)", False),
        ("from .parts import half", "half(x)", False),
        ("", "torch.ops.mylib.half(x)", False),
        ("from torch.library import register_fake", "register_fake", False),
        ("import os", "os.environ", True),
        ("import ctypes", "ctypes", True),
        ("import torch._C as c", "c", True),
        ("from torch import _C", "_C", True),
        ("import septran_triton_watch as w", "w", True),
        ("from triton.runtime import interpreter", "interpreter", True),
        ("from torch.utils import _python_dispatch", "_python_dispatch", True),
        ("", "torch.utils._python_dispatch", True),
        ("", "torch.overrides", True),
        ("import helion, gc", "(helion, gc)", True),
    ],
)
def test_what_has_no_model_accuses_nobody_and_what_is_hostile_stays_refused(said, used, hostile):
    text = f"import torch\n{said}\ndef f(x):\n    {used}\n    k[1](x)\n"
    kinds = {kind for kind, _, _ in refusals(text, "f", rules=RULES)}
    assert kinds
    assert (kinds != {UNMODELLED}) is hostile


def test_what_has_no_model_is_not_run_and_said_with_its_line(tmp_path, capsys):
    text = SINE.replace(
        "import triton\n", "import triton\nfrom triton.experimental import gluon\n", 1
    )
    assert judged(tmp_path, text.replace("    out =", "    gluon\n    out =")) == 3
    said = capsys.readouterr().out
    assert (
        "[V217] the judge has no model of what it uses, and did not run it: file.py:4 imports from triton.experimental"
        in said
    )


def test_a_host_under_a_decorator_of_the_file_is_run_with_it():
    """Where no other function launches: a benchmark around the host is not the host."""
    text = "import triton\ndef guard(f):\n    return f\n@guard\ndef f(x):\n    k[1](x)\n"
    assert [h.name for h in hosts(text)] == ["f"]
    assert "@guard" in needed(text, "f")[0]
    assert [h.name for h in hosts(text + "def g(x):\n    k[1](x)\n")] == ["g"]


def test_a_function_that_a_class_of_the_file_calls_is_no_other_entry():
    text = "import torch, triton\ndef forward(x):\n    k[1](x)\nclass Sum(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return forward(x)\n"
    assert [h.name for h in hosts(text)] == ["Sum"]


UNLAUNCHED = {
    "f launches in line 4, but is decorated with amp.custom_fwd(cast_inputs=torch.float16) in line 2, which": "@amp.custom_fwd(cast_inputs=torch.float16)\ndef f(x):\n    k[1](x)\n",
    "f launches in line 4, but is decorated with jit.script in line 2, which may change": "@jit.script\ndef f(x):\n    k[1](x)\n",
    "line 4 launches at module level, not in a function": "x = 1\nif x:\n    k[1](x)\n",
    'line 4 launches under if __name__ == "__main__", not in a function': "x = 1\nif __name__ == '__main__':\n    k[1](x)\n",
    "main launches in line 3, but takes no tensors": "def main():\n    k[1](x)\nk[2](x)\n",
    "test_sum launches in line 3, but is named as a test": "def test_sum(x):\n    k[1](x)\n",
    "class Sum launches in line 4, and whose objects": "class Sum:\n    def f(x):\n        k[1](x)\n",
    "f launches in line 3, but is async": "async def f(x):\n    k[1](x)\n",
}


@pytest.mark.parametrize("why", UNLAUNCHED)
def test_where_something_launches_the_reason_is_said_why_it_is_no_entry(why, tmp_path, capsys):
    file = tmp_path / "file.py"
    file.write_text(f"import triton\n{UNLAUNCHED[why]}")
    code = main(["judge", str(file), "--reference", str(file)])
    err = capsys.readouterr().err
    assert code == 2
    assert f"error[C170]: {file}: {why}" in err


KERNEL = "__global__ void k(float* x) { x[0] = 1; }\n"
UNLAUNCHED_C = {
    "main launches in line 3, but takes no tensors": "int main(void) {\n  k<<<1, 1>>>(0);\n}\n",
    "run launches in line 4, but takes std::deque<float>& v, which": "void run(std::deque<float>& v)\n{\n  k<<<1, 1>>>(&v[0]);\n}\nint main() {}\n",
    "run launches in line 2, but is a template": "template <class T> void run(T* v) { k<<<1, 1>>>(v); }\n",
    "run launches in line 3, but takes Mat m, which": "using Half = float;\nvoid run(const Half* a, Mat m) { k<<<1, 1>>>(m.data); }\n",
}


@pytest.mark.parametrize("why", UNLAUNCHED_C)
def test_so_of_cuda(why, tmp_path, capsys):
    file = tmp_path / "file.cu"
    file.write_text(KERNEL + UNLAUNCHED_C[why])
    code = main(["judge", str(file), "--reference", str(file)])
    err = capsys.readouterr().err
    assert code == 2
    assert f"error[C170]: {file}: {why}" in err


@pytest.fixture(scope="module")
def sine(tmp_path_factory):
    """What REFERENCE asks for: one input, one result."""
    file = tmp_path_factory.mktemp("sine") / "wanted.py"
    file.write_text(REFERENCE)
    return load_wanted(file)


@pytest.mark.parametrize(
    ("body", "code"),
    [("c = torch.empty_like(b); k[1](a, b, c); return c.view(-1)", 2), ("k[1](a, b); return", 0),
        ("return k[1](a, b)", 0), ("c = b.view(-1); k[1](a, c); return c[:5]", 0), ("k[1](a, b); return (b,)", 0)],
)  # fmt: skip
def test_an_input_that_the_reference_lacks_is_no_place_for_results(body, code, sine):
    """`matmul(a, b)` beside the reference of a softmax: b is not written, what it returns is another tensor."""
    (host,) = hosts(f"import torch, triton\ndef f(a, b):\n    {body}\n")
    if code:
        with pytest.raises(ConfigError) as error:
            host_call(host, sine, {}, file=Path("f.py"))
        assert error.value.codes == ("C172",)
        assert "f(a, b) does not fit the reference, which has inputs x, and results" in str(
            error.value
        )
    else:
        assert not host_call(host, sine, {}, file=Path("f.py")).returns
