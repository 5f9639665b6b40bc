"""Every shipped operator as a Python function: `septran.compile(op=...)(x)`, in every way people call it."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import septran
from septran import assets
from septran.call import kept
from septran.call.kernel import CompiledKernel
from septran.errors import InputError
from septran.plan import catalog
from septran.tasklang.load import load_logic
from septran.tasklang.operator import Operator, evaluate_dim

NAMES = [entry["name"] for entry in catalog.ops()]
QUICK = ("softmax", "relu", "gemm", "cross_entropy", "attention")
TOLERANCE = {"float64": 1e-9, "float32": 2e-3, "float16": 5e-2, "bfloat16": 2e-1}


def operator(name: str) -> Operator:
    return load_logic(catalog.op_file(name)).operators[name]


def inputs(op: Operator, dims: Mapping[str, int], dtype: str) -> dict[str, torch.Tensor]:
    made = {}
    generator = torch.Generator().manual_seed(1)
    for name, kind in op.types().items():
        if name in op.outputs:
            continue
        shape = [evaluate_dim(d, dims) for d in kind.dims]
        domain = op.domains.get(name)
        if kind.dtype != "T":
            high = int(dims[domain.high]) if domain and isinstance(domain.high, str) else 4
            made[name] = torch.randint(0, max(high, 1), shape, generator=generator).to(
                getattr(torch, kind.dtype)
            )
        else:
            value = torch.rand(shape, generator=generator, dtype=torch.float64) + 0.25
            made[name] = value.to(getattr(torch, dtype))
    return made


def wanted(op: Operator, given: Mapping[str, torch.Tensor], dims: Mapping[str, int]) -> Any:
    wide = {n: t.double() if t.is_floating_point() else t for n, t in given.items()}
    return op.reference.fn(**wide, **op.scalar_values(dims))


def close(found: torch.Tensor, right: torch.Tensor, dtype: str) -> None:
    largest = float(right.nan_to_num(0, 0, 0).abs().max()) if right.numel() else 0.0
    atol = TOLERANCE[dtype] * max(1.0, largest)
    torch.testing.assert_close(
        found.double(), right, rtol=TOLERANCE[dtype], atol=atol, equal_nan=True
    )


def every_way(kernel: CompiledKernel, op: Operator, dtype: str) -> None:
    dims = dict(op.odd_dims[0])
    given = inputs(op, dims, dtype)
    right = wanted(op, given, dims)
    call = list(given.values())
    first = kernel(*call)
    close(first, right, dtype)
    assert first.dtype is (getattr(torch, dtype))

    by_name = kernel(**given)  # keywords
    assert torch.equal(by_name, first)

    (out,) = op.outputs  # a given output, by name and in order
    target = torch.full_like(first, float("nan"))
    assert kernel(*call, **{out: target}) is target
    assert torch.equal(target, first)
    assert kernel(*call, out=target.zero_()) is target
    assert torch.equal(target, first)

    strided = {n: _strided(t) for n, t in given.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(kernel(**strided), first)
        wide = torch.full((*first.shape[:-1], 2 * first.shape[-1]), 7.0, dtype=first.dtype)
        kernel(*call, **{out: wide[..., ::2]})
        assert torch.equal(wide[..., ::2], first)
        assert bool((wide[..., 1::2] == 7).all())

    with torch.no_grad():
        grown = [t.clone().requires_grad_() if t.is_floating_point() else t for t in call]
        assert torch.equal(kernel(*grown), first)
    with pytest.raises(InputError, match="C142"):
        kernel(*grown)

    torch._dynamo.reset()  # the line below is one function to torch, with a limit of recompilations
    traced = torch.compile(lambda *values: kernel(*values), fullgraph=True, backend="eager")
    assert torch.equal(traced(*call), first)

    found: list[Any] = [None] * 4
    threads = [threading.Thread(target=_into, args=(found, i, kernel, call)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(one, first) for one in found)

    if dtype in ("float32", "float64"):
        array = kernel(*(t.numpy() for t in call))
        assert isinstance(array, np.ndarray) and np.array_equal(array, first.numpy())

    for dim in dims:  # nothing in, and sums over nothing
        sizes = {**dims, dim: 0}
        empty = inputs(op, sizes, dtype)
        shape = tuple(evaluate_dim(d, sizes) for d in op.types()[out].dims)
        try:
            none = wanted(op, empty, sizes)
        except (RuntimeError, IndexError, ZeroDivisionError):  # torch has no answer
            none = None
        if none is not None and none.shape != shape:  # a convolution over no channels
            none = None
        if none is None and 0 not in shape:
            with pytest.raises(InputError, match="C140"):
                kernel(*empty.values())
            continue
        made = kernel(*empty.values())
        assert made.shape == shape
        if none is not None:
            close(made, none.double(), dtype)


def _strided(t: torch.Tensor) -> torch.Tensor:
    wide = torch.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)
    wide[..., ::2] = t
    return wide[..., ::2]


def _into(found: list[Any], i: int, kernel: CompiledKernel, call: list[torch.Tensor]) -> None:
    found[i] = kernel(*call)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", QUICK)
def test_every_way_to_call(name):
    kernel = septran.compile(op=name, target="cpp", verify=False)
    every_way(kernel, operator(name), "float32")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
def test_every_operator_dtype_and_way(name, dtype):
    op = operator(name)
    kernel = septran.compile(op=name, target="cpp", verify=False)
    if dtype in op.dtypes:
        every_way(kernel, op, dtype)
    else:
        with pytest.raises(TypeError, match=f"is {dtype}; it has"):
            kernel(*inputs(op, op.odd_dims[0], dtype).values())


@pytest.mark.wider
def test_ops_are_functions_and_verified_once(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path))
    x = torch.randn(3, 5)
    kernel = septran.compile(op="softmax")
    torch.testing.assert_close(kernel(x), x.softmax(-1))
    assert len(kernel.verdicts) == 1
    again = septran.compile(op="softmax")
    torch.testing.assert_close(again(x), x.softmax(-1))
    assert again.verdicts == {}, "the verdict is kept on disk"
    for file in (tmp_path / "cache").rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged")
    healed = septran.compile(op="softmax")
    torch.testing.assert_close(healed(x), x.softmax(-1))
    assert "softmax" in dir(septran.ops)
    with pytest.raises(AttributeError, match="no operator 'softmx'"):
        septran.ops.softmx  # noqa: B018


def test_a_kept_verdict_is_bound_to_all_that_decides_it(monkeypatch):
    """The text, the problem, sources, policy, compiler, libraries and processor: another one of each is another key."""
    kernel = septran.compile(op="relu", target="cpp")
    made = kernel.specialized(torch.ones(3))

    def key(special=made, meaning="m") -> str:
        kept._data.cache_clear()
        kept._sources.cache_clear()
        return kept.verdict_key(special.kernel, special.problem, meaning, kernel.backend)

    before = key()
    assert key() == before
    others = [key(kernel.specialized(torch.ones(4))), key(meaning="another")]
    states = kernel.backend.available()
    newer = {n: replace(s, detail=s.detail + ".1") for n, s in states.items()}
    asset = assets.listing("configs")[0]
    for where, name, value in (
        (assets, "sources_sha", lambda: "other"),
        (assets, "listing", lambda: [replace(asset, path=Path(__file__))]),
        (kept, "host_features", lambda: "other"),
        (kept.metadata, "version", lambda _: "9"),
        (type(kernel.backend), "available", lambda _: newer),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(where, name, value)
            others.append(key())
    with monkeypatch.context() as patched:
        patched.setenv("CXX", "clang++")
        others.append(key())
    assert len({before, *others}) == 1 + len(others)
    assert key() == before


def test_pointwise_operators_take_any_shape():
    relu = septran.compile(op="relu", verify=False)
    x = torch.randn(2, 3, 5)
    assert torch.equal(relu(x), x.relu())
    assert torch.equal(relu(torch.tensor(-1.0)), torch.tensor(0.0))
    wide = torch.full((5, 3, 2), 7.0).permute(2, 1, 0)
    with pytest.warns(UserWarning, match="Y is strided"):
        relu(x, Y=wide)
    assert torch.equal(wide, x.relu())


def test_a_kernel_is_shown_and_travels():
    kernel = septran.compile(op="relu", verify=False)
    assert repr(kernel) == "<septran kernel relu for cpp.native, 0 specialised>"
    other = pickle.loads(pickle.dumps(kernel))
    x = torch.randn(7)
    assert torch.equal(other(x), x.relu())


def test_a_backward_makes_it_differentiable():
    relu = septran.compile(op="relu", verify=False, backward=lambda g, x: g * (x > 0))
    x = torch.randn(11, requires_grad=True)
    relu(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, (x > 0).float())


def test_a_strided_input_is_said_once():
    relu = septran.compile(op="relu", verify=False)
    x = torch.randn(4, 6).T
    with pytest.warns(UserWarning, match="X is strided and is copied"):
        relu(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(relu(x), x.relu())


X = torch.zeros(4, 5)
WRONG: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "nothing": ("softmax", (), {}, "X is not given"),
    "a word": ("softmax", ("x",), {}, "X is a str, not a torch tensor"),
    "none": ("softmax", (None,), {}, "X is a NoneType"),
    "a list": ("softmax", ([1.0, 2.0],), {}, "X is a list"),
    "too many": ("softmax", (X, X, X), {}, "3 values are given"),
    "a rank": ("softmax", (X[0],), {}, "X has 1 dims [5], not M x N"),
    "a dtype": ("softmax", (X.int(),), {}, "X is int32; it has float32"),
    "complex": ("softmax", (X.cfloat(),), {}, "complex64"),
    "sparse": ("softmax", (X.to_sparse(),), {}, "sparse"),
    "a name": ("softmax", (), {"x": X}, "no parameter 'x'"),
    "twice": ("softmax", (X,), {"X": X}, "X is given twice"),
    "an output's shape": ("softmax", (X,), {"Y": X[:2]}, "Y"),
    "an output's dtype": ("softmax", (X,), {"Y": X.double()}, "Y is float64, X is float32"),
    "two sizes": ("gemm", (X, X), {}, "B says K = 4, A says K = 5"),
    "two dtypes": ("gemm", (X, X.T.double()), {}, "B is float64, A is float32"),
    "an index's dtype": (
        "cross_entropy",
        (X, torch.zeros(4, 1)),
        {},
        "target is float32, not int64",
    ),
    "a scalar": ("attention", (X[None],) * 3, {"scale": "big"}, "scale is a str, not a number"),
    "numpy words": ("softmax", (np.array(["a"]),), {}, "X"),
    "two devices": ("gemm", (X, X.T.to("meta")), {}, "A is on cpu, B is on meta"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_values_are_type_errors_with_names(what):
    name, values, named, told = WRONG[what]
    kernel = septran.compile(op=name, verify=False)
    with pytest.raises(TypeError) as caught:
        kernel(*values, **named)
    assert "C140" in str(caught.value) or "K001" in str(caught.value)
    assert told in str(caught.value)


def test_a_files_own_operator_says_the_shapes(tmp_path):
    from tests.tasklang.test_reader import written

    kernel = septran.compile(logic_file=written(tmp_path), target="cpp", verify=False)
    x = torch.randn(3, 7)
    assert torch.equal(kernel(x), x + x)


def test_torch_compile_keeps_the_kernel_as_one_call():
    kernel = septran.compile(op="softmax", verify=False)
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    x = torch.randn(4, 9)
    found = torch.compile(lambda t: kernel(t * 2) + 1, fullgraph=True, backend=backend)(x)
    torch.testing.assert_close(found, (x * 2).softmax(-1) + 1)
    assert any("septran" in name for name in seen)
