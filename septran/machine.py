"""Machine facts: processors, memories and leaf kernels of a target, read from configs/machines/."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from septran import spanyaml
from septran.assets import find
from septran.errors import ConfigError, closest
from septran.ir.dtypes import DTYPES
from septran.ir.nodes import PRIMITIVE_NAMES
from septran.speed import Speed, read_speed

_KEYS = {
    "memories": ("capacity", "visible_from", "aliases", "copy", "align", "locals"),
    "leaf_kernels": ("prims", "dtypes", "mems", "requires"),
}
_WORDS = {"copy": ("sync", "async"), "prims": PRIMITIVE_NAMES, "dtypes": tuple(DTYPES)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory of a machine.

    capacity: bytes per processor that owns it, None = unbounded. visible_from: the outermost
    processor level that can address it. copy: "async" when copies into it must be waited for.
    locals: the innermost processor level at which a task can make a tensor of its own in it ("" = any).
    """

    name: str
    capacity: int | None
    visible_from: str
    aliases: tuple[str, ...] = ()
    copy: str = "sync"
    align: int = 1
    locals: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafKernel:
    """A named library leaf: which primitives it implements, on which dtypes and memories.

    requires: integer expressions over the primitive's index letters (m, n, k) of static tiles.
    """

    name: str
    prims: tuple[str, ...]
    dtypes: tuple[str, ...] = ()
    mems: Mapping[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """procs: outermost first; the first one is HOST. facts: sentences for whoever writes a leaf. speed: how fast it is."""

    name: str
    procs: tuple[str, ...]
    memories: Mapping[str, Memory]
    limits: Mapping[str, Any]
    leaf_kernels: Mapping[str, LeafKernel]
    facts: tuple[str, ...] = ()
    speed: Speed | None = None

    def memory(self, name: str) -> Memory | None:
        """Return the memory called `name` or having it as an alias."""
        if name in self.memories:
            return self.memories[name]
        for memory in self.memories.values():
            if name in memory.aliases:
                return memory
        return None

    def capacity(self, name: str) -> int:
        """Return the bytes of memory `name` (or alias) per processor that owns it.

        Raises:
            KeyError: there is no such memory, or it has no bound.
        """
        memory = self.memory(name)
        if memory is None or memory.capacity is None:
            raise KeyError(f"machine {self.name} does not say how large {name} is")
        return memory.capacity

    def limit(self, name: str) -> int:
        """Return a whole number of the file's `limits`.

        Raises:
            KeyError: the file does not say it.
        """
        value = self.limits.get(name)
        if not isinstance(value, int):
            raise KeyError(f"machine {self.name} does not say {name}")
        return value

    def level(self, proc: str) -> int:
        """Return the depth of a processor level, 0 = HOST."""
        return self.procs.index(proc)


def load_machine(name: str) -> Machine:
    """Return the machine described by `configs/machines/<name>.yaml`.

    Raises:
        ConfigError: C012 no such file, C120 a malformed entry.
    """
    asset = find(f"configs/machines/{name}.yaml")
    doc = spanyaml.load(asset.path)
    data = doc.value

    def wrong(message: str, *path: str | int) -> ConfigError:
        return ConfigError.of("C120", f"machine {name}: {message}", doc.span(*path))

    if not isinstance(data, dict):
        raise wrong("the file must hold a mapping")
    known = {"name", "procs", "memories", "limits", "leaf_kernels", "facts", "speed"}
    for key in data:
        if key not in known:
            raise wrong(f"unknown key {key!r}{closest(key, known)}", key)
    for key in ("procs", "memories"):
        if key not in data:
            raise wrong(f"key {key!r} is missing")
    told = data.get("facts") or []
    if not isinstance(told, list) or not all(isinstance(fact, str) for fact in told):
        raise wrong("facts must be a list of sentences", "facts")
    for part, one in (("memories", "memory"), ("leaf_kernels", "leaf kernel")):
        entries = data.get(part) or {}
        if not isinstance(entries, dict):
            raise wrong(f"{part} must be a mapping", part)
        for key, entry in entries.items():
            if not isinstance(entry, dict | None):
                raise wrong(f"{one} {key} must be a mapping, found {entry!r}", part, key)
            for word in entry or {}:
                if word not in _KEYS[part]:
                    told = f"{one} {key}: unknown key {word!r}{closest(str(word), _KEYS[part])}"
                    raise wrong(told, part, key, word)
            for word, allowed in _WORDS.items():
                given = (entry or {}).get(word, ())
                for item in given if isinstance(given, list | tuple) else (given,):
                    if item not in allowed:
                        told = f"{one} {key}: {word} {item!r} is unknown; known: "
                        told += f"{', '.join(allowed)}{closest(str(item), allowed)}"
                        raise wrong(told, part, key, word)
    limits = data.get("limits")
    speed = read_speed(
        data.get("speed"),
        limits if isinstance(limits, dict) else {},
        lambda message, *path: wrong(f"speed: {message}", "speed", *path),
    )
    try:
        machine = _machine(name, data, tuple(told), speed)
    except (AttributeError, TypeError, ValueError) as e:
        raise wrong(f"a value of the wrong kind: {e}") from e
    words = [*machine.procs, *machine.memories]
    for memory in machine.memories.values():
        words += memory.aliases
        for level in (memory.visible_from, memory.locals):
            if level and level not in machine.procs:
                raise wrong(
                    f"memory {memory.name}: no processor {level!r}", "memories", memory.name
                )
    if not machine.procs or not all(isinstance(word, str) for word in words):
        raise wrong("procs, memories and their aliases are names", "procs")
    return machine


_COLLECTIONS = {"aliases": tuple, "prims": tuple, "dtypes": tuple, "requires": tuple, "mems": dict}


def _read(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what an entry says, lists as tuples."""
    return {
        key: _COLLECTIONS[key](value) if key in _COLLECTIONS else value
        for key, value in (facts or {}).items()
        if value is not None
    }


def _machine(
    name: str, data: dict[str, Any], told: tuple[str, ...], speed: Speed | None
) -> Machine:
    usual: dict[str, Any] = {"capacity": None, "visible_from": data["procs"][0]}
    memories = {
        mem: Memory(name=mem, **{**usual, **_read(facts)})
        for mem, facts in data["memories"].items()
    }
    kernels = {
        kernel: LeafKernel(name=kernel, **{"prims": (), **_read(facts)})
        for kernel, facts in (data.get("leaf_kernels") or {}).items()
    }
    return Machine(
        name=name,
        procs=tuple(data["procs"]),
        memories=memories,
        limits=dict(data.get("limits") or {}),
        leaf_kernels=kernels,
        facts=told,
        speed=speed,
    )
