"""What a Triton kernel calls: loads and stores, block pointers, functions of triton.language and of the file."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import replace

from septran.backends.judged.values import Block, Other, Pointer, Tile, Value
from septran.backends.triton.tile_flow import LANES, TileFlow, addresses, broadcast, last, shape_of
from septran.prove.foreign.launch import NotRead
from septran.prove.foreign.quantity import Number, Where

_AS_IT_IS = ("multiple_of", "max_contiguous", "max_constancy", "cast", "constexpr", "to_tensor")
_NOTHING = ("assume", "static_assert", "static_print", "device_print", "device_assert")
_REDUCES = ("sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce")
_HIDES = ("inline_asm_elementwise", "extern_elementwise", "map_elementwise")


class TileReader(TileFlow):
    """The walk over one Triton kernel."""

    # ---- loops
    def span(self, node: ast.For) -> tuple[Number, Number, int]:
        """Return first, end and step of a loop over a range."""
        call = node.iter
        if not (isinstance(call, ast.Call) and last(call.func) in ("range", "static_range")):
            raise NotRead(node.lineno, "a loop over something that is no range")
        found = [self._number(self.evaluate(a)) for a in call.args]
        named = {
            k.arg: self._number(self.evaluate(k.value)) for k in call.keywords if k.arg == "step"
        }
        low, high = (0, found[0]) if len(found) == 1 else (found[0], found[1])
        step = self.arith.constant(found[2] if len(found) > 2 else named.get("step", 1))
        if step is None or step == 0:
            raise NotRead(node.lineno, "a loop whose step is not known before it runs")
        return low, high, step

    def _for(self, stmt: ast.For) -> None:
        if isinstance(stmt.iter, ast.Call) and last(stmt.iter.func) == "static_range":
            low, high, step = self.span(stmt)
            if isinstance(low, int) and isinstance(high, int) and len(range(low, high, step)) <= 64:
                for value in range(low, high, step):
                    self._body(stmt, value)
                return
        super()._for(stmt)

    # ---- calls
    def _call(self, node: ast.Call) -> Value:
        name = last(node.func)
        args: list[Value] = []
        for a in node.args:
            found = self.evaluate(a.value if isinstance(a, ast.Starred) else a)
            if isinstance(a, ast.Starred) and not isinstance(found, tuple):
                raise NotRead(node.lineno, "arguments of which it is not known how many there are")
            args += found if isinstance(a, ast.Starred) else [found]
        named = {k.arg: self.evaluate(k.value) for k in node.keywords if k.arg}
        if isinstance(node.func, ast.Name) and name in self.functions:
            return self._inline(node, self.functions[name], args, named)
        if isinstance(node.func, ast.Attribute):
            owner = self.evaluate(node.func.value)
            if isinstance(owner, Block) and name in ("load", "store", "atomic_add"):
                return self._descriptor(name, owner, args, node.lineno)
            if not isinstance(owner, Other):
                args = [owner, *args]
        if name in _HIDES:
            if addresses(args):
                raise NotRead(node.lineno, f"{name} is not read")
            return Tile(None, broadcast(*(shape_of(a) for a in args)))
        handler = getattr(self, f"_do_{name}", None)
        if handler is not None:
            return handler(node.lineno, *args, **named)
        if name.startswith("atomic_"):
            return self._access("atomic", node.lineno, args[0], args[-1], named)
        if name in _AS_IT_IS:
            return args[0] if args else Other(name)
        if name in _NOTHING:
            return None
        if name in _REDUCES:
            return self._reduced(args, named)
        if addresses(args) or addresses(list(named.values())):
            raise NotRead(node.lineno, f"{name}(...) of a pointer is not read")
        return Tile(None, broadcast(*(shape_of(a) for a in args)))

    def _inline(
        self,
        node: ast.Call,
        function: ast.FunctionDef,
        args: list[Value],
        named: Mapping[str, Value],
    ) -> Value:
        if self.depth > 12:
            raise NotRead(node.lineno, "calls nested too deep")
        names = [a.arg for a in function.args.args]
        env = dict(zip(names, args, strict=False))
        env.update({k: v for k, v in named.items() if k in names})
        defaults = function.args.defaults
        for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in env:
                env[name] = self.evaluate(value)
        return self.inline(function.body, env)

    def _lanes(self, shape: tuple[int, ...]) -> Where:
        extents = dict.fromkeys(LANES, 1)
        for k, extent in enumerate(reversed(shape)):
            extents[f"a{k + 1}"] = extent
        return Where(self.space.box(extents))

    def _access(
        self, mode: str, line: int, pointer: Value, value: Value, named: Mapping[str, Value]
    ) -> Value:
        mask = named.get("mask")
        if not isinstance(pointer, Pointer):
            raise NotRead(line, "an address that is not read")
        shape = broadcast(pointer.shape, shape_of(mask))
        if mode != "load":
            shape = broadcast(shape, shape_of(value))
        if shape is None or len(shape) > len(LANES):
            pointer = replace(
                pointer, at=None, why=pointer.why or "the shape of its tile is not known"
            )
            shape = ()
        guard = self._lanes(shape)
        if mask is not None:
            found = self.truth(mask)
            guard = guard & (found if isinstance(found, Where) else self._plainly(found))
        own = shape_of(value) or ()
        varies = tuple(f"a{k + 1}" for k, n in enumerate(reversed(own)) if n > 1)
        varies = varies if mode == "store" else ()
        self.touch(mode, replace(pointer, shape=shape), line, guard, self._stored(value), varies)
        return Tile(None, shape if pointer.at is not None else pointer.shape)

    def _stored(self, value: Value) -> int | None:
        return self.arith.constant(self._number(value)) if isinstance(value, Tile | int) else None

    def _plainly(self, found: bool) -> Where:
        return Where(self.space.everywhere if found else self.space.nowhere)

    # ---- block pointers and descriptors
    def _descriptor(self, name: str, block: Block, args: list[Value], line: int) -> Value:
        offsets = tuple(self._number(o) for o in args[0])
        at = replace(block, offsets=offsets)
        mode = "atomic" if name.startswith("atomic") else name
        return self._block_access(mode, at, line)

    def _block_access(self, mode: str, block: Block, line: int) -> Value:
        at, guard = block.base.at, self._lanes(block.shape)
        rank = len(block.shape)
        for axis, (size, stride, offset) in enumerate(
            zip(block.sizes, block.strides, block.offsets, strict=True)
        ):
            index = self.arith.add(offset, self.space.var(f"a{rank - axis}"))
            at = self.arith.add(at, self.arith.mul(index, stride))
            guard = guard & self.arith.compare(">=", index, 0)
            guard = guard & self.arith.compare("<", index, size)
        self.touch(mode, replace(block.base, at=at), line, guard)
        return Tile(None, block.shape)

    def _do_make_tensor_descriptor(self, line: int, base: Value, shape: Value, strides: Value,
                                   block_shape: Value, **more: Value) -> Value:  # fmt: skip
        extents = self._static(block_shape)
        if not isinstance(base, Pointer) or extents is None:
            raise NotRead(line, "a descriptor that is not read")
        sizes, steps = (tuple(self._number(n) for n in v) for v in (shape, strides))
        return Block(base, sizes, steps, (0,) * len(extents), extents)

    # ---- functions of triton.language
    def _do_load(
        self, line: int, pointer: Value, mask: Value = None, other: Value = None, **named: Value
    ) -> Value:
        return self._access("load", line, pointer, None, {"mask": mask, **named})

    def _do_store(
        self, line: int, pointer: Value, value: Value, mask: Value = None, **named: Value
    ) -> Value:
        return self._access("store", line, pointer, value, {"mask": mask, **named})

    def _do_program_id(self, line: int, axis: Value = 0) -> Value:
        return 0 if self.grid[axis] == 1 else Tile(self.space.var(f"p{axis}"))

    def _do_num_programs(self, line: int, axis: Value = 0) -> Value:
        return self.grid[axis]

    def _do_arange(self, line: int, start: Value, end: Value, **_: Value) -> Value:
        if not isinstance(start, int) or not isinstance(end, int):
            raise NotRead(line, "an arange whose ends are not known before it runs")
        return Tile(self.arith.add(start, self.space.var("a1")), (end - start,))

    def _do_debug_barrier(self, line: int) -> Value:
        self.barrier()
        return None

    def _do_cdiv(self, line: int, x: Value, div: Value) -> Value:
        a, b = self._number(x), self._number(div)
        found = self.arith.divide(self.arith.add(a, self.arith.sub(b, 1)), b, floor=True)
        return (
            found if isinstance(found, int) else Tile(found, broadcast(shape_of(x), shape_of(div)))
        )

    def _do_next_power_of_2(self, line: int, n: Value) -> Value:
        return 1 << max(n - 1, 0).bit_length() if isinstance(n, int) else Tile(None)

    def _do_min(self, line: int, *args: Value, **named: Value) -> Value:
        return self._extremum(args, named, least=True)

    def _do_max(self, line: int, *args: Value, **named: Value) -> Value:
        return self._extremum(args, named, least=False)

    def _do_minimum(self, line: int, x: Value, y: Value, **_: Value) -> Value:
        return self._extremum((x, y), {}, least=True)

    def _do_maximum(self, line: int, x: Value, y: Value, **_: Value) -> Value:
        return self._extremum((x, y), {}, least=False)

    def _extremum(
        self, args: tuple[Value, ...], named: Mapping[str, Value], *, least: bool
    ) -> Value:
        tile = isinstance(args[0], Tile) and args[0].shape != ()
        if named or len(args) != 2 or (tile and isinstance(args[1], int) and args[0].n is None):
            return self._reduced(list(args), named)
        if all(isinstance(a, int | float) for a in args):
            return min(args) if least else max(args)
        pick = self.arith.least if least else self.arith.most
        a, b = (self._number(x) for x in args)
        return Tile(pick(a, b), broadcast(*(shape_of(x) for x in args)))

    def _reduced(self, args: list[Value], named: Mapping[str, Value]) -> Value:
        if args and isinstance(args[0], tuple):  # several tiles are reduced together
            return tuple(self._reduced([one, *args[1:]], named) for one in args[0])
        if named.get("return_indices"):
            plain = {k: v for k, v in named.items() if k != "return_indices"}
            return (self._reduced(args, plain),) * 2
        shape = shape_of(args[0])
        axis = named.get("axis", args[1] if len(args) > 1 else None)
        if shape is None:
            return Tile(None, None)
        if axis is None:
            return Tile(None, ())
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
            return Tile(None, None)
        kept = list(shape)
        if named.get("keep_dims"):
            kept[axis] = 1
        else:
            del kept[axis]
        return Tile(None, tuple(kept))

    def _do_where(self, line: int, condition: Value, x: Value, y: Value) -> Value:
        shape = broadcast(shape_of(condition), shape_of(x), shape_of(y))
        found = self.truth(condition)
        if isinstance(found, bool):
            return x if found else y
        one, two = self._number(x), self._number(y)
        if isinstance(x, Pointer) or isinstance(y, Pointer):
            raise NotRead(line, "a choice of pointers is not read")
        if isinstance(x, float) or isinstance(y, float):
            return Tile(None, shape)
        return Tile(self.arith.choose(found, one, two), shape)

    def _do_zeros(self, line: int, shape: Value, *_: Value, **__: Value) -> Value:
        return Tile(None, self._static(shape))

    def _do_full(self, line: int, shape: Value, value: Value, *_: Value, **__: Value) -> Value:
        return Tile(value if isinstance(value, int) else None, self._static(shape))

    def _do_broadcast_to(self, line: int, value: Value, *shape: Value) -> Value:
        found = self._static(shape[0] if len(shape) == 1 else shape)
        return (
            replace(value, shape=found)
            if isinstance(value, Tile | Pointer)
            else Tile(self._number(value), found)
        )

    def _do_reshape(self, line: int, value: Value, *shape: Value, **_: Value) -> Value:
        return self._reshaped(value, self._static(shape[0] if len(shape) == 1 else shape))

    _do_view = _do_reshape

    def _do_ravel(self, line: int, value: Value, **_: Value) -> Value:
        shape = shape_of(value)
        return self._reshaped(value, None if shape is None else (math.prod(shape),))

    def _reshaped(self, value: Value, shape: tuple[int, ...] | None) -> Value:
        if isinstance(value, Pointer):
            return replace(value, at=None, shape=shape, why="its tile of addresses was reshaped")
        return Tile(None, shape)

    def _static(self, shape: Value) -> tuple[int, ...] | None:
        values = [
            self.arith.constant(self._number(n))
            for n in (shape if isinstance(shape, tuple) else (shape,))
        ]
        return None if any(v is None for v in values) else tuple(v for v in values if v is not None)

    def _do_expand_dims(self, line: int, value: Value, axis: Value) -> Value:
        axes: list[int | None] = list(range(len(shape_of(value) or ())))
        axes.insert(axis if axis >= 0 else len(axes) + 1 + axis, None)
        return self._arranged(value, axes)

    def _do_trans(self, line: int, value: Value, *order: Value) -> Value:
        rank = len(shape_of(value) or ())
        flat = order[0] if len(order) == 1 and isinstance(order[0], tuple) else order
        axes = list(flat) if flat else [*range(rank - 2), rank - 1, rank - 2]
        return self._arranged(value, axes)

    _do_permute = _do_trans

    def _do_dot(
        self, line: int, a: Value, b: Value, acc: Value = None, *_: Value, **__: Value
    ) -> Value:
        one, two = shape_of(a), shape_of(b)
        return Tile(None, None if not one or not two else (*one[:-1], two[-1]))

    def _do_to(self, line: int, value: Value, *_: Value, **__: Value) -> Value:
        if isinstance(value, Pointer):
            return replace(value, at=None, why="its pointer was cast")
        kind = _[0] if _ else None
        whole = not isinstance(kind, Other) or "int" in kind.name
        return value if whole else Tile(None, shape_of(value))

    def _do_cumsum(self, line: int, value: Value, *_: Value, **__: Value) -> Value:
        return Tile(None, shape_of(value))

    def _do_range(self, line: int, *args: Value, **_: Value) -> Value:
        return Other("range")

    def _do_len(self, line: int, value: Value) -> Value:
        return len(value)

    # ---- tiles of other shapes, whose elements are not followed
    def _do_join(self, line: int, a: Value, b: Value) -> Value:
        shape = broadcast(shape_of(a), shape_of(b))
        return Tile(None, None if shape is None else (*shape, 2))

    def _do_interleave(self, line: int, a: Value, b: Value) -> Value:
        shape = broadcast(shape_of(a), shape_of(b))
        return Tile(None, (*shape[:-1], 2 * shape[-1]) if shape else None)

    def _do_split(self, line: int, value: Value) -> Value:
        shape = shape_of(value)
        half = Tile(None, shape[:-1] if shape else None)
        return (half, half)

    def _do_cat(self, line: int, a: Value, b: Value, *_: Value, **__: Value) -> Value:
        one, two = shape_of(a), shape_of(b)
        return Tile(None, (one[0] + two[0],) if one and two and len(one) == 1 else None)

    def _do_histogram(self, line: int, value: Value, bins: Value, *_: Value, **__: Value) -> Value:
        return Tile(None, self._static(bins))

    def _do_gather(self, line: int, value: Value, index: Value, *_: Value, **__: Value) -> Value:
        return Tile(None, shape_of(index))

    def _do_topk(self, line: int, value: Value, k: Value, *_: Value, **__: Value) -> Value:
        shape, count = shape_of(value), self._static(k)
        return Tile(None, (*shape[:-1], *count) if shape and count else None)

    def _do_associative_scan(self, line: int, value: Value, *_: Value, **__: Value) -> Value:
        if isinstance(value, tuple):
            return tuple(Tile(None, shape_of(one)) for one in value)
        return Tile(None, shape_of(value))

    def _do_dot_scaled(self, line: int, a: Value, _scale: Value, _format: Value, b: Value, *_: Value, **__: Value) -> Value:  # fmt: skip
        return self._do_dot(line, a, b)
