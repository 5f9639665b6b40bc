"""What a live module keeps outside of its parameters and buffers: tensors as plain attributes, numbers, lists and objects.

torch.export reads such a tensor once, as a constant, and forgets what `forward` writes to any of it. Here plain tensors
are buffers while the module is exported, so that they are read and written at each call; a change of anything else is found.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_DEEPEST = 6
_MOST = 20_000
"""Values of a module that are looked at."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_RECURRENT = ("_flat_weights", "_flat_weight_refs", "_flat_weights_names")
"""What torch's recurrent layers keep of their own weights, and make again when these are exchanged."""
_NO_STATE = (type, FunctionType, MethodType, ModuleType)


@contextlib.contextmanager
def as_buffers(module: torch.nn.Module) -> Iterator[None]:
    """Have the tensors that are plain attributes as buffers; they are attributes again behind it."""
    moved = []
    for part in module.modules():
        for name, tensor in _attributes(part).items():
            moved.append((part, name, tensor))
            del vars(part)[name]
            part._buffers[name] = tensor.detach() if tensor.requires_grad else tensor
    try:
        yield
    finally:
        for part, name, tensor in moved:
            part._buffers.pop(name, None)
            vars(part)[name] = tensor


def attributes(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors that are plain attributes, by every name that they have in the module."""
    return {
        f"{path}.{name}" if path else name: tensor
        for path, part in module.named_modules(remove_duplicate=False)
        for name, tensor in _attributes(part).items()
    }


def _attributes(part: torch.nn.Module) -> dict[str, torch.Tensor]:
    import torch

    if isinstance(part, torch.jit.ScriptModule):
        return {}
    return {n: v for n, v in vars(part).items() if isinstance(v, torch.Tensor)}


def inside(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors in the lists, dicts and objects that a module holds, by where they are: "caches[0]"."""
    import torch

    return {
        place: value
        for path, _, held in _containers(module)
        for place, value in ((_place(path, key), v) for key, v in held.items())
        if isinstance(value, torch.Tensor)
    }


@dataclass(slots=True)
class Watch:
    """What a module held before it was exported. changed: the first place that `forward` changed, and how; empty where none."""

    module: torch.nn.Module
    before: list[tuple[str, Any, dict[Any, Any]]] = field(default_factory=list)
    changed: str = ""

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watch]:
        """Look at the module while torch traces it, before torch undoes what it undoes; all is as it was behind it."""
        import torch.export._trace as trace

        self.before = list(_containers(self.module))
        undoes = trace._detect_attribute_assignment

        @contextlib.contextmanager
        def looked(root: Any) -> Iterator[Any]:
            with undoes(root) as found:
                yield found
                self._look()

        trace._detect_attribute_assignment = looked
        try:
            yield self
            self._look()
        finally:
            trace._detect_attribute_assignment = undoes
            for _, container, held in self.before:
                _put(container, held)

    def _look(self) -> None:
        for path, container, held in self.before:
            if self.changed:
                return
            now = _held(container)
            for key in (*held, *(k for k in now if k not in held)):
                if key not in now or key not in held or not _same(held[key], now[key]):
                    was, new = (_told(d[key]) if key in d else "nothing" for d in (held, now))
                    self.changed = f"{_place(path, key)} ({was}, then {new})"
                    return


def _containers(module: torch.nn.Module) -> Iterator[tuple[str, Any, dict[Any, Any]]]:
    """Yield each object that holds what the module is made of, its path, and what it holds by attribute, key or number."""
    import torch

    seen: set[int] = set()
    left = _MOST
    todo: deque[tuple[str, Any, int]] = deque()
    for path, part in module.named_modules():
        seen.add(id(part))
        if not isinstance(part, torch.jit.ScriptModule | torch.fx.GraphModule):
            todo.append((path, part, 0))
    while todo and left > 0:
        path, container, depth = todo.popleft()
        held = _held(container)
        left -= len(held)
        yield path, container, held
        for key, value in held.items():
            if depth < _DEEPEST and id(value) not in seen and _holds(value):
                seen.add(id(value))
                place = _place(path, key)
                todo.append((place, value, depth + 1))
                if isinstance(value, torch.nn.Module):  # no child, or it would have been seen
                    own = ("_parameters", "_buffers", "_modules")
                    todo += ((f"{place}.{n}", vars(value)[n], depth + 1) for n in own)


def _held(container: Any) -> dict[Any, Any]:
    import torch

    if isinstance(container, dict):
        return dict(container)
    if isinstance(container, list | tuple | deque):
        return dict(enumerate(container))
    if isinstance(container, set):
        return dict.fromkeys(container)
    found = vars(container)
    if isinstance(container, torch.nn.Module):
        own = {*vars(torch.nn.Module()), *_RECURRENT}
        return {f".{k}": v for k, v in found.items() if k not in own}
    return {f".{k}": v for k, v in found.items()}


def _holds(value: Any) -> bool:
    import torch

    if isinstance(value, dict | list | tuple | set | deque):
        return True
    if isinstance(value, (torch.Tensor, *_PLAIN, *_NO_STATE)) or not hasattr(value, "__dict__"):
        return False
    if isinstance(value, torch.nn.Module):
        return True
    return type(value).__module__.partition(".")[0] not in ("torch", "builtins", "logging")


def _put(container: Any, held: dict[Any, Any]) -> None:
    """Give a container what it held; torch puts copies of lists into the place of lists."""
    now = _held(container)
    if now.keys() == held.keys() and all(now[k] is held[k] for k in held):
        return
    if isinstance(container, dict):
        container.clear()
        container.update(held)
    elif isinstance(container, list):
        container[:] = held.values()
    elif isinstance(container, deque):
        container.clear()
        container.extend(held.values())
    elif isinstance(container, set):
        container.clear()
        container.update(held)
    elif not isinstance(container, tuple):
        for key in now.keys() - held.keys():
            vars(container).pop(key[1:], None)
        vars(container).update({k[1:]: v for k, v in held.items()})


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _PLAIN):
        return bool(a == b or (a != a and b != b))
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return False


def _place(path: str, key: Any) -> str:
    if isinstance(key, str) and key.startswith("."):
        return path + key if path else key[1:]
    return f"{path}[{key!r}]"


def _told(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return "a tensor"
    text = repr(value) if isinstance(value, _PLAIN) else f"a {type(value).__name__}"
    return text if len(text) <= 40 else text[:37] + "..."
