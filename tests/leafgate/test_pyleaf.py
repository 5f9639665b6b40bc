"""The Python subsets: what a leaf may not say, with its line; honest bodies are printed."""

from __future__ import annotations

import importlib
import time

import pytest

from septran import assets, spanyaml
from septran.leafgate import Refusal
from septran.leafgate.pyleaf import print_python_leaf

TRITON = "@triton.jit\ndef leaf(acc, X):\n"
MACRO = "@T.macro\ndef leaf(C, A):\n"


def printed(body: str, of: str = "triton") -> str:
    head = TRITON if of == "triton" else MACRO
    text = "".join(f"    {line}\n" for line in body.splitlines())
    return print_python_leaf(head + text, signature=head, of=of)


@pytest.mark.parametrize(
    ("of", "body"),
    [
        ("triton", "acc = tl.where(X == X, X, 0.0)\nreturn acc"),
        ("triton", "s = tl.sum(X.to(tl.float32), 1, keep_dims=True)\nacc = st_max(acc, s)\nreturn acc"),
        ("triton", "for k in tl.static_range(4):\n    acc += X * k\nreturn acc"),
        ("triton", 'm = tl.full([16, 1], -float("inf"), tl.float32)\nreturn m'),
        ("triton", "acc = tl.associative_scan(X, 1, st_sum)\nreturn acc"),
        ("triton", "acc = tl.reduce((X, tl.arange(0, 16)[None, :] + tl.zeros_like(X)), 1, st_argmax, keep_dims=True)[1]\nreturn acc"),
        ("triton", "acc = tl.gather(X, tl.where(X > 0, 1, 0), 1)\nreturn acc"),
        ("triton", "'''why'''\nif X.shape[0] > 4:\n    acc = acc * 2\nreturn acc"),
        ("tilelang", "for i, j in T.Parallel(C.shape[0], C.shape[1]):\n    C[i, j] = T.exp(A[i, j])"),
        ("tilelang", 'x = T.alloc_fragment([16, 4], "float32")\nT.reduce_sum(A, x, dim=1, clear=True)\nT.copy(x, C)'),
        ("tilelang", "T.gemm(A, A, C, policy=T.GemmWarpPolicy.FullRow)"),
        ("npuir", 't = T.alloc_ub([16, 16], "float32")\nT.vadd(A, A, t)\nT.copy(t, C)'),
    ],
)  # fmt: skip
def test_honest_bodies_pass(of: str, body: str) -> None:
    text = printed(body, of)
    head = TRITON if of == "triton" else MACRO
    assert print_python_leaf(text, signature=head, of=of) == text


