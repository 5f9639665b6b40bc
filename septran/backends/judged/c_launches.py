"""Launches of CUDA kernels, and parallel loops of C++: what a host function does when it is called with known numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from septran.backends.judged.c_device import BLOCKS, THREADS, DeviceFlow
from septran.backends.judged.c_flow import Array, CFlow
from septran.backends.judged.c_functions import CFile, CSource
from septran.backends.judged.c_source import read_file
from septran.backends.judged.flow import LOOPS
from septran.backends.judged.values import Other, Pointer, Tile, Value
from septran.prove.foreign.launch import Launch, Memory, NotRead
from septran.prove.foreign.quantity import Space, Where

_CLAUSE = re.compile(r"(\w+)\(([^)]*)\)")
_OWN = ("private", "firstprivate", "lastprivate", "reduction", "linear")


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
    host = _Host(source, file, memories, sizes)
    host.inlined(function, args, (), function.line)
    own = host.launch(entry, (), host.touches, host.memories)
    launched = any(launch.members for launch in host.found)
    if launched and host.touches:
        # a GPU's host cannot reach tensors: an emulated one could, and would do the kernel's work
        own = replace(own, device=True)
    return (own, *host.found) if host.touches else tuple(host.found)


class _Host(CFlow):
    """A host function: launches, allocations and loops that OpenMP makes parallel."""

    def __init__(
        self, source: CFile, file: str, memories: dict[str, Memory], sizes: dict[str, int]
    ) -> None:
        space = Space(LOOPS)
        super().__init__(source, space, Where(space.everywhere), memories, sizes)
        self.name = file
        self.found: list[Launch] = []
        self.regions = 0

    def launch(
        self, kernel: str, groups: tuple[str, ...], touches: Sequence[Any], memories: dict[str, Memory],
        around: tuple[str, ...] = (),
    ) -> Launch:  # fmt: skip
        """Return accesses of the host's own as a launch."""
        return Launch(
            kernel=kernel, file=self.name, space=self.space, groups=groups, members=(), memories=dict(memories),
            touches=tuple(touches), unread=tuple(self.unread), group="iteration", around=around,
        )  # fmt: skip

    # ---- OpenMP
    def pragma(self, text: str, stmt: ast.With) -> None:
        words = re.sub(r"\([^)]*\)", " ", text.removeprefix("#pragma omp")).split()
        if words[:1] in (["atomic"], ["critical"]):
            outer, self.atomic = self.atomic, True
            try:
                self.run(stmt.body)
            finally:
                self.atomic = outer
            return
        if words[:1] == ["simd"]:
            self.run(stmt.body)
            return
        loop = stmt.body[0] if len(stmt.body) == 1 else None
        if words[:2] != ["parallel", "for"] or not isinstance(loop, ast.For) or self.regions:
            raise NotRead(stmt.lineno, f"{text.removeprefix('#pragma ')} is not read")
        self._parallel(text, loop)

    def _parallel(self, text: str, loop: ast.For) -> None:
        clauses = [
            (m[1], {n.strip() for n in m[2].split(":")[-1].split(",")})
            for m in _CLAUSE.finditer(text)
        ]
        own = {n for kind, names in clauses if kind in _OWN for n in names}
        levels = next((int(next(iter(names))) for kind, names in clauses if kind == "collapse"), 1)
        loops = _nest(loop, levels)
        written = {
            n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        } - {n.target.id for n in loops if isinstance(n.target, ast.Name)}
        shared = {n for n in written & {*self.env} - own if not isinstance(self.env[n], Array)}
        body = _Shared(shared).visit(ast.fix_missing_locations(_copied(loop)))
        before, memories, env = self.touches, dict(self.memories), dict(self.env)
        for name in shared:
            self.memories[f"{name} "] = Memory(name=name, size=1)
            self.sizes[f"{name} "] = 4
            self.env[name] = Pointer(f"{name} ", 0)
        known = {k for k, v in self.memories.items()}
        depth = len(self.loops)
        self.touches, self.regions = [], self.regions + 1
        try:
            self._for(body)
        finally:
            region, self.touches, self.regions = self.touches, before, self.regions - 1
        private = {self.env[n].memory for n in own if isinstance(self.env.get(n), Array)}
        seen = {
            k: replace(m, shared="all") if k in known and k not in private else m
            for k, m in self.memories.items()
        }
        groups, around = LOOPS[depth : depth + levels], LOOPS[:depth]
        self.found.append(self.launch(f"line {loop.lineno}", groups, region, seen, around))
        self.memories = {**memories}
        self.env.update({n: Tile(None) for n in (shared | own) & {*env}})

    # ---- CUDA
    def called(self, name: str, args: list[Value], node: ast.Call) -> Value:
        if name in ("cudaMalloc", "cudaMallocAsync"):
            return self._allocated(args, node)
        if name in ("cudaMemset", "cudaMemsetAsync", "cudaMemcpy", "cudaMemcpyAsync"):
            before, self.touches = self.touches, []
            self._bulk(name.removeprefix("cuda").removesuffix("Async").lower(), args, node)
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
        self.memories[name] = Memory(name=name, size=total // size)
        self.sizes[name] = size
        self.env[name] = Pointer(name, 0)
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
        given = [a if isinstance(a, Pointer | int | float | bool) else Tile(None) for a in args]
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
        found = [self.arith.constant(self._number(p)) for p in parts]
        if any(n is None for n in found):
            raise NotRead(line, "a launch whose extents are not known before it runs")
        x, y, z = (n for n in found if n is not None)
        return (x, y, z)


def _nest(loop: ast.For, levels: int) -> list[ast.For]:
    found = [loop]
    while len(found) < levels:
        inner = found[-1].body
        if len(inner) != 1 or not isinstance(inner[0], ast.For):
            raise NotRead(loop.lineno, "loops that are collapsed and are not nested")
        found.append(inner[0])
    return found


def _copied(node: ast.For) -> ast.For:
    import copy

    return copy.deepcopy(node)


class _Shared(ast.NodeTransformer):
    """Makes variables that all iterations share elements of memories."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names:
            return node
        zero = ast.copy_location(ast.Constant(0), node)
        base = ast.copy_location(ast.Name(node.id, ast.Load()), node)
        return ast.copy_location(ast.Subscript(base, zero, node.ctx), node)
