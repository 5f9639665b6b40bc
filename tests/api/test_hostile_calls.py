"""Calls that other libraries get wrong: shared memory, transformed tensors, numpy's corners, values of other types."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import septran
from septran.errors import ArgumentError, InputError

pytestmark = pytest.mark.filterwarnings("ignore:.*strided and is copied")
Kernel = Callable[..., Any]
X, Z = torch.randn(8, 8), torch.randn(8, 8)
SOFTMAX = X.softmax(-1)
Q = torch.randn(2, 8, 16)


@pytest.fixture(scope="module")
def add() -> Kernel:
    return _kernel("add")


@pytest.fixture(scope="module")
def softmax() -> Kernel:
    return _kernel("softmax")


@pytest.fixture(scope="module")
def gemm() -> Kernel:
    return _kernel("gemm")


@pytest.fixture(scope="module")
def attention() -> Kernel:
    return _kernel("attention")


def _kernel(name: str, **options: Any) -> Kernel:
    found: Kernel = septran.compile(op=name, verify=False, **options)
    return found


def attended(scale: float) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(Q, Q, Q, scale=scale)


def same(found: Any, right: torch.Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(found), right, rtol=1e-4, atol=1e-4)


def whole(f: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    found: Callable[..., Any] = torch.compile(f, fullgraph=True, backend="eager")
    return found


@pytest.mark.wider
def test_an_output_may_lie_where_an_input_lies(add, softmax, gemm):
    for _ in range(2):  # the second time is the quick one
        y = X.clone()
        add(y, Z, Y=y)
        same(y, X + Z)
        y = X.clone()
        softmax(y, Y=y)
        same(y, SOFTMAX)
        big = torch.randn(70, 70)
        y = big.clone()
        gemm(y, big, C=y)
        torch.testing.assert_close(y, big @ big, rtol=1e-3, atol=1e-3)
        line = torch.randn(100)
        right = 2 * line[:64]
        add(line[:64], line[:64], Y=line[1:65])
        same(line[1:65], right)


def test_an_output_whose_elements_are_one_place_is_refused(add):
    with pytest.raises(TypeError, match="Y has elements that share memory"):
        add(X, Z, Y=torch.zeros(1, 8).expand(8, 8))


def test_inputs_of_pointwise_operators_broadcast(add):
    same(add(X, Z[:1]), X + Z[:1])
    same(add(X[0], Z), X[0] + Z)
    same(add(X, torch.tensor(2.0)), X + 2)
    assert add(X[:0], Z[:1]).shape == (0, 8)
    y = torch.empty(8, 8)
    add(X, Z[:1], Y=y)
    same(y, X + Z[:1])
    same(whole(add)(X, Z[:1]), X + Z[:1])
    with pytest.raises(TypeError, match="do not broadcast"):
        add(X, Z[:3])
    with pytest.raises(TypeError, match=r"Y is \[1, 8\], not \[8, 8\]"):
        add(X, Z, Y=torch.empty(1, 8))


def test_a_broadcast_input_gets_the_sum_of_the_gradient():
    kernel = _kernel("add", backward=lambda g, x, z: (g, g))
    row = Z[:1].clone().requires_grad_()
    kernel(X, row).sum().backward()
    assert row.grad is not None
    same(row.grad, torch.full((1, 8), 8.0))


def test_a_flat_operator_that_is_not_pointwise_takes_no_other_shape(tmp_path):
    path = tmp_path / "shifted.py"
    path.write_text(FLAT)
    kernel = septran.compile(logic_file=path, target="cpp", verify=False)
    same(kernel(torch.ones(5)), torch.arange(5.0))
    with pytest.raises(TypeError, match="2 dims"):
        kernel(torch.ones(2, 5))


FLAT = '''"""x times its index"""
import septran.tasklang as task
from septran.reference import Reference, torch


@task.define(leaf=True)
def leaf(Y, X, i):
    task.call_primitive("map", Y, expr="x * (index(0) + i)", x=X, i=i)


@task.define
def counted(Y, X):
    Yp = task.partition(Y, by="blocks", shape=(4,))
    Xp = task.partition(X, by="blocks", shape=(4,))
    for i in task.parallel_range(Yp.shape[0]):
        task.launch(leaf, Yp[i], Xp[i], i * 4)


OPERATORS = (
    task.Operator(
        name="counted", about="x times its index", entry=counted, tensors={"Y": "N", "X": "N"}, outputs=("Y",),
        dims={"N": 16}, odd_dims=({"N": 5},),
        reference=Reference(fn=lambda X: X * torch.arange(X.shape[0]), kind="elementwise"),
    ),
)
'''


def test_conjugates_negatives_and_lone_numbers(add):
    same(add(X, torch.complex(Z, Z).conj().imag), X - Z)
    same(add(torch.tensor(1.0), torch.tensor(2.0)), torch.tensor(3.0))
    with pytest.raises(TypeError, match="Z is a float, not a torch tensor"):
        add(X, 1.0)


def test_tensors_without_memory_have_shapes(softmax, gemm):
    assert softmax(X.to("meta")).is_meta
    assert gemm(torch.empty(3, 4, device="meta"), torch.empty(4, 5, device="meta")).shape == (3, 5)
    with FakeTensorMode() as mode:
        found = softmax(mode.from_tensor(X))
    assert type(found).__name__ == "FakeTensor" and found.shape == (8, 8)
    with pytest.raises(TypeError, match="A is on cpu, B is on meta"):
        gemm(X, X.to("meta"))
    freed = X.clone()
    freed.untyped_storage().resize_(0)
    with pytest.raises(TypeError, match="cannot be read"):
        softmax(freed)


def test_subclasses_and_modes(softmax):
    class Own(torch.Tensor):
        pass

    same(softmax(X.as_subclass(Own)).as_subclass(torch.Tensor), SOFTMAX)
    graph = make_fx(lambda t: softmax(t))(X)
    assert any("septran" in str(node.target) for node in graph.graph.nodes)
    same(graph(Z), Z.softmax(-1))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert softmax(X).dtype is torch.float32
    with torch.inference_mode():
        inside = X.clone()
        same(softmax(inside), SOFTMAX)
    same(softmax(inside), SOFTMAX)


@pytest.mark.wider
def test_vmap_runs_it_for_each(add, softmax, attention):
    batch = torch.randn(3, 8, 8)
    same(torch.func.vmap(softmax)(batch), batch.softmax(-1))
    same(torch.func.vmap(softmax, in_dims=2, out_dims=2)(batch), batch.softmax(1))
    same(torch.func.vmap(add, in_dims=(0, None))(batch, Z), batch + Z)
    many = torch.stack([Q, Q])
    found = torch.func.vmap(lambda q: attention(q, q, q, scale=1.0))(many)
    same(found, torch.stack([attended(1.0)] * 2))


def test_derivatives_are_given_or_refused(softmax):
    transformed: list[Callable[[], Any]] = [
        lambda: softmax(X.clone().requires_grad_()),
        lambda: softmax(X, Y=torch.empty(8, 8, requires_grad=True)),
        lambda: torch.func.grad(lambda t: softmax(t).sum())(X),
        lambda: torch.func.jvp(softmax, (X,), (Z,)),
    ]
    for call in transformed:
        with pytest.raises(InputError, match="C142"):
            call()
    with forward_ad.dual_level(), pytest.raises(InputError, match="forward-mode"):
        softmax(forward_ad.make_dual(X, Z))
    with forward_ad.dual_level():
        same(softmax(X), SOFTMAX)


def test_a_backward_meets_scalars_outputs_and_transforms():
    def back(g: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        return g, None, None

    kernel = _kernel("attention", backward=back)
    leaf = Q.clone().requires_grad_()
    found = kernel(leaf, Q, Q, scale=1.0)
    same(found.detach(), attended(1.0))
    found.sum().backward()
    assert leaf.grad is not None
    same(leaf.grad, torch.ones_like(Q))
    with pytest.raises(InputError, match="an output is given"):
        kernel(leaf, Q, Q, O=torch.empty_like(Q))
    relu = _kernel("relu", backward=lambda g, x: g * (x > 0))
    with pytest.raises(InputError, match="differentiates an input"):
        torch.func.grad(lambda t: relu(t).sum())(X)


def test_a_logic_without_an_operator_is_as_careful(tmp_path):
    from tests.api.test_compile import LOGIC

    (tmp_path / "gemm_logic.py").write_text(LOGIC)
    kernel = septran.compile(logic_file=tmp_path / "gemm_logic.py", target="cpp", verify=False)
    same(kernel(X, Z.T), X @ Z.T)
    same(kernel(X, torch._neg_view(Z)), -(X @ Z))
    with pytest.raises(InputError, match="C142"):
        kernel(X.clone().requires_grad_(), Z)
    y = X.clone()
    with pytest.raises(TypeError, match="C is written and shares memory"):
        kernel(y, y, Z)
    with pytest.raises(TypeError, match="C is written and must be contiguous"):
        kernel(torch.empty(8, 8).T, X, Z)
    with pytest.raises(TypeError, match="has no operator"):
        kernel(X.to("meta"), Z.to("meta"))
    with pytest.raises(TypeError, match="has no operator"):
        torch.func.vmap(kernel)(torch.stack([X, X]), torch.stack([Z, Z]))


@pytest.mark.wider
def test_torch_compile_keeps_scalars_and_given_outputs(softmax, attention):
    found = whole(lambda t: attention(t, t, t, scale=1.0))(Q)
    same(found, attended(1.0))
    same(whole(lambda t: attention(t, K=t, V=t))(Q), attended(16**-0.5))
    y = torch.empty(8, 8)
    assert whole(lambda t: softmax(t, Y=y))(X) is y
    same(y, SOFTMAX)
    y.zero_()
    whole(lambda out, t: softmax(out, t))(y, X)
    same(y, SOFTMAX)
    torch._dynamo.reset()
    dynamic = torch.compile(lambda t: softmax(t), fullgraph=True, backend="eager", dynamic=True)
    for rows in (8, 3):
        same(dynamic(X[:rows]), SOFTMAX[:rows])


def test_torch_export_keeps_the_kernel(softmax):
    class Module(torch.nn.Module):
        def forward(self, t: torch.Tensor) -> Any:
            return softmax(t)

    program = torch.export.export(Module(), (X,))
    assert any("septran" in str(node.target) for node in program.graph.nodes)
    same(program.module()(Z), Z.softmax(-1))


def test_numpy_in_and_out(softmax, add):
    array = X.numpy()
    same(softmax(np.asfortranarray(array)), SOFTMAX)
    same(softmax(np.broadcast_to(array[0], (8, 8))), X[:1].expand(8, 8).softmax(-1))
    assert isinstance(add(array, Z), torch.Tensor)
    y = np.empty((8, 8), np.float32)
    assert softmax(array, Y=y) is y
    same(y, SOFTMAX)
    y.flags.writeable = False
    for bad, told in (
        ({"Y": y}, "Y is a read-only array"),
        ({"Y": np.empty((8, 8), np.float64)}, "Y is float64, X is float32"),
    ):
        with pytest.raises(TypeError, match=told):
            softmax(array, **bad)
    for value in (
        array.astype(">f4"),
        array[:, ::-1],
        np.ma.masked_array(array, array > 0),
        np.float32(1),
        array.astype(object),
        array.view([("a", "f4")]),
        array.astype(np.int32),
    ):
        with pytest.raises(TypeError, match="softmax: X"):
            softmax(value)


@pytest.mark.filterwarnings("ignore")  # torch's own, of what it is about to drop
@pytest.mark.parametrize(
    "make",
    [
        lambda: X.int(),
        lambda: X > 0,
        lambda: X.to(torch.float8_e4m3fn),
        lambda: X.cfloat(),
        lambda: X.to_sparse_csr(),
        lambda: X.to_mkldnn(),
        lambda: torch.nested.nested_tensor([X, Z]),
        lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.quint8),
        lambda: X[0],
        lambda: X[None],
        lambda: torch.tensor(1.0),
        lambda: {"X": X},
        lambda: (X,),
        lambda: None,
        lambda: type(X),
        lambda: "softmax",
        lambda: memoryview(b"12"),
    ],
)
def test_values_that_are_no_plain_matrix_are_type_errors(softmax, make):
    with pytest.raises(TypeError, match="softmax: X") as caught:
        softmax(make())
    assert "kernel(X[M N])" in str(caught.value)


@pytest.mark.parametrize(
    ("scale", "told"),
    [
        ("big", "not a number"),
        (True, "not a number"),
        (torch.tensor(1.0), "not a number"),
        (float("nan"), "not a finite number"),
        (float("inf"), "not a finite number"),
        (1j, "not a number"),
    ],
)
def test_scalars_are_finite_numbers(attention, scale, told):
    with pytest.raises(TypeError, match=f"scale is .*{told}"):
        attention(Q, Q, Q, scale=scale)


def test_scalars_of_any_kind_of_number(attention):
    for scale in (1, np.float32(1), np.int64(1)):
        same(attention(Q, Q, Q, scale=scale), attended(1.0))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"op": 3}, "op is a int, not a str"),
        ({"op": "add", "target": 1}, "target is a int"),
        ({"op": "add", "arch": b"x"}, "arch is a bytes"),
        ({"op": "add", "verify": "no"}, "verify is 'no', not True or False"),
        ({"op": "add", "backward": "no"}, "backward is a str, not a function"),
        ({"op": "add", "logic_file": torch.nn.ReLU()}, "a module and op="),
        ({"op": "add", "logic_file": "x.py"}, "one of them"),
        ({"op": "add", "mode": "train"}, "mode is 'train'"),
    ],
)
def test_compile_names_what_is_wrong(given, told):
    with pytest.raises(ArgumentError, match=told):
        septran.compile(**given)


def test_a_kernel_looks_like_a_function(softmax, attention):
    assert softmax.__name__ == "softmax"
    assert str(inspect.signature(softmax)) == "(X, *, Y=None, out=None)"
    assert str(inspect.signature(attention)) == "(Q, K, V, *, O=None, out=None, scale=None)"
    assert copy.copy(softmax) is not softmax
    same(copy.deepcopy(softmax)(X), SOFTMAX)
    same(softmax(X, Y=None), SOFTMAX)
