"""A host function that somebody else wrote, called on the CPU as if its tensors lay on a GPU.

Two modes of torch stand around each call. `Machine` answers what a host asks about the device (`x.is_cuda`,
`device="cuda"`, the number of multiprocessors). `Gate` lets allocations, views, copies, fills and launches pass
and refuses every other operator of torch: what a kernel is judged for, the kernel does. Both hold during a launch, too: a grid
function, an argument's `data_ptr` and a helper that device code calls are the file's own Python, not the device's.
Lies beside a judged kernel as septran_torch_host.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import sys
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from septran_torch_lasting import Lasting
from septran_torch_left import Before, Untyped
from septran_torch_mixed import MAY_COMPUTE, NEVER, Mixed, word
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

DEVICE = torch.device("cuda", 0)

EMPTY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
_MADE = (
    *EMPTY,
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
    *("full", "full_like", "new_full", "arange", "scalar_tensor", "lift_fresh", "lift_fresh_copy"),
)
_COPIES = (
    "clone",
    "_to_copy",
    "copy",
    "contiguous",
    "copy_",
    "detach",
    "_reshape_alias",
    "constant_pad_nd",
)
_FILLS = ("fill_", "zero_", "fill")
_VIEWS = (
    *(
        "view",
        "_unsafe_view",
        "reshape",
        "alias",
        "as_strided",
        "expand",
        "permute",
        "transpose",
        "t",
    ),
    *(
        "squeeze",
        "unsqueeze",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "narrow",
    ),
    *("movedim", "flatten", "unflatten", "view_as", "diagonal", "unfold", "view_as_real", "set_"),
)
_ASKS = (
    *("promote_types", "result_type", "can_cast"),
    "is_same_size",
    "is_contiguous",
    "numel",
    "sym_size",
    "sym_numel",
    "sym_stride",
    "_has_same_storage_numel",
)


_UNWRITTEN = (float("nan"), float("nan"), 0.0, float("nan"), 0.5)
"""what memory holds that nobody wrote, by the number of the call: a kernel may tell NaN from what it finds on a device"""


class HostError(RuntimeError):
    """What the host function may not do, or what its result is not."""


class Watch(Protocol):
    """What a `Gate` tells of memory. stored: places that launches stored to. last_error: kept, as a library may wrap it."""

    memories: list[Any]
    stored: set[int]
    last_error: str

    def forget(self) -> None:
        """Allow nothing: the next call has other memory."""

    def add(
        self, address: int, nbytes: int, itemsize: int, name: str, *, writable: bool = True
    ) -> None:
        """Allow [address, address + nbytes), holding items of `itemsize` bytes."""


class Gate(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Lets allocations, views, copies and fills pass; watches all memory that it sees."""

    def __init__(self, watch: Watch, file: str) -> None:
        super().__init__()
        self.watch, self.file = watch, file
        self.mixed = Mixed()
        self.called = ""
        self.launching = False
        self.calls = 0
        self.kept: list[Any] = []
        self.lasting = Lasting()
        self.known: dict[int, str] = {}
        self.inputs: set[int] = set()
        self.untyped = Untyped()

    def begin(self, tensors: list[tuple[str, Any, bool]]) -> None:
        """Forget the last call; `tensors`: (name, tensor, whether a kernel may write it)."""
        self.watch.forget()
        self.watch.stored.clear()
        for tensor in self.kept:
            self.lasting.note(tensor, self.known[self._place(tensor)])
        self.kept.clear()
        self.mixed.begin(tuple(t for _, t, _ in tensors))
        self.known.clear()
        self.inputs.clear()
        self.untyped.places.clear()
        for name, tensor, writable in tensors:
            place = self._place(tensor)
            self.known[place] = name
            if not writable:
                self.inputs.add(place)
            # of a part of a larger tensor no more than the part
            size, item = tensor.numel() * tensor.element_size(), tensor.element_size()
            self.watch.add(tensor.data_ptr(), size, item, name, writable=writable)
        for place, size, item, name in self.lasting.alive():
            if place not in self.known:
                self.known[place] = name
                self.watch.add(place, size, item, name)

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Stand where the file is imported and its objects are made: what lives on is memory of every call."""
        with Machine(self), self.lasting.noting(self.line):
            yield

    def __torch_dispatch__(
        self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.split("::")[-1]
        if name in _VIEWS or name in _ASKS:
            return func(*args, **kwargs)
        if name in _FILLS or name == "copy_":
            self._may_write(args[0], name)
        if name in _MADE or name in _COPIES or name in _FILLS:
            made = func(*args, **kwargs)
            self._adopt(made, name, args)
            return made
        return self._computed(func, name, args, kwargs)

    def _computed(self, func: Any, name: str, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Let torch compute where the user allows it; where not, the call goes on to tell all that would have to be, and is refused then."""
        said = self.called or name
        changes = func._schema.is_mutable
        random = torch.Tag.nondeterministic_seeded in func.tags
        if self.launching or random or name in NEVER:
            raise self.refused(
                f"calls torch's {said}", "the kernel has to compute, not its host function"
            )
        for at, formal in enumerate(func._schema.arguments):
            if formal.alias_info is not None and formal.alias_info.is_write:
                self._may_write(args[at] if at < len(args) else kwargs[formal.name], said)
        if not self.mixed.note(said, name, self.line()):
            self.refused(*self.mixed.told())
        into = (
            {self._place(kwargs["out"])} if isinstance(kwargs.get("out"), torch.Tensor) else set()
        )
        leaves = torch.utils._pytree.tree_leaves
        read = [t for t in leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        mine = [t for t in read if self.made_by_launch(t) and self._place(t) not in into]
        solid = any(self._solid(t) for t in mine)
        made = func(*args, **kwargs)
        if not changes:
            self._adopt(made, name, args)
        for tensor in (t for t in leaves(made) if isinstance(t, torch.Tensor)):
            place = self._place(tensor)
            self.watch.stored.discard(place)
            self.mixed.made_of(tensor, place, of_launch=bool(mine), solid=solid)
        return made

    def _solid(self, tensor: Any) -> bool:
        """Return whether a launch did more than copy for what `tensor` holds."""
        place = self._place(tensor)
        if place in self.mixed.solid:
            return True
        if place not in self.watch.stored:
            return False
        with own_work():
            inputs = [t for t in self.mixed.given if self._place(t) in self.inputs]
            return bool(self.mixed.is_new(tensor, inputs))

    def end(self, results: list[Any]) -> None:
        """Leave what torch computed in this call, and whether launches did more than copy it, where the judge reads it."""
        if MAY_COMPUTE:
            self.mixed.leave(any(self._solid(t) for t in results))

    def _may_write(self, target: Any, name: str) -> None:
        if self._place(target) in self.inputs:
            raise self.refused(f"writes input {self.known[self._place(target)]} ({name})", "")

    def _adopt(self, made: Any, name: str, args: tuple[Any, ...]) -> None:
        """Watch new memory; what was allocated empty holds NaN, a copy of a result is a result."""
        for tensor in torch.utils._pytree.tree_leaves(made):
            if not isinstance(tensor, torch.Tensor):
                continue
            place = self._place(tensor)
            if place not in self.known and tensor.untyped_storage().nbytes():
                self.kept.append(tensor)
                self.known[place] = f"a tensor made in line {self.line()}"
                size, item = tensor.untyped_storage().nbytes(), tensor.element_size()
                self.watch.add(place, size, item, self.known[place])
                if name in EMPTY:
                    poison(tensor, _UNWRITTEN[self.calls % len(_UNWRITTEN)])
            if name in _COPIES:
                sources = {self._place(a) for a in args if isinstance(a, torch.Tensor)}
                if sources & self.watch.stored:
                    self.watch.stored.add(place)
                elif sources & self.mixed.derived:
                    self.mixed.derived.add(place)
                if sources & self.mixed.solid:
                    self.mixed.solid.add(place)

    def made_by_launch(self, tensor: Any) -> bool:
        """Return whether a launch stored to the memory of `tensor`, or it is a copy of such memory, or torch was allowed to compute it of some."""
        return self._place(tensor) in self.watch.stored | self.mixed.derived

    def refused(self, what: str, why: str) -> HostError:
        """Return the error to raise; the text is kept, as Triton may wrap what it catches."""
        where = "" if " in line " in what else f" in line {self.line()}"
        text = f"the host function {what}{where}"
        self.watch.last_error = f"host: {text}{f'; {why}' if why else ''}"
        return HostError(self.watch.last_error)

    def line(self) -> int:
        """Return the line of the file that is judged, of the innermost of its frames."""
        frame: Any = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename == self.file:
                return int(frame.f_lineno)
            frame = frame.f_back
        return 0

    @staticmethod
    def _place(tensor: Any) -> int:
        return int(tensor.untyped_storage().data_ptr())


@contextlib.contextmanager
def own_work() -> Iterator[None]:
    """Neither mode sees what an emulator itself does with tensors."""
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


def poison(tensor: Any, number: float = float("nan")) -> None:
    """Fill memory that nobody has written with what shows: a number, and of integers 77 for NaN and 1, which an open lock is not, for a half."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    whole = whole.set_(tensor.untyped_storage(), 0, (size,), (1,))
    if not tensor.is_floating_point() and number != 0:
        number = 1 if tensor.dtype == torch.bool or number == number else 77
    whole.fill_(number)


class Machine(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
    """Says that tensors lie on a GPU; nothing of torch's own has to be there."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self.gate = gate
        reads = ("numpy", "tolist", "item", "__array__", "__float__", "__int__", "__bool__", "__index__")  # fmt: skip
        self.reads = {getattr(torch.Tensor, name) for name in reads}

    def __torch_function__(
        self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        self.gate.untyped.refuse(func, args, kwargs, self.gate.file, self.gate._place)
        if func == torch.Tensor.device.__get__:  # type: ignore[attr-defined,unused-ignore]
            return DEVICE
        if func == torch.Tensor.is_cuda.__get__ or func is torch.Tensor.is_shared:  # type: ignore[attr-defined,unused-ignore]
            return True
        if func == torch.Tensor.is_cpu.__get__:  # type: ignore[attr-defined,unused-ignore]
            return False
        if func is torch.Tensor.get_device:
            return 0
        if func is torch.Tensor.type and len(args) == 1 and not kwargs:
            return str(func(*args)).replace("torch.", "torch.cuda.", 1)
        if func is torch.Tensor.cpu:
            return args[0].clone()  # the host has memory of its own
        if func in self.reads:
            raise self.gate.refused("reads a tensor's values", "a launch is what may look at them")
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.to:
            if "cpu" in map(_kind_of, (*args[1:], kwargs.get("device"))):
                kwargs["copy"] = True
            args = tuple(a for a in args if not _is_device(a))
            kwargs.pop("device", None)
            if len(args) == 1 and not kwargs:
                return args[0]
        if kwargs.get("device") is not None:
            kwargs["device"] = "cpu"
        kwargs.pop("pin_memory", None)
        outer = self.gate.called
        self.gate.called = outer or word(func)
        try:
            made = func(*args, **kwargs)
        finally:
            self.gate.called = outer
        if isinstance(made, torch.Tensor):
            given = torch.utils._pytree.tree_leaves((args, kwargs))
            self.gate.untyped.note(made, given, self.gate._place, lasts=not self.gate.calls)
        return made


def _kind_of(value: Any) -> str:
    """Return what kind of device a value names, "" where it names none."""
    if isinstance(value, torch.device):
        return str(value.type)
    kind = value.split(":")[0] if isinstance(value, str) else ""
    return kind if kind in ("cuda", "cpu") else ""


def _is_device(value: Any) -> bool:
    return bool(_kind_of(value))


def deliver(result: Any, outputs: list[tuple[str, Any]], gate: Gate) -> None:
    """Copy what the host function returned into the outputs.

    Raises:
        HostError: as `matched`, or no launch computed one of them.
    """
    given = matched(result, outputs)
    for (name, target), one in zip(outputs, given, strict=True):
        if one.numel() and not gate.made_by_launch(one):
            text = f"host: {name} was returned without a launch that stored to it"
            gate.watch.last_error = text
            raise HostError(text)
        target.copy_(one.detach().reshape(target.shape))
    gate.end(given)


def matched(result: Any, outputs: list[tuple[str, Any]]) -> list[Any]:
    """Return a host function's results, one for each output.

    Raises:
        HostError: they are not as many tensors of these shapes and dtypes.
    """
    given = list(result) if isinstance(result, (tuple, list)) else [result]
    given = (
        given[: len(outputs)]
        if len(given) > len(outputs) > 0 and _extras(given, outputs)
        else given
    )
    if len(given) != len(outputs):
        raise HostError(
            f"host: the function returns {len(given)} results, the reference {len(outputs)}"
        )
    for (name, target), one in zip(outputs, given, strict=True):
        if not isinstance(one, torch.Tensor):
            raise HostError(
                f"host: the function returns a {type(one).__name__} for {name}, not a tensor"
            )
        if (tuple(one.shape) or (1,)) != tuple(target.shape):
            raise HostError(
                f"host: {name} has shape {tuple(one.shape)}, the reference's has {tuple(target.shape)}"
            )
        if one.dtype != target.dtype:
            raise HostError(
                f"host: {name} is {word_of(one.dtype)}, the reference's is {word_of(target.dtype)}"
            )
    return given


def passed(one: dict[str, Any], tensors: dict[str, Any]) -> Any:
    """Return an argument of the plan: a tensor, a value, or a list or tuple of these."""
    if one.get("many"):
        items = [passed(part, tensors) for part in one["items"]]
        return items if one["many"] == "list" else tuple(items)
    return tensors[one["param"]] if one["param"] else one["value"]


def begin_in_place(args: list[dict[str, Any]], tensors: dict[str, Any]) -> None:
    """Give results that a host function makes of its inputs in place those inputs' values; args: as of the plan."""
    with torch.no_grad():
        for one in args:
            if one["begins"]:
                tensors[one["param"]].copy_(tensors[one["begins"]].detach())


def written(outputs: list[tuple[str, Any]], gate: Gate) -> None:
    """Look at outputs that the host function was handed, where torch may compute.

    Raises:
        HostError: no launch computed one of them.
    """
    for name, target in outputs:
        if MAY_COMPUTE and target.numel() and not gate.made_by_launch(target):
            gate.watch.last_error = f"host: {name} was written without a launch that stored to it"
            raise HostError(gate.watch.last_error)
    gate.end([t for _, t in outputs])


def _extras(given: list[Any], outputs: list[tuple[str, Any]]) -> bool:
    """Whether the first results are the outputs (a kernel may also return what its backward pass needs)."""
    return all(
        isinstance(g, torch.Tensor) and g.shape == t.shape
        for g, (_, t) in zip(given, outputs, strict=False)
    )


def word_of(dtype: Any) -> str:
    """Return a dtype's name as messages have it."""
    return str(dtype).removeprefix("torch.")


def gate_digest(gate: Gate) -> bytes:
    """Return a digest of the first bytes of all inputs."""
    found = hashlib.sha256()
    for memory in gate.watch.memories:
        if not memory.writable:
            count = min(256, memory.high - memory.low)
            found.update(bytes((ctypes.c_char * count).from_address(memory.low).raw))
    return found.digest()


@contextlib.contextmanager
def around(gate: Gate, tensors: list[tuple[str, Any, bool]]) -> Iterator[Gate]:
    """Stand around one call of a host function; `tensors` as of `Gate.begin`."""
    gate.begin(tensors)
    gate.calls += 1
    # users call kernels with and without gradients
    with torch.set_grad_enabled(gate.calls % 2 == 1), Machine(gate), gate:
        with own_work():
            before = Before(tensors)
        yield gate
        if gate.mixed.beyond:
            raise gate.refused(*gate.mixed.told())
        with own_work():
            changed = before.changed()
        if changed:
            gate.watch.last_error = f"host: the host function {changed}"
            raise HostError(gate.watch.last_error)
