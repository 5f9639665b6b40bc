"""An extension's functions, called in a process of their own that holds nothing but them.

Its other side is emulator/torch/served.h: a request names a function and holds its values, an answer what it left in the memory of
its tensors and what it returned. Lies beside a judged kernel as septran_extension_host.py.
"""

from __future__ import annotations

import builtins
import ctypes
import fcntl
import json
import os
import struct
from collections.abc import Callable
from typing import Any

import torch
from septran_torch_card import card_of, pretend_cuda
from septran_torch_host import Gate, own_work

_NONE, _TENSOR, _INTEGER, _REAL, _BOOLEAN, _LIST, _TEXT, _DTYPE, _FRESH = range(9)
_DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64),
    *(torch.int16, torch.int8, torch.uint8, torch.bool),
)
"""in the order of c10::ScalarType in include/tensors/tensor.h"""
_IN, _OUT = 3, 4
_DONE, _FOUND = 0, 1
_SIGNALS = {
    6: "an exception, or a check of the C++ library, ended it",
    31: "it asked the operating system for what no kernel needs",
}


class Memory:
    """Memory that the file's own tensors lie in. writable: no input."""

    def __init__(self, low: int, nbytes: int, writable: bool) -> None:
        self.low, self.high, self.writable = low, low + nbytes, writable


class Watch:
    """What a `Gate` tells of memory; launches report through answers."""

    def __init__(self) -> None:
        self.memories: list[Any] = []
        self.stored: set[int] = set()
        self.last_error = ""

    def forget(self) -> None:
        """Allow nothing: the next call has other memory."""
        self.memories.clear()

    def add(
        self, address: int, nbytes: int, itemsize: int, name: str, *, writable: bool = True
    ) -> None:
        """Note memory."""
        self.memories.append(Memory(address, nbytes, writable))


class Found(Exception):
    """What the emulation found in a launch. kind, message: as it words them."""

    def __init__(self, kind: str, message: str, facts: dict[str, Any]) -> None:
        super().__init__(message)
        self.kind, self.message, self.facts = kind, message, facts


