"""Calls that go straight to the kernel mean what calls through Python's checks mean."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import septran
from septran.call import kernel as calls
from septran.errors import InputError
from septran.toolchain import launcher


@pytest.fixture(scope="module", params=["direct", "asked"])
def add(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """The kernel, once with what torch's libraries export, once without: each torch may lack a function of direct.h."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "asked":
            patch.setattr(launcher, "_FLAGS", (*launcher._FLAGS, "-DST_ASK_PYTHON"))
            kind = launcher.extension.__wrapped__()
            patch.setattr(launcher, "extension", lambda: kind)
        yield _add()


def _add() -> Callable[..., Any]:
    found: Callable[..., Any] = septran.compile(op="add")
    x = torch.rand(3, 5)
    assert torch.equal(found(x, x), x + x)
    return found


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the calls that are met with the parameters in Python."""
    seen: list[int] = []
    real = calls.bind

    def bind(*given: Any) -> Any:
        seen.append(1)
        return real(*given)

    monkeypatch.setattr(calls, "bind", bind)
    return seen


def test_the_second_call_of_a_kind_is_quick(add, slow):
    x, z = torch.rand(3, 5), torch.rand(3, 5)
    found = add(x, z)
    assert torch.equal(found, x + z)
    assert found.shape == (3, 5) and found.is_contiguous() and not found.requires_grad
    assert slow == []
    assert torch.equal(add(x.view(15), z.view(15)), (x + z).view(15))  # another shape: once
    assert len(slow) == 1
    assert torch.equal(add(x.view(15), z.view(15)), (x + z).view(15))
    assert len(slow) == 1


def test_results_are_new_memory_that_outlives_the_kernel(add, slow):
    x = torch.rand(3, 5)
    one, two = add(x, x), add(x, x)
    one.fill_(7)
    assert torch.equal(two, x + x)
    two.resize_(15)
    assert slow == []


@pytest.mark.filterwarnings("ignore:.*strided and is copied")
def test_what_is_not_plain_is_right_all_the_same(add, slow):
    x, z = torch.rand(3, 5), torch.rand(3, 5)
    assert torch.equal(add(x, torch._neg_view(z)), x - z)
    assert torch.equal(add(torch.rand(5, 3).T.copy_(x), z), x + z)
    assert len(slow) == 2
    with pytest.raises(InputError, match="C142"):
        add(x.clone().requires_grad_(), z)
    for wrong in ((x,), (x, z, z, z), (x, 1.0), (x, z.double()), (x, z[:2]), (x, z.to("meta"))):
        with pytest.raises((TypeError, NotImplementedError)):
            add(*wrong)


@pytest.mark.filterwarnings("ignore:.*strided and is copied")
def test_given_outputs_and_numpy_stay_as_they_were(add, slow):
    x = torch.rand(3, 5)
    y = torch.empty(3, 5)
    assert add(x, x, Y=y) is y
    assert torch.equal(y, x + x)
    assert slow == []
    with pytest.raises(TypeError):
        add(x, x, Y=torch.empty(5, 3))
    wide = torch.zeros(3, 10)
    add(x, x, Y=wide[:, ::2])
    assert torch.equal(wide[:, ::2], x + x)
    assert (add(x.numpy(), x.numpy()) == (x + x).numpy()).all()
    negative = torch._neg_view(torch.zeros(3, 5))
    add(x, x, Y=negative)
    assert torch.equal(negative, x + x)


def test_without_the_extension_calls_are_checked_in_python(monkeypatch, tmp_path):
    monkeypatch.setattr(launcher, "extension", lambda: None)
    kernel = septran.compile(op="add")
    x = torch.rand(3, 5)
    assert torch.equal(kernel(x, x), x + x)
    assert torch.equal(kernel(x, x), x + x)


def test_the_extension_is_built_once_for_all_kernels():
    kind = launcher.extension()
    if kind is None:
        assert not (Path(sys.prefix) / "include" / "Python.h").is_file()
        return
    assert launcher.extension() is kind


@pytest.mark.parametrize(("count", "rank"), [(513, 1), (3, 9)])
def test_more_tensors_or_dims_than_it_has_room_for_are_refused(count, rank):
    kind = launcher.extension()
    if kind is None:
        return
    with pytest.raises(ValueError, match="too many"):
        kind("libc.so.6", "getpid", ((2, 32, (1,) * rank, False),) * count, print)


def test_a_kernel_it_has_no_room_for_is_called_all_the_same(monkeypatch):
    def full(*_: object) -> None:
        raise ValueError("too many tensors")

    monkeypatch.setattr(launcher, "extension", lambda: full)
    x = torch.rand(7)
    kernel = septran.compile(op="add")
    assert torch.equal(kernel(x, x), x + x)


def test_parameters_without_gradients_are_quick(add, slow):
    x, z = torch.rand(3, 5), torch.rand(3, 5)
    assert torch.equal(add(torch.nn.Parameter(x, requires_grad=False), z), x + z)
    with torch.no_grad():
        assert torch.equal(add(torch.nn.Parameter(x), z), x + z)
        assert torch.equal(add(x.clone().requires_grad_(), z), x + z)
    assert slow == []


@pytest.mark.filterwarnings("ignore:.*strided and is copied")
def test_a_quick_call_sees_what_torch_says_of_a_tensor(add, slow):
    """Gradients, inference, derivatives and transforms, read from torch's own libraries or through Python."""
    x, z = torch.rand(3, 5), torch.rand(3, 5)
    wanted = x.clone().requires_grad_()
    with torch.no_grad():
        assert torch.equal(add(wanted, z), x + z)
    with torch.inference_mode():
        made = add(x, z)
    assert made.is_inference()
    assert slow == []
    add(x, torch._neg_view(z))
    add(x, z.T.contiguous().T)
    assert len(slow) == 2
    with pytest.raises(InputError, match="C142"):
        add(wanted, z)
    assert torch.equal(torch.func.vmap(add)(torch.stack([x, z]), torch.stack([z, z]))[1], z + z)
    assert torch.equal(add(x, z), x + z)  # functions of torch.func leave marks behind


