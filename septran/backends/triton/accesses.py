"""The accesses of a Triton launch, read from the kernel's text and the launch that was made."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from septran.backends.judged.flow import LOOPS, Flow
from septran.backends.judged.values import Block, Other, Pointer, Tile, Value
from septran.prove.foreign.launch import Launch, Memory, NotRead
from septran.prove.foreign.quantity import Number, Space, Where

PROGRAMS = ("p0", "p1", "p2")
LANES = ("a4", "a3", "a2", "a1")
"""coordinates of a tile's element, a1 along its last axis"""
_AS_IT_IS = ("multiple_of", "max_contiguous", "max_constancy", "cast", "constexpr", "to_tensor")
_NOTHING = ("assume", "static_assert", "static_print", "device_print", "device_assert")
_REDUCES = ("sum", "max", "min", "argmax", "argmin", "xor_sum", "reduce")
_HIDES = ("inline_asm_elementwise", "extern_elementwise", "map_elementwise")
_OPS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def launch_of(text: str, file: str, record: Mapping[str, Any]) -> Launch:
    """Return the accesses of one recorded launch.

    record: kernel (name), grid (three extents), args: name -> a number, a bool, a text, null, or
        {"memory", "size", "start"} in elements.

    Raises:
        NotRead: nothing can be said of the kernel.
    """
    module = ast.parse(text)
    functions = {n.name: n for n in module.body if isinstance(n, ast.FunctionDef)}
    found = functions.get(record["kernel"])
    if found is None:
        raise NotRead(1, f"{record['kernel']} is not a function of the file")
    space = Space((*PROGRAMS, *LOOPS, *LANES))
    memories: dict[str, Memory] = {}
    env = {name: _argument(name, value, memories) for name, value in record["args"].items()}
    grid = tuple(int(n) for n in record["grid"])
    read = _Read(space, grid, functions, _constants(module))
    read.env = env
    unread: tuple[tuple[int, str], ...] = ()
    try:
        read.run(found.body)
    except NotRead as e:
        unread = ((e.line, e.what),)
    return Launch(
        kernel=found.name,
        file=file,
        space=space,
        groups=PROGRAMS,
        members=tuple(reversed(LANES)),
        memories=memories,
        touches=tuple(read.touches),
        unread=(*unread, *read.unread),
        group="program",
        member="lane",
        lanes=True,
    )


def _argument(name: str, value: Any, memories: dict[str, Memory]) -> Value:
    if isinstance(value, dict) and "memory" in value:
        where = value["memory"]
        memories.setdefault(where, Memory(name=name, size=value["size"]))
        return Pointer(where, value["start"])
    if isinstance(value, dict):
        return Other(str(value))
    return value


