"""The accesses of a Triton launch, read from the kernel's text and the launch that was made."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from septran.backends.judged.flow import LOOPS
from septran.backends.judged.values import Block, Other, Pointer, Value
from septran.backends.text.python_module import statements
from septran.backends.triton.tile_calls import TileReader
from septran.backends.triton.tile_flow import LANES, PROGRAMS, last
from septran.prove.foreign.launch import Launch, Memory, NotRead
from septran.prove.foreign.quantity import Space

_COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While)


def launch_of(text: str, file: str, record: Mapping[str, Any]) -> Launch:
    """Return the accesses of one recorded launch.

    record: kernel (name), grid (three extents), args: name -> a number, a bool, a text, null, or
        {"memory", "size", "start"} in elements, {"descriptor" (such a memory), "shape", "strides", "block_shape"}.

    Raises:
        NotRead: nothing can be said of the kernel.
    """
    module = ast.parse(text)
    every = [n for n in statements(module) if isinstance(n, ast.FunctionDef)]
    functions = {n.name: n for n in every}
    found = functions.get(record["kernel"])
    if found is None:
        raise NotRead(1, f"{record['kernel']} is not a function of the file")
    within = {n.name for n in every if n not in module.body}
    for name in within:  # which of them it is depends on more than the text
        if [n.name for n in every].count(name) > 1:
            raise NotRead(functions[name].lineno, f"{name} is defined more than once")
    space = Space((*PROGRAMS, *LOOPS, *LANES))
    memories: dict[str, Memory] = {}
    env = {name: _argument(name, value, memories) for name, value in record["args"].items()}
    grid = tuple(int(n) for n in record["grid"])
    read = TileReader(space, grid, functions, _constants(module))
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
    if isinstance(value, dict) and "descriptor" in value:
        base = _argument(name, value["descriptor"], memories)
        sizes, steps, block = (
            tuple(map(int, value[n])) for n in ("shape", "strides", "block_shape")
        )
        if isinstance(base, Pointer) and len({len(sizes), len(steps), len(block)}) == 1:
            return Block(base, sizes, steps, (0,) * len(block), block)
    if isinstance(value, dict):
        return Other(str(value))
    return value


def _constants(module: ast.Module) -> dict[str, Value]:
    """Return the module's constants, but for what an `if`, `try` or loop may set, too."""
    found: dict[str, Value] = {}
    nested = (n for s in module.body if isinstance(s, _COMPOUND) for n in ast.walk(s))
    open_ = {n.id for n in nested if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for stmt in module.body:
        if isinstance(stmt, ast.Assign | ast.AnnAssign) and stmt.value is not None:
            target = stmt.targets[0] if isinstance(stmt, ast.Assign) else stmt.target
            value = stmt.value
            if isinstance(value, ast.Call) and last(value.func) == "constexpr" and value.args:
                value = value.args[0]
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                found[target.id] = value.value
    return {name: value for name, value in found.items() if name not in open_}
