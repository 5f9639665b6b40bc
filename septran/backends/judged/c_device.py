"""CUDA kernels: threads and blocks, cooperative groups, barriers, and copies that threads wait for."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from septran.backends.judged.c_library import LibraryFlow
from septran.backends.judged.values import Other, Pointer, Tile, Value
from septran.prove.foreign.launch import NotRead, Wait
from septran.prove.foreign.quantity import Number, Where

BLOCKS = ("b0", "b1", "b2")
THREADS = ("t0", "t1", "t2")
_LANES = 32
_PLACES = {
    "group_index": "blockIdx",
    "thread_index": "threadIdx",
    "group_dim": "blockDim",
    "dim_threads": "blockDim",
}
_OPERATIONS = frozenset("plus less greater bit_and bit_or bit_xor".split())
_EXCHANGE = frozenset("shfl shfl_xor shfl_down shfl_up ballot any all".split())
_PIPELINE = "a pipeline"


@dataclass(frozen=True, slots=True)
class Group:
    """A cooperative group: the block, or the tile of `size` threads that a thread is in."""

    size: int
    whole: bool


class DeviceFlow(LibraryFlow):
    """A kernel: one thread of one block of the launch.

    warps: warps have barriers of their own; parts: so do parts of them.
    """

    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    warps = False
    parts = False

    def builtin(self, name: str, part: str) -> Value | None:
        """Return a part of threadIdx and its kin."""
        if part not in ("x", "y", "z"):
            return None
        k = "xyz".index(part)
        match name:
            case "threadIdx":
                return 0 if self.block[k] == 1 else Tile(self.space.var(THREADS[k]))
            case "blockIdx":
                return 0 if self.grid[k] == 1 else Tile(self.space.var(BLOCKS[k]))
            case "blockDim":
                return self.block[k]
            case "gridDim":
                return self.grid[k]
        return None

    def called(self, name: str, args: list[Value], node: ast.Call) -> Value:
        """Follow a call of what CUDA has."""
        match name:
            case "__syncthreads":
                self.barrier()
                return None
            case "__syncwarp":
                self._warp_barrier(_LANES if not args or args[0] in (-1, 0xFFFFFFFF) else 0)
                return None
            case "this_thread_block":
                return Group(math.prod(self.block), True)
            case "tiled_partition":
                return self._tiles(args, node)
            case "sync" if len(args) == 1 and isinstance(args[0], Group):
                return self._sync(args[0])
            case "reduce" if args and isinstance(args[0], Group):
                return Tile(None)
            case "make_pipeline" if not args:
                return Other(_PIPELINE)
            case "__pipeline_memcpy_async":
                return self._begin(args, node, None)
            case "memcpy_async":
                return self._group_copy(args, node)
            case "__pipeline_commit":
                self.tick("groups")
                return None
            case "__pipeline_wait_prior":
                return self._wait(node, self._left(args[0]))
            case "pipeline_consumer_wait_prior":
                return self._wait(node, self._left(self._template(node)))
            case "wait" if len(args) == 1 and isinstance(args[0], Group):
                self._wait(node, self._left(0))
                return self._sync(args[0])
            case "wait_prior" if len(args) == 1 and isinstance(args[0], Group):
                self._wait(node, self._left(self._template(node)))
                return self._sync(args[0])
        if name in _OPERATIONS and not args:
            return Other(name)
        return super().called(name, args, node)

    def method(self, node: ast.Call) -> Value:
        """Follow what a group or a pipeline does."""
        assert isinstance(node.func, ast.Attribute)
        owner, name = self.evaluate(node.func.value), node.func.attr
        if isinstance(owner, Group):
            return self._of_group(owner, name, node)
        if isinstance(owner, Other) and owner.name == _PIPELINE:
            return self._of_pipeline(name, node)
        return super().method(node)

    # ---- groups
    def _of_group(self, group: Group, name: str, node: ast.Call) -> Value:
        if name == "sync":
            return self._sync(group)
        rank = self._rank()
        size = group.size
        match name:
            case "size" | "num_threads":
                return size
            case "thread_rank":
                return self._tile(rank if group.whole else self.arith.modulo(rank, size))
            case "meta_group_rank" if not group.whole:
                return self._tile(self.arith.divide(rank, size))
            case "meta_group_size" if not group.whole:
                return -(-math.prod(self.block) // size)
        if name in _PLACES and group.whole:
            return tuple(self.builtin(_PLACES[name], part) for part in "xyz")
        if name in _EXCHANGE and not group.whole:
            for arg in node.args:
                self.evaluate(arg)
            return Tile(None)
        raise NotRead(node.lineno, f".{name}(...) of a group is not read")

    def _rank(self) -> Number:
        """Return a thread's number in its block."""
        found: Number = 0
        for axis in reversed(range(3)):
            one = self.builtin("threadIdx", "xyz"[axis])
            found = self.arith.add(self.arith.mul(found, self.block[axis]), self._number(one))
        return found

    def _tile(self, number: Number) -> Value:
        return number if isinstance(number, int) else Tile(number)

    def _tiles(self, args: list[Value], node: ast.Call) -> Value:
        size = self._template(node) if node.keywords else (args[1] if len(args) == 2 else None)
        if not isinstance(size, int) or not isinstance(args[0], Group) or not 0 < size <= _LANES:
            raise NotRead(node.lineno, "a partition that is no tiles of up to 32 threads")
        return Group(size, False)

    def _template(self, node: ast.Call) -> Value:
        found = next((self.evaluate(k.value) for k in node.keywords), ())
        if not isinstance(found, tuple) or not found:
            raise NotRead(node.lineno, "a call without its template argument")
        return found[0]

    def _sync(self, group: Group) -> None:
        if group.whole:
            self.barrier()
        else:
            self._warp_barrier(group.size)

    def _warp_barrier(self, size: int) -> None:
        """Note that all lanes of a warp wait for each other, or a part of them does (any other size)."""
        self.warps = True
        if size == _LANES:
            self.tick("warps")
        elif size != 1:
            self.parts = True

    # ---- copies that land later
    def _of_pipeline(self, name: str, node: ast.Call) -> Value:
        match name:
            case "producer_acquire":
                return None
            case "producer_commit":
                self.tick("groups")
                return None
            case "consumer_wait":
                oldest = self.arith.add(self.clock["released"], 1)
                return self._wait(node, self.arith.least(oldest, self.clock["groups"]))
            case "consumer_release":
                self.tick("released")
                return None
        raise NotRead(node.lineno, f".{name}(...) of a pipeline is not read")

    def _left(self, count: Value) -> Number:
        """Return how many groups have landed when all but the last `count` have."""
        return self.arith.sub(self.clock["groups"], self._number(count))

    def _wait(self, node: ast.Call, done: Number) -> None:
        if not self._quiet:
            self.waits.append(
                Wait(
                    when=self.when.set,
                    line=node.lineno,
                    done=done,
                    clock=self.clock,
                    exact=self.when.exact,
                    why=self.why,
                )
            )
        self.tick("waits")

    def _group_copy(self, args: list[Value], node: ast.Call) -> Value:
        """Follow `memcpy_async`: of a thread with its pipeline, or of a group, whose first thread stands for all of it here.

        All of a group call it, wait and meet together; which of them copies what is not said.
        """
        own = len(args) > 1 and isinstance(args[-1], Other) and args[-1].name == _PIPELINE
        group = args[0] if isinstance(args[0], Group) else None
        data = args[1 if group else 0 : -1 if own else None]
        if len(data) != 3 or not (own or group):
            raise NotRead(node.lineno, "this memcpy_async is not read")
        who = None
        if group is not None:
            rank = self._rank() if group.whole else self.arith.modulo(self._rank(), group.size)
            who = self.arith.compare("==", rank, 0)
        self._begin(data, node, who)
        if not own:
            self.tick("groups")
        return None

    def _begin(self, args: Sequence[Value], node: ast.Call, who: Where | None) -> None:
        """Begin a copy of (to, from, bytes, bytes that are zeros) for the threads `who`."""
        to, source = (self._decayed(a) for a in args[:2])
        if not isinstance(to, Pointer) or not isinstance(source, Pointer):
            raise NotRead(node.lineno, "a copy of addresses that are not read")
        zeros = self._number(args[3]) if len(args) > 3 else 0
        taken = self.arith.sub(self._number(args[2]), zeros)
        guard = who or self.always
        for mode, pointer, bytes_ in (
            ("load", source, taken),
            ("store", to, self._number(args[2])),
        ):
            item = self.sizes.get(pointer.memory, 4)
            some = self.arith.compare(">", bytes_, 0)
            width = self._width(bytes_, item)
            if width is None:
                raise NotRead(node.lineno, "how much a copy takes is not known before it runs")
            if width:
                one = replace(pointer, width=width)
                self.touch(mode, one, node.lineno, guard & some, later=mode == "store")
        self.tick("copies")

    def _width(self, bytes_: Number, item: int) -> int | None:
        """Return the elements of a copy that has one size wherever it has any."""
        bounds = self.arith.bounds
        known = self.arith.constant(bytes_)
        if known is None and bytes_ is not None:
            self.arith.bounds = bounds & self.arith.compare(">", bytes_, 0).set
            try:
                known = self.arith.constant(bytes_)
            finally:
                self.arith.bounds = bounds
        return None if known is None or known % item else known // item
