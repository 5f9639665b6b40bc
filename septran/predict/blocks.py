"""Ticks of a Program whose blocks fill the multiprocessors of a GPU: rates, occupancy and what latency is left.

A multiprocessor holds as many blocks as their threads, registers and shared memory let it. All blocks of a launch are
counted, and the fullest multiprocessor decides: it needs the longest of arithmetic, shared memory, L2 and DRAM, because
resident blocks and copies that run ahead overlap them. What they cannot hide of the memory's latency is added as waiting.
Registers are the compiler's where it was asked (`septran tune`), else those of the Program's tiles and a fixed number beside them.
Sources: S. Williams, A. Waterman, D. Patterson, Roofline (CACM 2009); V. Volkov, Understanding Latency Hiding on GPUs (2016).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from septran.ir.access import touches
from septran.ir.dtypes import nbytes
from septran.ir.expr import evaluate
from septran.ir.launch import HostLoop, Launch, Step, launches
from septran.ir.nodes import Alloc, Copy, For, LeafCall, Program, Stmt, walk
from septran.ir.visits import decisive, visits
from septran.predict.cost import PRODUCTS, Env, Unknown, kind_of, moved, operations, sizes, ticks
from septran.predict.prediction import Prediction
from septran.speed import OTHER, PROCESSOR, Level, Rates, Speed

_BESIDE = 40
"""registers of a thread beside the Program's tiles: addresses, counters, operands on their way"""
_GROUP = 4
"""warps of a warpgroup"""
_SAMPLES = 8
"""blocks along one loop of a grid that are looked at where sizes depend on its place"""


def launched(program: Program, speed: Speed, registers: int = 0) -> Prediction:
    """Return the prediction for a Program of BLOCK grids. registers: of a thread, as a compiler says; 0: of the tiles.

    Raises:
        Unknown: a figure is missing.
    """
    if len(speed.levels) != 3 or PROCESSOR not in speed.engines:
        raise Unknown("a GPU needs figures of PROCESSOR and three levels: shared memory, L2, DRAM")
    found = [_of_step(step, {}, program, speed, registers) for step in launches(program)]
    parts = Counter[str]()
    for each in found:
        parts.update(each.parts)
    total = sum(each.ticks for each in found)
    bound = max(parts, key=lambda name: parts[name], default="launch")
    why = tuple(dict.fromkeys(sentence for each in found for sentence in each.why))
    return Prediction(ticks=total, clock=speed.clock, bound=bound, parts=dict(parts), why=why)


@dataclass(frozen=True, slots=True)
class _Taken:
    ticks: float
    parts: Mapping[str, float]
    why: tuple[str, ...] = ()


def _of_step(step: Step, env: Env, program: Program, speed: Speed, registers: int) -> _Taken:
    match step:
        case HostLoop(loop=loop):
            times = evaluate(loop.extent, env)
            at = {**env, loop.var: 0}
            inner = [_of_step(s, at, program, speed, registers) for s in step.steps]
            parts = Counter[str]()
            for each in inner:
                parts.update({name: times * value for name, value in each.parts.items()})
            return _Taken(
                times * sum(e.ticks for e in inner), parts, tuple(w for e in inner for w in e.why)
            )
        case Launch() if step.grid:
            return _of_launch(step, env, program, speed, registers)
    return _Taken(0.0, {})


def _of_launch(launch: Launch, env: Env, program: Program, speed: Speed, registers: int) -> _Taken:
    engine = speed.engines[PROCESSOR]
    shared, far, deep = speed.levels
    group = _GROUP if program.option("math") == "wgmma" else 1
    work = _mean([_work(launch.body, at, engine, group) for at in _places(launch, env)])
    threads = _threads(program)
    resident, limit = _resident(launch.body, threads, speed, registers)
    blocks = launch.blocks
    on_one = math.ceil(blocks / speed.units)  # blocks of the fullest multiprocessor
    waves = math.ceil(on_one / resident)
    together = min(blocks, resident * speed.units)
    dram = _from_dram(program, work.far, blocks, together, far)
    parts = {
        "arithmetic": on_one * work.arithmetic,
        shared.name: on_one * work.near / shared.read,
        far.name: blocks * sum(work.far.values()) / far.read,
        deep.name: dram / deep.read,
    }
    busy = max(parts.values())
    chain = work.rounds * engine.latency  # of one block, one round after another
    alone = busy / max(1, waves * min(on_one, resident))
    parts["waiting"] = max(0.0, waves * (chain - (min(on_one, resident) - 1) * alone))
    parts["launch"] = speed.launch
    used = min(1.0, blocks / speed.units)
    warp = int(speed.resident["warp"])
    warps = min(on_one, resident) * math.ceil(threads / warp)
    most = int(speed.resident["threads"]) // warp
    why = (
        f"{blocks} blocks of {threads} threads on {speed.units} multiprocessors: "
        f"{used:.0%} of them work, {waves} after another",
        f"a multiprocessor holds {resident} such blocks, limited by {limit}; {warps} of {most} warps",
    )
    return _Taken(busy + parts["waiting"] + speed.launch, parts, why)


