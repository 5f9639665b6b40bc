"""Launches of CUDA kernels, and parallel loops of C++: what a host function does when it is called with known numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from septran.backends.judged.c_device import BLOCKS, THREADS, DeviceFlow
from septran.backends.judged.c_functions import CFile, Closure, CSource
from septran.backends.judged.c_openmp import TEAMS, OpenMpFlow
from septran.backends.judged.c_ratios import whole
from septran.backends.judged.c_source import read_file
from septran.backends.judged.flow import LOOPS
from septran.backends.judged.values import Other, Pointer, Tile, Value
from septran.prove.foreign.launch import Launch, Memory, NotRead
from septran.prove.foreign.quantity import Space, Where


@dataclass(frozen=True, slots=True)
class Given:
    """An argument of the host function: a tensor with its elements and their bytes, or a number."""

    name: str = ""
    elements: int = 0
    item: int = 0
    number: Any = None


def launches(text: str, file: str, entry: str, given: Sequence[Given]) -> tuple[Launch, ...]:
    """Return what `entry` launches when it is called with these arguments, and what it does itself.

    Raises:
        NotRead: the host function, or a kernel, says something that is not read.
    """
    source = read_file(text)
    function = source.functions.get(entry)
    if function is None:
        raise NotRead(1, f"{entry} is not read")
    teams = TEAMS if re.search(r"#\s*pragma\s+omp\s+parallel\b(?!\s+for)", text) else TEAMS[:1]
    return tuple(one for team in teams for one in _called(source, function, file, given, team))


def _called(
    source: CFile, function: CSource, file: str, given: Sequence[Given], team: int
) -> Sequence[Launch]:
    """Return what the host function does with so many threads in a team."""
    memories: dict[str, Memory] = {}
    sizes: dict[str, int] = {}
    args: list[Value] = []
    for param, one in zip(function.params, given, strict=True):
        if not one.name:
            args.append(one.number)
            continue
        memories[param.name] = Memory(name=param.name, size=one.elements)
        sizes[param.name] = one.item
        args.append(Pointer(param.name, 0))
    host = _Host(source, file, memories, sizes, team)
    host.inlined(function, args, (), function.line)
    own = host.launch(function.name, (), host.touches, host.memories)
    launched = any(launch.group == "block" for launch in host.found)
    if launched and host.touches:
        # a GPU's host cannot reach tensors: an emulated one could, and would do the kernel's work
        own = replace(own, device=True)
    return (own, *host.found) if host.touches else tuple(host.found)


class _Host(OpenMpFlow):
    """A host function: launches, allocations and what OpenMP runs at once."""

    # ---- CUDA
    def called(self, name: str, args: list[Value], node: ast.Call) -> Value:
        if name in ("cudaMalloc", "cudaMallocAsync"):
            return self._allocated(args, node)
        if name in ("cudaMemset", "cudaMemsetAsync", "cudaMemcpy", "cudaMemcpyAsync"):
            before, self.touches = self.touches, []
            self.bulk(name.removeprefix("cuda").removesuffix("Async").lower(), args, node)
            self.found.append(self.launch(name, (), self.touches, self.memories))
            self.touches = before
            return 0
        if name.startswith("cuda"):
            return 0
        if not args and name not in self.file.functions and name[:1].isupper():
            return Other(name)  # an object of a class without fields, handed to a kernel
        return super().called(name, args, node)

    def _allocated(self, args: list[Value], node: ast.Call) -> Value:
        name = args[0].name if isinstance(args[0], Other) else ""
        kind = self.env.get(name)
        size = self._size(kind.name.rstrip("*").strip()) if isinstance(kind, Other) else None
        total = self.arith.constant(self._number(args[1]))
        if size is None or total is None:
            raise NotRead(node.lineno, "an allocation whose size is not known before it runs")
        key = name
        while (
            key in self.memories
        ):  # of another call of the function, or before: what it held may still be in use
            key += "'"
        self.memories[key] = Memory(name=name, size=total // size)
        self.sizes[key] = size
        self.env[name] = Pointer(key, 0)
        return 0

    def _do__launch__(self, node: ast.Call) -> Value:
        if self.loops:
            raise NotRead(node.lineno, "a launch in a loop")
        first = node.args[0]
        name = first.id if isinstance(first, ast.Name) else ""
        kernel = self.file.functions.get(name)
        if kernel is None:
            raise NotRead(node.lineno, "a launch of a kernel that is not in the file")
        templates, config, args = (self.evaluate(a) for a in node.args[1:])
        self.found.append(self._kernel(kernel, templates, config, args, node.lineno))
        return None

    def _kernel(
        self, kernel: CSource, templates: tuple[Value, ...], config: tuple[Value, ...], args: tuple[Value, ...], line: int
    ) -> Launch:  # fmt: skip
        grid, block = (self._extents(c, line) for c in config[:2])
        space = Space((*BLOCKS, *THREADS, *LOOPS))
        box = dict(zip((*BLOCKS, *THREADS), (*grid, *block), strict=True))
        memories = {k: v for k, v in self.memories.items() if v.shared == "all"}
        walk = DeviceFlow(self.file, space, Where(space.box(box)), memories, dict(self.sizes))
        walk.grid, walk.block = grid, block
        if len(config) > 2:
            walk.dynamic_bytes = self.arith.constant(self._number(config[2]))
        given = [_passed(self._carried(a)) for a in args]
        unread: tuple[tuple[int, str], ...] = ()
        try:
            walk.inlined(kernel, given, templates, line)
        except NotRead as e:
            unread = ((e.line, e.what),)
        return Launch(
            kernel=kernel.name, file=self.name, space=space, groups=BLOCKS, members=THREADS, memories=walk.memories,
            touches=tuple(walk.touches), unread=(*unread, *walk.unread), warps=block if walk.warps else (), parts=walk.parts,
            waits=tuple(walk.waits),
        )  # fmt: skip

    def _extents(self, value: Value, line: int) -> tuple[int, int, int]:
        parts = value if isinstance(value, tuple) else (value, 1, 1)
        found = [self.arith.constant(self._number(whole(p))) for p in parts]
        if any(n is None for n in found):
            raise NotRead(line, "a launch whose extents are not known before it runs")
        x, y, z = (n for n in found if n is not None)
        return (x, y, z)


def _passed(value: Value) -> Value:
    """Return what a kernel gets: numbers, addresses, and lambdas with what they captured."""
    match value:
        case Closure(source, env, _, False):
            plain = {n: _passed(v) for n, v in env.items() if not isinstance(v, Closure)}
            return Closure(source, plain, -1, False)
        case Pointer(at=int()) | int() | float() | bool():
            return value
    return Tile(None)