class Server:
    """The process that holds the extension's functions."""

    def __init__(self, program: str) -> None:
        self._in, theirs_out = os.pipe()
        theirs_in, self._out = os.pipe()
        # neither may be one of the numbers that they get
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (theirs_in, theirs_out)]
        null = [
            (os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR if fd else os.O_RDONLY, 0)
            for fd in range(3)
        ]
        ends = [(os.POSIX_SPAWN_DUP2, high[0], _IN), (os.POSIX_SPAWN_DUP2, high[1], _OUT)]
        close = [(os.POSIX_SPAWN_CLOSE, fd) for fd in high]
        env = {"MALLOC_PERTURB_": "1"}
        self._pid = os.posix_spawn(program, [program], env, file_actions=[*null, *ends, *close])
        for fd in (theirs_in, theirs_out, *high):
            os.close(fd)

    def ask(self, request: bytes, number: int) -> tuple[int, bytes]:
        """Return how a request was answered, and the answer."""
        try:
            self._write(struct.pack("<QQ", len(request), number) + request)
            status, size = struct.unpack("<BQ", self._read(9))
            return status, self._read(size)
        except (BrokenPipeError, EOFError):
            code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            why = _SIGNALS.get(-code, f"it ended with status {code}")
            raise Found("crash", f"the extension's process is gone: {why}", {}) from None

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            part = os.read(self._in, min(size, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class Extension:
    """What `load_inline` returned: its functions, by name."""

    def __init__(self, calls: dict[str, Callable[..., Any]]) -> None:
        self.__dict__.update(calls)


class Caller:
    """Calls of an extension's functions. gate: of the call that is under way, None between calls."""

    def __init__(self, server: Server, names: list[str], watch: Watch) -> None:
        self._server, self._names, self._watch = server, names, watch
        self.gate: Any = None
        self.number = -1

    def begin(self, gate: Any) -> None:
        """Begin the next call, around which `gate` stands."""
        self.number += 1
        self.gate = gate

    def extension(self, names: list[str]) -> Extension:
        """Return the object that stands for an extension that offers `names`."""

        def function(name: str) -> Callable[..., Any]:
            return lambda *args, **keywords: self.call(name, args, keywords)

        return Extension({name: function(name) for name in names})

    def call(self, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Return what the function `name` returns.

        Raises:
            Found: the emulation found something. TypeError: its parameters take other values. NotImplementedError: by keyword, or too early.
        """
        if self.gate is None:
            raise NotImplementedError(f"{name} is called before the entry is")
        if keywords:
            raise NotImplementedError(f"{name} is given values by keyword")
        with own_work():
            memories = Memories(self.gate)
            values = b"".join(memories.value(a) for a in args)
            head = struct.pack("<I", self._names.index(name))
            request = head + memories.sent() + struct.pack("<I", len(args)) + values
            status, answer = self._server.ask(request, self.number)
            if status == _FOUND:
                first = json.loads(answer)["errors"][0]
                kind, message = first.pop("kind"), first.pop("message")
                raise Found(kind, message, first)
            if status != _DONE:
                text = answer.decode(errors="replace")
                raise (TypeError if "incompatible" in text else RuntimeError)(text)
            return memories.taken(answer, name)


class Memories:
    """The memory of one call's tensors: sent, and taken back."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._number: dict[int, int] = {}
        self._held: list[Any] = []

    def value(self, given: Any) -> bytes:
        """Return a value as a request has it."""
        match given:
            case None:
                return struct.pack("<B", _NONE)
            case torch.Tensor():
                return self._tensor(given)
            case bool():
                return struct.pack("<Bq", _BOOLEAN, given)
            case int():
                return struct.pack("<Bq", _INTEGER, given)
            case float():
                return struct.pack("<Bd", _REAL, given)
            case str():
                raw = given.encode()
                return struct.pack("<BI", _TEXT, len(raw)) + raw
            case torch.dtype() if given in _DTYPES:
                return struct.pack("<Bq", _DTYPE, _DTYPES.index(given))
            case list() | tuple():
                parts = b"".join(self.value(v) for v in given)
                return struct.pack("<BI", _LIST, len(given)) + parts
        raise TypeError(f"incompatible function arguments: a {type(given).__name__}")

    def _tensor(self, t: Any) -> bytes:
        if t.dtype not in _DTYPES:
            raise NotImplementedError(f"a tensor of {t.dtype} for an extension")
        storage = t.untyped_storage()
        place = int(storage.data_ptr())
        number = self._number.setdefault(place, len(self._held))
        if number == len(self._held):
            self._held.append(storage)
        shape = struct.pack(f"<I{2 * t.dim()}q", t.dim(), *t.shape, *t.stride())
        offset = t.storage_offset() * t.element_size()
        return struct.pack("<BIQB", _TENSOR, number, offset, _DTYPES.index(t.dtype)) + shape

    def sent(self) -> bytes:
        """Return the memory that the tensors lie in."""
        parts = [struct.pack("<I", len(self._held))]
        for storage in self._held:
            writable = int(storage.data_ptr()) not in self._gate.inputs
            parts.append(struct.pack("<QB", storage.nbytes(), writable))
            parts.append(ctypes.string_at(storage.data_ptr(), storage.nbytes()))
        return b"".join(parts)

    def taken(self, answer: bytes, name: str) -> Any:
        """Put back what the function changed, and return its result."""
        at = 0
        for storage in self._held:
            flag, at = answer[at], at + 1
            if flag:
                ctypes.memmove(
                    storage.data_ptr(), answer[at : at + storage.nbytes()], storage.nbytes()
                )
                at += storage.nbytes()
            if flag == 2:
                self._gate.stored_by_launch(int(storage.data_ptr()))
        return Answer(answer, at, self._held, self._gate).value(name)


class Answer:
    """The result in an answer."""

    def __init__(self, raw: bytes, at: int, held: list[Any], gate: Gate) -> None:
        self._raw, self._at, self._held, self._gate = raw, at, held, gate

    def _get(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._raw, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def value(self, name: str) -> Any:
        """Return the next value."""
        (tag,) = self._get("B")
        if tag == _TENSOR:
            number, offset = self._get("IQ")
            dtype, sizes = self._shape()
            strides = self._get(f"{len(sizes)}q")
            empty = torch.empty(0, dtype=dtype)
            return empty.set_(self._held[number], offset // empty.element_size(), sizes, strides)
        if tag == _FRESH:
            (launched,) = self._get("B")
            dtype, sizes = self._shape()
            made = torch.empty(sizes, dtype=dtype)
            size = made.untyped_storage().nbytes()
            ctypes.memmove(made.data_ptr(), self._raw[self._at : self._at + size], size)
            self._at += size
            # what is one number throughout may have held that before: then any launch may have stored it
            flat = made.reshape(-1)
            if launched == 1 and made.numel() and bool((flat == flat[0]).all()):
                launched = 2
            self._gate.made_by_extension(made, name, stored=launched == 2)
            return made
        if tag == _LIST:
            (count,) = self._get("I")
            return [self.value(name) for _ in range(count)]
        if tag == _NONE:
            return None
        (found,) = self._get("d" if tag == _REAL else "q")
        return bool(found) if tag == _BOOLEAN else found

    def _shape(self) -> tuple[torch.dtype, tuple[int, ...]]:
        dtype, dims = self._get("BI")
        return _DTYPES[dtype], self._get(f"{dims}q")


class ExtensionGate(Gate):  # type: ignore[misc,unused-ignore]
    """A gate that an extension's functions tell what they made."""

    def stored_by_launch(self, place: int) -> None:
        """Note memory that a launch stored to."""
        self.watch.stored.add(place)

    def made_by_extension(self, tensor: Any, name: str, *, stored: bool) -> None:
        """Note a tensor that the function `name` allocated."""
        self._adopt(tensor, name, ())
        if stored:
            self.watch.stored.add(self._place(tensor))


def install(
    server: Server, names: list[str], parts: list[list[str]], file: str, arch: str
) -> tuple[Watch, Caller, ExtensionGate]:
    """Make torch answer as with a GPU of `arch` and the file find its extensions; return what stands around imports and calls.

    names: of all functions, as the server counts them. parts: of each `load_inline`, the functions it offers.
    """
    watch = Watch()
    gate, caller = ExtensionGate(watch, file), Caller(server, names, watch)
    pretend_cuda(card_of(arch))
    builtins.septran_extension = lambda number: caller.extension(parts[number])  # type: ignore[attr-defined]

    return watch, caller, gate