def _places(launch: Launch, env: Env) -> list[Env]:
    """Return environments of blocks that stand for all: one, or some at even distances where sizes depend on the place."""
    names = decisive(launch.body)
    values = []
    for loop in launch.grid:
        extent = evaluate(loop.extent, env)
        count = min(extent, _SAMPLES) if loop.var in names else 1
        middle = [(2 * i + 1) * extent // (2 * count) for i in range(count)]
        values.append([(loop.var, at) for at in (middle if loop.var in names else [0])])
    return [{**env, **dict(each)} for each in itertools.product(*values)]


@dataclass(frozen=True, slots=True)
class _Work:
    """Of one block. arithmetic: ticks. near: bytes of shared memory. far: tensor -> bytes of global memory. rounds: latencies."""

    arithmetic: float
    near: float
    far: Mapping[str, float]
    rounds: float


def _mean(works: Sequence[_Work]) -> _Work:
    """Return the mean block: multiprocessors take the next block when one ends, so all are busy to the end, nearly."""
    count = len(works)
    far = Counter[str]()
    for work in works:
        far.update({name: size / count for name, size in work.far.items()})
    return _Work(
        sum(w.arithmetic for w in works) / count,
        sum(w.near for w in works) / count,
        far,
        sum(w.rounds for w in works) / count,
    )


def _work(body: tuple[Stmt, ...], env: Env, engine: Rates, group: int) -> _Work:
    """Return what a block does. group: warps that read an operand of a product together."""
    arithmetic = near = 0.0
    far, rounds = Counter[str](), 1
    ahead = {id(s) for loop in walk(body) if isinstance(loop, For) and loop.pipeline > 1 for s in walk(loop.body)}  # fmt: skip
    for stmt, at, times in visits(body, env):
        if isinstance(stmt, LeafCall):
            arithmetic += times * sum(elements(stmt, prim_at, at, engine) for prim_at in range(len(stmt.prims)))  # fmt: skip
        for region, how in touches(stmt):
            size = times * moved(region, at) * (2 if how == "rw" else 1)
            if region.buffer.mem == "SHARED":
                near += size * max(1, _again(stmt, region.buffer.name) // group)
            elif region.buffer.mem == "GLOBAL":
                far[region.buffer.name] += size
                first = isinstance(stmt, Copy) and (stmt.engine in ("ASYNC", "BULK") or id(stmt) in ahead)  # fmt: skip
                rounds += 0 if first or "w" in how else times
    return _Work(arithmetic, near, far, rounds)


def elements(call: LeafCall, number: int, env: Env, engine: Rates) -> float:
    """Return the ticks of a leaf's primitive; the threads of a block take its elements as they come."""
    prim = call.prims[number]
    if prim.name in PRODUCTS:
        return ticks(_only(call, number), env, PROCESSOR, engine)
    widest = prim.ins[0] if prim.name in ("reduce", "reduce_acc") else prim.out
    elements = math.prod(sizes(call.arg(widest).region, env))
    counted = Counter({kind_of(prim): 1})
    if prim.name == "map":
        full = tuple(word for word, _ in prim.named)
        each, once = operations(str(prim.attr("expr")), full)
        counted = each + once
    cost = sum(
        n * engine.operations.get(word, engine.operations.get(OTHER, 1.0))
        for word, n in counted.items()
    )
    return elements * 4 / engine.vector * cost


def _only(call: LeafCall, number: int) -> LeafCall:
    return replace(call, prims=(call.prims[number],))


def _again(stmt: Copy | LeafCall, name: str) -> int:
    """Return how many warps read the same operand of a product, from the layout of its sums."""
    if isinstance(stmt, Copy) or len(stmt.prims) != 1 or stmt.prims[0].name not in PRODUCTS:
        return 1
    prim = stmt.prims[0]
    kind, _, grid = stmt.arg(prim.out).region.buffer.layout.partition(":")
    if kind != "frag" or len(prim.ins) != 2:
        return 1
    down, across = (int(n) for n in grid.split("x")[:2])
    left, _ = (stmt.arg(operand).region.buffer.name for operand in prim.ins)
    return across if name == left else down


def _threads(program: Program) -> int:
    found = program.option("threads")
    return found if isinstance(found, int) else 128


def _resident(
    body: tuple[Stmt, ...], threads: int, speed: Speed, registers: int
) -> tuple[int, str]:
    """Return how many blocks a multiprocessor holds at once, and what limits them."""
    held = Counter[str]()
    for stmt in walk(body):
        if isinstance(stmt, Alloc):
            b = stmt.buffer
            held[b.mem] += (b.size or math.prod(b.shape) * nbytes(b.dtype)) * b.versions
    tiles = math.ceil(held["REGISTER"] / 4 / threads)
    taken = min(speed.resident["thread_registers"], registers or tiles + _BESIDE) * threads
    room = {
        "blocks": speed.resident["blocks"],
        "threads": speed.resident["threads"] // threads,
        "registers": speed.resident["registers"] // taken,
        "shared memory": speed.resident["shared"] // held["SHARED"] if held["SHARED"] else math.inf,
    }
    limit = min(room, key=lambda name: room[name])
    return max(1, int(room[limit])), limit


def _from_dram(
    program: Program, far: Mapping[str, float], blocks: int, together: int, l2: Level
) -> float:
    """Return the bytes that DRAM moves: each tensor once, and again where L2 is too small for what runs together.

    Blocks that run together and share a row or a column of a square of them read it once.
    """
    total = 0.0
    for param in program.params:
        size = float(math.prod(param.buffer.shape) * nbytes(param.buffer.dtype))
        traffic = blocks * far.get(param.buffer.name, 0.0)
        kept = l2.bytes is not None and size <= l2.bytes
        total += min(size, traffic) if kept else max(min(size, traffic), traffic / math.sqrt(together))  # fmt: skip
    return total