def _constants(module: ast.Module) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for stmt in module.body:
        if isinstance(stmt, ast.Assign | ast.AnnAssign) and stmt.value is not None:
            target = stmt.targets[0] if isinstance(stmt, ast.Assign) else stmt.target
            value = stmt.value
            if isinstance(value, ast.Call) and _last(value.func) == "constexpr" and value.args:
                value = value.args[0]
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                found[target.id] = value.value
    return found


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _broadcast(*shapes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    found: list[int] = []
    for shape in shapes:
        if shape is None:
            return None
        for k, extent in enumerate(reversed(shape)):
            if k == len(found):
                found.append(extent)
            elif found[k] == 1:
                found[k] = extent
            elif extent not in (1, found[k]):
                return None
    return tuple(reversed(found))


def _addresses(values: Sequence[Value]) -> bool:
    return any(
        _addresses(v) if isinstance(v, tuple) else isinstance(v, Pointer | Block) for v in values
    )


def _shape(value: Value) -> tuple[int, ...] | None:
    return value.shape if isinstance(value, Tile | Pointer) else ()


class _Read(Flow):
    def __init__(
        self,
        space: Space,
        grid: tuple[int, ...],
        functions: Mapping[str, ast.FunctionDef],
        constants: Mapping[str, Value],
    ) -> None:
        self.grid = (*grid, 1, 1, 1)[:3]
        places = space.box(dict(zip(PROGRAMS, self.grid, strict=True)))
        super().__init__(space, Where(places))
        # numbers are asked about with lanes of any tile; Triton's largest tile has 2**20 elements
        self.arith.bounds = places & space.box(dict.fromkeys(LANES, 1 << 20))
        self.functions, self.constants = functions, constants
        self.depth = 0

    # ---- expressions
    def evaluate(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                if node.id in self.env:
                    return self.env[node.id]
                return self.constants.get(node.id, Other(node.id))
            case ast.Tuple() | ast.List():
                return tuple(self.evaluate(e) for e in node.elts)
            case ast.BinOp():
                return self._binary(
                    type(node.op), self.evaluate(node.left), self.evaluate(node.right)
                )
            case ast.UnaryOp():
                return self._unary(node.op, self.evaluate(node.operand))
            case ast.Compare() if len(node.ops) == 1:
                a, b = self.evaluate(node.left), self.evaluate(node.comparators[0])
                return self._compare(node.ops[0], a, b)
            case ast.Compare():
                parts = [node.left, *node.comparators]
                tests: list[ast.expr] = [
                    ast.copy_location(ast.Compare(a, [op], [b]), node)
                    for a, op, b in zip(parts, node.ops, parts[1:], strict=False)
                ]
                return self.evaluate(ast.copy_location(ast.BoolOp(ast.And(), tests), node))
            case ast.BoolOp():
                return self._bool(node)
            case ast.IfExp():
                found = self.truth(self.evaluate(node.test))
                if isinstance(found, bool):
                    return self.evaluate(node.body if found else node.orelse)
                return self._either(found, self.evaluate(node.body), self.evaluate(node.orelse))
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return self._call(node)
        raise NotRead(node.lineno, f"a {type(node).__name__} is not read")

    def _binary(self, op: type[ast.operator], a: Value, b: Value) -> Value:
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self._pointer(op, a, b)
        plain = (int, float, str, tuple)
        if isinstance(a, plain) and isinstance(b, plain):
            return _python(op, a, b)
        shape = _broadcast(_shape(a), _shape(b))
        if (
            isinstance(a, Tile | bool)
            and isinstance(b, Tile | bool)
            and op in (ast.BitAnd, ast.BitOr)
        ):
            one, two = self._condition(a), self._condition(b)
            if one is not None and two is not None:
                both = one & two if op is ast.BitAnd else one | two
                return Tile(None, shape, both)
        return Tile(self._number_of(op, self._number(a), self._number(b)), shape)

    def _condition(self, value: Value) -> Where | None:
        if isinstance(value, bool):
            return Where(self.space.everywhere if value else self.space.nowhere)
        return value.where if isinstance(value, Tile) else None

    def _number(self, value: Value) -> Number:
        if isinstance(value, bool):
            return int(value)
        if isinstance(value, int):
            return value
        return value.n if isinstance(value, Tile) else None

    def _number_of(self, op: type[ast.operator], a: Number, b: Number) -> Number:
        arith = self.arith
        if op is ast.Add:
            return arith.add(a, b)
        if op is ast.Sub:
            return arith.sub(a, b)
        if op is ast.Mult:
            return arith.mul(a, b)
        if op is ast.FloorDiv:
            return arith.divide(a, b)
        if op is ast.Mod:
            return arith.modulo(a, b)
        if op is ast.LShift and isinstance(b, int) and 0 <= b < 62:
            return arith.mul(a, 1 << b)
        if op is ast.RShift and isinstance(b, int) and 0 <= b < 62:
            return arith.divide(a, 1 << b, floor=True)
        if op is ast.BitAnd and isinstance(b, int) and b >= 0 and b & (b + 1) == 0:
            return arith.modulo(a, b + 1, floor=True)
        return None

    def _pointer(self, op: type[ast.operator], a: Value, b: Value) -> Value:
        if isinstance(b, Pointer) and op is ast.Add and not isinstance(a, Pointer):
            a, b = b, a
        if not isinstance(a, Pointer) or isinstance(b, Pointer) or op not in (ast.Add, ast.Sub):
            return Tile(None, _broadcast(_shape(a), _shape(b)))
        n = self._number(b)
        at = self.arith.add(a.at, n) if op is ast.Add else self.arith.sub(a.at, n)
        why = a.why or ("" if at is not None else "its address depends on data")
        return replace(a, at=at, shape=_broadcast(a.shape, _shape(b)), why=why)

    def _unary(self, op: ast.unaryop, value: Value) -> Value:
        if isinstance(op, ast.Not | ast.Invert):
            found = self._condition(value)
            if isinstance(value, Tile) and found is not None:
                return Tile(None, value.shape, found.negated())
            known = self.truth(value) if isinstance(op, ast.Not) else None
            if isinstance(known, bool):
                return not known
            return Tile(None, _shape(value), known.negated() if known is not None else None)
        if isinstance(op, ast.UAdd):
            return value
        if isinstance(value, int | float):
            return -value
        return Tile(self.arith.sub(0, self._number(value)), _shape(value))

    def _compare(self, op: ast.cmpop, a: Value, b: Value) -> Value:
        known = not isinstance(a, Tile | Pointer) and not isinstance(b, Tile | Pointer)
        if isinstance(op, ast.Is | ast.IsNot) or known:
            return _python_compare(op, a, b)
        shape = _broadcast(_shape(a), _shape(b))
        if type(op) not in _OPS:
            return Tile(None, shape, Where(self.space.everywhere, exact=False))
        x, y = self._number(a), self._number(b)
        return Tile(None, shape, self.arith.compare(_OPS[type(op)], x, y))

    def _bool(self, node: ast.BoolOp) -> Value:
        found: Where | None = None
        every = isinstance(node.op, ast.And)
        for one in node.values:
            part = self.truth(self.evaluate(one))
            if isinstance(part, bool):
                if part is not every:
                    return part
                continue
            found = part if found is None else (found & part if every else found | part)
        return every if found is None else Tile(None, (), found)

    def _subscript(self, node: ast.Subscript) -> Value:
        base = self.evaluate(node.value)
        if isinstance(base, tuple):
            at = self.evaluate(node.slice)
            if isinstance(at, int):
                return base[at]
            raise NotRead(node.lineno, "an element of a tuple that is not known before it runs")
        if isinstance(base, Other):
            return base
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        new = [isinstance(k, ast.Constant) and k.value is None for k in keys]
        if not all(n or isinstance(k, ast.Slice) for n, k in zip(new, keys, strict=True)):
            raise NotRead(node.lineno, "an index of a tile that is not read")
        shape = _shape(base)
        if shape is None:
            return self._with(base, None, {})
        old = len(shape)
        axes: list[int | None] = []
        count = 0
        for n in new:
            axes.append(None if n else count)
            count += not n
        axes += range(count, old)
        return self._arranged(base, axes)

    def _arranged(self, value: Value, axes: list[int | None]) -> Value:
        """Return the tile whose axis k is the old axis axes[k], of extent 1 where that is None."""
        shape = _shape(value)
        if shape is None or not isinstance(value, Tile | Pointer):
            return self._with(value, None, {}) if isinstance(value, Tile | Pointer) else value
        moved: dict[str, str | None] = dict.fromkeys(LANES)
        for k, old in enumerate(axes):
            if old is not None:
                moved[f"a{len(shape) - old}"] = f"a{len(axes) - k}"
        found = tuple(1 if old is None else shape[old] for old in axes)
        return self._with(value, found, moved)

    def _with(
        self, value: Value, shape: tuple[int, ...] | None, moved: Mapping[str, str | None]
    ) -> Value:
        def lane(n: Number) -> Number:
            return n if n is None or isinstance(n, int) else self.space.rename(n, moved)

        if isinstance(value, Pointer):
            return replace(value, at=lane(value.at), shape=shape)
        where = value.where
        if where is not None:
            where = Where(self.space.rename(where.set, moved), exact=where.exact)
        return Tile(lane(value.n), shape, where)

    def _attribute(self, node: ast.Attribute) -> Value:
        base = self.evaluate(node.value)
        if node.attr == "T":
            return self._arranged(base, list(reversed(range(len(_shape(base) or ())))))
        if node.attr == "shape" and isinstance(base, Tile | Pointer) and base.shape is not None:
            return base.shape
        if node.attr == "value":
            return base
        return Other(f"{base.name}.{node.attr}" if isinstance(base, Other) else node.attr)

    # ---- loops
    def span(self, node: ast.For) -> tuple[Number, Number, int]:
        call = node.iter
        if not (isinstance(call, ast.Call) and _last(call.func) in ("range", "static_range")):
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
        if isinstance(stmt.iter, ast.Call) and _last(stmt.iter.func) == "static_range":
            low, high, step = self.span(stmt)
            if isinstance(low, int) and isinstance(high, int) and len(range(low, high, step)) <= 64:
                for value in range(low, high, step):
                    self._body(stmt, value)
                return
        super()._for(stmt)

    # ---- calls
    def _call(self, node: ast.Call) -> Value:
        name = _last(node.func)
        args = [self.evaluate(a) for a in node.args if not isinstance(a, ast.Starred)]
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
            if _addresses(args):
                raise NotRead(node.lineno, f"{name} is not read")
            return Tile(None, _broadcast(*(_shape(a) for a in args)))
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
        if _addresses(args) or _addresses(list(named.values())):
            raise NotRead(node.lineno, f"{name}(...) of a pointer is not read")
        return Tile(None, _broadcast(*(_shape(a) for a in args)))

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
        self.depth += 1
        try:
            return self.inline(function.body, env)
        finally:
            self.depth -= 1

    def _lanes(self, shape: tuple[int, ...]) -> Where:
        extents = dict.fromkeys(LANES, 1)
        for k, extent in enumerate(reversed(shape)):
            extents[f"a{k + 1}"] = extent
        return Where(self.space.box(extents))

    def _access(
        self, mode: str, line: int, pointer: Value, value: Value, named: Mapping[str, Value]
    ) -> Value:
        mask = named.get("mask")
        if isinstance(pointer, Block):
            checked = named.get("boundary_check") or ()
            return self._block_access(mode, pointer, value, line, tuple(checked))
        if not isinstance(pointer, Pointer):
            raise NotRead(line, "an address that is not read")
        shape = _broadcast(pointer.shape, _shape(mask))
        if mode != "load":
            shape = _broadcast(shape, _shape(value))
        if shape is None or len(shape) > len(LANES):
            pointer = replace(
                pointer, at=None, why=pointer.why or "the shape of its tile is not known"
            )
            shape = ()
        guard = self._lanes(shape)
        if mask is not None:
            found = self.truth(mask)
            guard = guard & (found if isinstance(found, Where) else self._plainly(found))
        own = _shape(value) or ()
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
        return self._block_access(mode, at, None, line, ())

    def _block_access(
        self, mode: str, block: Block, value: Value, line: int, checked: tuple[Value, ...]
    ) -> Value:
        at, guard = block.base.at, self._lanes(block.shape)
        rank = len(block.shape)
        for axis, (size, stride, offset) in enumerate(
            zip(block.sizes, block.strides, block.offsets, strict=True)
        ):
            index = self.arith.add(offset, self.space.var(f"a{rank - axis}"))
            at = self.arith.add(at, self.arith.mul(index, stride))
            if block.guarded or axis in checked:
                guard = (
                    guard
                    & self.arith.compare(">=", index, 0)
                    & self.arith.compare("<", index, size)
                )
        self.touch(mode, replace(block.base, at=at), line, guard)
        return Tile(None, block.shape)

    def _do_make_block_ptr(self, line: int, base: Value, shape: Value, strides: Value, offsets: Value,
                           block_shape: Value, order: Value = None) -> Value:  # fmt: skip
        return self._block(line, base, shape, strides, offsets, block_shape, guarded=False)

    def _do_make_tensor_descriptor(self, line: int, base: Value, shape: Value, strides: Value,
                                   block_shape: Value, **more: Value) -> Value:  # fmt: skip
        return self._block(line, base, shape, strides, (0,) * len(shape), block_shape, guarded=True)

    def _block(self, line: int, base: Value, shape: Value, strides: Value, offsets: Value, block: Value,
               *, guarded: bool) -> Value:  # fmt: skip
        extents = [self.arith.constant(self._number(n)) for n in block]
        if not isinstance(base, Pointer) or any(n is None for n in extents):
            raise NotRead(line, "a block pointer that is not read")
        sizes, steps, at = (tuple(self._number(n) for n in v) for v in (shape, strides, offsets))
        found = tuple(n for n in extents if n is not None)
        return Block(base, sizes, steps, at, found, guarded=guarded)

    def _do_advance(self, line: int, block: Value, offsets: Value) -> Value:
        if not isinstance(block, Block):
            raise NotRead(line, "an advance of something that is no block pointer")
        moved = (
            self.arith.add(a, self._number(b)) for a, b in zip(block.offsets, offsets, strict=True)
        )
        return replace(block, offsets=tuple(moved))

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
        return found if isinstance(found, int) else Tile(found, _broadcast(_shape(x), _shape(div)))

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
        return Tile(pick(a, b), _broadcast(*(_shape(x) for x in args)))

    def _reduced(self, args: list[Value], named: Mapping[str, Value]) -> Value:
        shape = _shape(args[0])
        axis = named.get("axis", args[1] if len(args) > 1 else None)
        if shape is None:
            return Tile(None, None)
        if axis is None:
            return Tile(None, ())
        if not isinstance(axis, int):
            return Tile(None, None)
        kept = list(shape)
        if named.get("keep_dims"):
            kept[axis] = 1
        else:
            del kept[axis]
        return Tile(None, tuple(kept))

    def _do_where(self, line: int, condition: Value, x: Value, y: Value) -> Value:
        shape = _broadcast(_shape(condition), _shape(x), _shape(y))
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
        return self._reshaped(value, None)

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
        axes: list[int | None] = list(range(len(_shape(value) or ())))
        axes.insert(axis if axis >= 0 else len(axes) + 1 + axis, None)
        return self._arranged(value, axes)

    def _do_trans(self, line: int, value: Value, *order: Value) -> Value:
        rank = len(_shape(value) or ())
        flat = order[0] if len(order) == 1 and isinstance(order[0], tuple) else order
        axes = list(flat) if flat else [*range(rank - 2), rank - 1, rank - 2]
        return self._arranged(value, axes)

    _do_permute = _do_trans

    def _do_dot(
        self, line: int, a: Value, b: Value, acc: Value = None, *_: Value, **__: Value
    ) -> Value:
        one, two = _shape(a), _shape(b)
        return Tile(None, None if not one or not two else (*one[:-1], two[-1]))

    def _do_to(self, line: int, value: Value, *_: Value, **__: Value) -> Value:
        if isinstance(value, Pointer):
            return replace(value, at=None, why="its pointer was cast")
        kind = _[0] if _ else None
        whole = not isinstance(kind, Other) or "int" in kind.name
        return value if whole else Tile(None, _shape(value))

    def _do_cumsum(self, line: int, value: Value, *_: Value, **__: Value) -> Value:
        return Tile(None, _shape(value))

    def _do_range(self, line: int, *args: Value, **_: Value) -> Value:
        return Other("range")

    def _do_len(self, line: int, value: Value) -> Value:
        return len(value)

    def _do_join(self, line: int, *args: Value) -> Value:
        return Tile(None, None)

    _do_cat = _do_interleave = _do_histogram = _do_gather = _do_join

    def _do_split(self, line: int, value: Value) -> Value:
        return (Tile(None, None), Tile(None, None))


def _python(op: type[ast.operator], a: Any, b: Any) -> Value:
    code = ast.Expression(ast.BinOp(ast.Constant(a), op(), ast.Constant(b)))
    import operator

    known = {
        ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod, ast.Div: operator.truediv, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
        ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    }  # fmt: skip
    if op is ast.Pow and isinstance(b, int) and 0 <= b < 64:
        return a**b
    try:
        return known[op](a, b)
    except (KeyError, TypeError, ZeroDivisionError, ValueError) as e:
        raise NotRead(getattr(code, "lineno", 1), "arithmetic of constants that is not read") from e


def _python_compare(op: ast.cmpop, a: Value, b: Value) -> bool:
    match op:
        case ast.Is():
            return a is b
        case ast.IsNot():
            return a is not b
        case ast.Eq():
            return bool(a == b)
        case ast.NotEq():
            return bool(a != b)
        case ast.In():
            return a in b
        case ast.NotIn():
            return a not in b
    sign = {ast.Lt: a < b, ast.LtE: a <= b, ast.Gt: a > b, ast.GtE: a >= b}
    return bool(sign[type(op)])