def test_results_are_torchs_own_tensors(add, slow):
    """Of the dtype of the inputs."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x = torch.rand(3, 5).to(dtype)
        add(x, x)
        slow.clear()
        found = add(x, x)
        assert slow == []
        assert type(found) is torch.Tensor and found.dtype == dtype
        assert torch.equal(found, x + x)


def test_a_kernel_that_is_only_called_with_its_output_is_quick(slow):
    kernel = septran.compile(op="add")
    x, y = torch.rand(3, 5), torch.empty(3, 5)
    for _ in range(3):
        assert kernel(x, x, Y=y.zero_()) is y
        assert torch.equal(y, x + x)
    assert len(slow) == 1


def test_quick_calls_have_no_frame_of_python(add):
    """Where the extension is; what they do not take is met with in Python, whose `__call__` may be replaced."""
    if launcher.extension() is None:
        pytest.skip(
            "the extension cannot be built: no Python headers, or a torch without the exchange API"
        )
    x, y = torch.rand(3, 5), torch.empty(3, 5)
    add(x, x)
    frames: list[str] = []

    def seen(frame: Any, event: str, _: object) -> None:
        if event == "call":
            frames.append(frame.f_code.co_name)

    sys.setprofile(seen)
    try:
        quick = add(x, x)
        add(x, x, Y=y)
        written = add(x, x, out=y)
    finally:
        sys.setprofile(None)
    assert torch.equal(quick, x + x) and torch.equal(y, x + x) and written is y
    assert "__call__" not in frames


def test_an_output_is_called_out_as_torch_has_it(add):
    x, y = torch.rand(3, 5), torch.zeros(3, 5)
    for named in ({"out": y}, {"out": (y,)}, {"Y": y}):
        assert add(x, x, **named) is y
        assert torch.equal(y, x + x)
    assert torch.equal(add(x, x, out=None), x + x)
    array = y.numpy()
    assert add(x.numpy(), x.numpy(), out=array) is array
    both = x.clone()
    assert add(both, x, out=both) is both and torch.equal(both, x + x)
    for named, told in (
        ({"out": y, "Y": y}, "given twice"),
        ({"out": (y, y)}, "out is one tensor"),
        ({"out": 3}, "Y is a int"),
    ):
        with pytest.raises(TypeError, match=told):
            add(x, x, **named)
    assert "out" in str(inspect.signature(add))


def test_an_output_by_its_place_alone_overwrites_no_input(add):
    x, z, y = torch.rand(3, 5), torch.rand(3, 5), torch.empty(3, 5)
    order = list(add.entry.params)
    named = {"X": x, "Z": z, "Y": y}
    assert add(*(named[n] for n in order)) is y and torch.equal(y, x + z)
    kept = x.clone()
    with pytest.raises(TypeError, match="lies in the memory of another one"):
        add(*({**named, "Y": x}[n] for n in order))
    assert torch.equal(x, kept)


@pytest.mark.parametrize("named", [{"Y": None}, {"Z": None}, {"Y": None, "Z": None}, {"other": 1}])
def test_keywords_that_are_not_the_outputs_are_met_in_python(add, named):
    x, y = torch.rand(3, 5), torch.empty(3, 5)
    values = {name: y if name == "Y" else x for name in named}
    if "other" in named:
        with pytest.raises(TypeError, match="C140"):
            add(x, x, **values)
        return
    found = add(*(x for _ in range(2 - ("Z" in named))), **values)
    assert torch.equal(y if found is None else found, x + x)


def test_a_class_whose_call_is_not_pythons_is_left_alone():
    kind = launcher.extension()
    if kind is None:
        pytest.skip("the extension cannot be built")
    for other in (int, type("NoCall", (), {}), 3):
        with pytest.raises(TypeError):
            kind.direct(other)


def test_objects_without_kernels_are_called_in_python():
    """A class may have `_quick` of another type, and errors of kernels are the call's."""
    kind = launcher.extension()
    if kind is None:
        pytest.skip("the extension cannot be built")

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    class Called:
        _quick: Any = ()
        _into: Any = 3
        _outputs: Any = ("y",)

        def __call__(self, *values: Any, **named: Any) -> Any:
            return values, named

    kind.direct(Called)
    kind.direct(Called)
    one = Called()
    assert one(1, 2) == ((1, 2), {})
    assert one(1, y=2) == ((1,), {"y": 2})
    one._quick = (lambda *_: NotImplemented, lambda *v: sum(v))
    assert one(1, 2) == 3
    one._into = (lambda *v: v,)
    assert one(1, y=2) == (1, 2)
    assert one(*range(80), y=2) == (tuple(range(80)), {"y": 2})
    one._outputs = ("a", "b")
    assert one(0, b=1, a=2) == (0, 2, 1)
    assert one(0, b=1) == ((0,), {"b": 1})
    one._quick = (fails,)
    with pytest.raises(ZeroDivisionError):
        one(1)
    del Called._quick, one._quick
    with pytest.raises(AttributeError):
        one(1)
