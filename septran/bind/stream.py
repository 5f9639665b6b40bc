"""Turn a leaf on a panel into a loop over the panel's blocks.

before: gemm(C[i, j], A[i, :], B[:, j]), with A and B wanted in another memory
after: C_r = alloc; fill(C_r, 0); for kk: gemm_acc(C_r, A[i, kk], B[kk, j]); copy C[i, j] <- C_r
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from septran.errors import MappingError
from septran.ir.dtypes import HALVES, IDENTITY
from septran.ir.expr import Const, Var, cdiv, minimum
from septran.ir.nodes import Alloc, Copy, For, LeafArg, LeafCall, Prim, Region, Stmt
from septran.mapping.schema import Instance
from septran.tasklang.primitives import PRIMITIVES


def stream_leaf(
    call: LeafCall,
    inst: Instance,
    *,
    fresh: Callable[[str], str],
    staged: Callable[[Region, str, str], Region],
    pipeline: int,
    warpspecialize: bool,
    register: dict[str, tuple[int, int]],
    accumulator: str,
    whole: Prim | None,
) -> tuple[Stmt, ...]:
    """Return `call`, or its streamed form when a panel has to change memory.

    accumulator: memory of the accumulator when the mapping leaves a half-precision result in place.
    whole: the one primitive that the call's are, or are steps of.

    Raises:
        MappingError: M031 the leaf cannot be streamed, M032 operands blocked differently.
    """
    panels = [
        (arg, d)
        for arg in call.args
        for d, block in enumerate(arg.region.grid)
        if block and arg.mem and arg.mem != arg.region.buffer.mem
    ]
    flat = replace(call, args=tuple(replace(a, region=_flat(a.region)) for a in call.args))
    if not panels:
        return (flat,)
    prim = call.prims[-1]
    row = PRIMITIVES[prim.name]
    if whole is None or row.stream is None or not _reduced_only(whole, panels):
        arg, d = panels[0]
        raise MappingError.of(
            "M031",
            f"{inst.name}: panel {_panel_text(arg, d)} does not fit {arg.mem} and leaf "
            f"{call.task!r} cannot be streamed (only a single gemm or reduce along its reduction can)",
            inst.key_span("mems"),
            notes=() if call.span is None else (f"launched at {call.span}",),
            help="loop over the blocks in the logic with task.sequential_range, or keep the operand "
            "where it is",
        )
    later = [p for p in panels if p[0] is panels[0][0] and p is not panels[0]]
    panels = [p for p in panels if p not in later]
    blocks = {arg.param: arg.region.grid[d] for arg, d in panels}
    if len(set(blocks.values())) != 1:
        told = ", ".join(f"{p} {b}" for p, b in blocks.items())
        raise MappingError.of(
            "M032",
            f"{inst.name}: operands are blocked differently along the streamed dimension: {told}",
            inst.key_span("tiles"),
            help="set tiles or use a square block_size",
        )
    step = next(iter(blocks.values()))
    first, d0 = panels[0]
    total, bound = first.region.extent[d0], first.region.tile[d0]
    var = fresh("kk")
    register[var] = (0, -(-bound // step) - 1)
    at = Var(var) * step
    even = total == Const(bound) and bound % step == 0
    extent = Const(step) if even else minimum(step, total - at)
    cut = {arg.param: _cut(arg.region, d, at, extent, step) for arg, d in panels}

    out = call.arg(prim.out)
    before: list[Stmt] = []
    after: list[Stmt] = []
    target = replace(out, region=_flat(out.region))
    half = out.region.buffer.dtype in HALVES
    moves = bool(out.mem) and out.mem != out.region.buffer.mem
    if moves or half:  # a half-precision result still accumulates its blocks in float32
        dtype = "float32" if half else out.region.buffer.dtype
        tile = staged(_flat(out.region), out.mem or accumulator, dtype)
        before.append(Alloc(buffer=tile.buffer, span=call.span))
        if "r" in out.privilege:
            before.append(Copy(dst=tile, src=_flat(out.region), span=call.span))
        after.append(Copy(dst=_flat(out.region), src=tile, span=call.span))
        target = LeafArg(param=out.param, region=tile, privilege=out.privilege)
    initial, step_prim = row.stream
    if initial:
        before.append(_initial(call, prim, target))
    rest = tuple(
        replace(a, region=cut.get(a.param, _flat(a.region))) for a in call.args if a is not out
    )
    inner = replace(
        call,
        args=(replace(target, privilege="rw"), *rest),
        prims=(*call.prims[:-1], replace(prim, name=step_prim)),
    )
    body: tuple[Stmt, ...]
    if later:  # the same operand, cut along its next axis
        body = stream_leaf(
            inner,
            inst,
            fresh=fresh,
            staged=staged,
            pipeline=pipeline,
            warpspecialize=warpspecialize,
            register=register,
            accumulator=accumulator,
            whole=whole,
        )
    else:
        body, parts = _of_a_block(inner, whole, staged)
        before += parts
    innermost = not later
    loop = For(
        var=var,
        extent=cdiv(total, step),
        body=body,
        pipeline=pipeline if innermost else 0,
        warpspecialize=warpspecialize and pipeline > 1 and innermost,
        span=call.span,
    )
    return (*before, loop, *after)


def _of_a_block(
    call: LeafCall, whole: Prim, staged: Callable[[Region, str, str], Region]
) -> tuple[tuple[Stmt, ...], list[Stmt]]:
    """Return a call on a block with what lies between its steps as large as that block, and where that is made."""
    made: list[Stmt] = []
    args = []
    between = {p.out for p in call.prims[:-1]}
    block = call.arg(whole.ins[0]).region
    for arg in call.args:
        if arg.param in between:
            tile = tuple(
                1 if t == 1 else b for t, b in zip(arg.region.tile, block.tile, strict=True)
            )
            extent = tuple(
                Const(1) if t == 1 else e for t, e in zip(tile, block.extent, strict=True)
            )
            like = replace(_flat(arg.region), tile=tile, extent=extent)
            region = staged(like, like.buffer.mem, like.buffer.dtype)
            made.append(Alloc(buffer=region.buffer, span=call.span))
            arg = replace(arg, region=region)
        args.append(arg)
    return (replace(call, args=tuple(args)),), made


def _initial(call: LeafCall, prim: Prim, target: LeafArg) -> LeafCall:
    value = IDENTITY[str(prim.attr("op"))] if prim.name == "reduce" else 0.0
    return LeafCall(
        task=f"{call.task}_init",
        impl="auto",
        args=(replace(target, privilege="w"),),
        prims=(Prim(name="fill", out=target.param, attrs=(("value", value),)),),
        span=call.span,
    )


def _reduced_only(prim: Prim, panels: list[tuple[LeafArg, int]]) -> bool:
    """Return whether every panel dimension is the primitive's reduction."""
    for arg, d in panels:
        rank = arg.region.rank
        if prim.name in ("gemm", "gemm_acc"):
            a, b = prim.ins
            wanted = set()
            if arg.param == a:
                wanted.add(rank - 2 if prim.attr("trans_a") else rank - 1)
            if arg.param == b:
                wanted.add(rank - 1 if prim.attr("trans_b") else rank - 2)
            if d not in wanted:
                return False
        elif d not in prim.axes(rank) or arg.param != prim.ins[0]:
            return False
    return True


def _flat(region: Region) -> Region:
    return replace(region, grid=(0,) * region.rank)


def _cut(region: Region, d: int, at: object, extent: object, step: int) -> Region:
    """Return a block along dim `d`; other dims keep the blocks that they are cut into later."""

    def put(items: tuple[object, ...], value: object) -> tuple[object, ...]:
        return (*items[:d], value, *items[d + 1 :])

    offset = region.offset[d] + at * region.step[d]  # type: ignore[operator]
    return replace(
        region,
        offset=put(region.offset, offset),  # type: ignore[arg-type]
        extent=put(region.extent, extent),  # type: ignore[arg-type]
        tile=put(region.tile, step),  # type: ignore[arg-type]
        grid=put(region.grid, 0),  # type: ignore[arg-type]
    )


def _panel_text(arg: LeafArg, d: int) -> str:
    index = ", ".join(":" if i == d else "." for i in range(arg.region.rank))
    return f"{arg.region.buffer.name}[{index}]"