@pytest.mark.parametrize(
    ("of", "body", "told"),
    [
        ("triton", "import os", "line 3: Import"),
        ("triton", "acc = X.handle", ".handle is not part"),
        ("triton", "acc = X.data", ".data is not part"),
        ("triton", "acc = X.__class__", "is not part"),
        ("triton", "acc = X.dtype.name", ".name is not part"),
        ("triton", "acc = tl.core", "tl.core is not part"),
        ("triton", "acc = tl.inline_asm_elementwise('nop', X)", "tl.inline_asm_elementwise"),
        ("triton", "acc = tl.extra.cuda.globaltimer()", "globaltimer"),
        ("triton", "acc = tl.program_id(0)", "tl.program_id"),
        ("triton", "tl.device_print(X)", "tl.device_print"),
        ("triton", "acc = tl.load(X)", "tl.load"),
        ("triton", "acc = tl", "neither assigned"),
        ("triton", "acc = getattr(tl, 'core')", "getattr is not a function"),
        ("triton", "acc = (lambda: 1)()", "a call of an expression"),
        ("triton", "acc = [i for i in range(4)]", "use a loop"),
        ("triton", "acc = f'{X}'", "holds no text"),
        ("triton", "acc = 'x' + X", "text or a list"),
        ("triton", "while True:\n    pass", "use for"),
        ("triton", "try:\n    pass\nexcept Exception:\n    pass", "does not raise"),
        ("triton", "def g():\n    pass", "write its body in place"),
        ("triton", "X.shape = 1", "an attribute is assigned"),
        ("triton", "acc = tl.sum(*X)", "write the arguments"),
        ("triton", "acc = tl.sum(**X)", "unpacked"),
        ("triton", "acc = 9 ** 9 ** 9", "a power of constants"),
        ("triton", "acc = 1 << 99999", "a power of constants"),
        ("triton", "acc = [0] * 99999", "text or a list"),
        ("triton", "acc = 10 ** 30 * X", "a power of constants"),
        ("triton", "acc = 99999999999999999999", "64 bits"),
        ("triton", "for x in X:\n    pass", "a loop over X"),
        ("triton", "acc = X is None", "is not part"),
        ("triton", "tl = X", "it is the language's"),
        ("triton", "_x = X", "begin with _"),
        ("triton", "global acc", "is not part"),
        ("triton", "acc = (x := 1)", "is not part"),
        ("triton", "acc = X @ X", "call the language's product"),
        ("triton", "acc = range", "only called"),
        ("triton", "acc = X << 64", "a number from 0 to 63"),
        ("triton", "acc >>= 64", "a number from 0 to 63"),
        ("pallas", "C = A << 8", "a number from 0 to 7, or multiply"),
        ("pallas", "C >>= A", "a number from 0 to 7, or multiply"),
        ("tilelang", "return A", "returns no value"),
        ("tilelang", "x = A.scope()", ".scope is not part"),
        ("tilelang", "x = A.data", ".data is not part"),
        ("tilelang", "x = T.tvm", "T.tvm is not part"),
        ("tilelang", "T.call_extern('int32', 'clock')", "T.call_extern"),
        ("tilelang", "x = T.get_thread_binding(0)", "T.get_thread_binding"),
        ("npuir", "T.npuir_print(A)", "T.npuir_print"),
        ("npuir", "x = A.buffer", ".buffer is not part"),
    ],
)  # fmt: skip
def test_what_is_refused(of: str, body: str, told: str) -> None:
    with pytest.raises(Refusal) as caught:
        printed(body, of)
    assert told in str(caught.value)


def test_the_signature_is_generated() -> None:
    with pytest.raises(Refusal, match="generated signature"):
        print_python_leaf("@evil\ndef leaf(acc, X):\n    pass\n", signature=TRITON, of="triton")
    with pytest.raises(Refusal, match="one function"):
        print_python_leaf(TRITON + "    pass\nx = 1\n", signature=TRITON, of="triton")
    with pytest.raises(Refusal, match="Python syntax"):
        print_python_leaf(TRITON + "    acc = = 1\n", signature=TRITON, of="triton")


@pytest.mark.parametrize(
    "bomb",
    ["acc = " + "(" * 5000 + "1" + ")" * 5000, "acc = " + "-" * 20_000 + "1", "acc = 1" + " + 1" * 14_000,
     "acc = X" + "[0]" * 15_000, "acc = " + "X if X else " * 4_000 + "X"],
    ids=range(5),
)  # fmt: skip
def test_bombs_end_quickly(bomb: str) -> None:
    start = time.process_time()
    with pytest.raises(Refusal):
        printed(bomb)
    assert time.process_time() - start < 4


@pytest.mark.parametrize(("of", "family"), [("triton", "triton"), ("pallas", "pallas")])
def test_whatever_the_library_calls_a_reply_may_call(of: str, family: str) -> None:
    """A helper that no shape of the corpus needs would be found missing by the first model that repeats the library."""
    prelude = importlib.import_module(f"septran.backends.{family}.prelude").PRELUDE
    rules = spanyaml.load(assets.find(f"configs/leaves/{of}.yaml").path).value
    assert {name for name, _ in prelude} <= set(rules["functions"].split())
