"""Run a Program on torch tensors, literally: buffers start as NaN, copies land at Sync.

The proof instrument for passes: a dropped copy reads NaN, a missing Sync reads stale data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from septran.ir.expr import Expr, evaluate
from septran.ir.nodes import (
    Alloc,
    Await,
    Copy,
    For,
    LeafCall,
    Post,
    Program,
    Region,
    Stmt,
    Sync,
    When,
)

if TYPE_CHECKING:
    import torch


class Hazard(Exception):
    """The Program broke a rule only execution shows (double post, wait without post)."""


def interpret(
    program: Program, args: Mapping[str, Any], *, copies: Literal["late", "early"] = "late"
) -> None:
    """Run `program` in place on torch CPU tensors by parameter name.

    copies: "late" = a copy reads and writes at the next Sync or matching Await; "early" = at once.
        A correct Program gives the same result both ways.

    Raises:
        Hazard: an event is awaited that was never posted, posted twice, or left over.
    """
    machine = _Run(dict(args), late=copies == "late")
    for p in program.params:
        if "r" not in p.privilege:
            _poison(machine.buffers[p.buffer.name])
    machine.body(program.body, {})
    if machine.pending:
        raise Hazard(f"{len(machine.pending)} copies never waited for at the end of the kernel")
    if machine.posted:
        left = ", ".join(f"{name}[{slot}]" for name, slot in machine.posted)
        raise Hazard(f"events left posted at the end of the kernel: {left}")


def _poison(t: torch.Tensor) -> None:
    if t.is_floating_point():
        t.fill_(float("nan"))
    else:
        t.fill_(77)


class _Run:
    """State of one run."""

    def __init__(self, buffers: dict[str, Any], *, late: bool) -> None:
        self.buffers = buffers
        self.late = late
        self.pending: list[tuple[Any, Any]] = []
        self.posted: dict[tuple[str, int], list[tuple[Any, Any]]] = {}
        """event and slot -> the copies issued before it was posted; they land when it is awaited."""

    def body(self, body: tuple[Stmt, ...], env: dict[str, int]) -> None:
        for stmt in body:
            self.stmt(stmt, env)

    def stmt(self, stmt: Stmt, env: dict[str, int]) -> None:
        match stmt:
            case Alloc():
                self.alloc(stmt)
            case Copy():
                dst, src = self.view(stmt.dst, env), self.padded(stmt.src, env)
                self.pending.append((dst, src))
                if not self.late:
                    self.land(self.pending)
            case Sync():
                for copies in self.posted.values():
                    self.land(copies)
                self.land(self.pending)
            case LeafCall():
                self.leaf(stmt, env)
            case For():
                for i in range(evaluate(stmt.extent, env)):
                    self.body(stmt.body, {**env, stmt.var: i})
            case When():
                if stmt.low <= evaluate(stmt.expr, env) < stmt.high:
                    self.body(stmt.body, env)
            case Post():
                key = (stmt.event, evaluate(stmt.slot, env))
                if key in self.posted:
                    raise Hazard(f"{key[0]}[{key[1]}] is posted twice without an await")
                self.posted[key] = self.pending if stmt.engine == "copy" else []
                if stmt.engine == "copy":
                    self.pending = []
            case Await():
                key = (stmt.event, evaluate(stmt.slot, env))
                if key not in self.posted:
                    raise Hazard(f"await {key[0]}[{key[1]}] without a post")
                self.land(self.posted.pop(key))

    def alloc(self, stmt: Alloc) -> None:
        import torch

        b = stmt.buffer
        shape = (b.versions, *b.shape)
        made = torch.empty(shape, dtype=getattr(torch, b.dtype))
        _poison(made)
        self.buffers[b.name] = made if b.versions > 1 else made[0]

    def land(self, copies: list[tuple[Any, Any]]) -> None:
        for dst, src in copies:
            dst.copy_((src() if callable(src) else src).reshape(dst.shape))
        copies.clear()

    def view(self, r: Region, env: dict[str, int]) -> Any:
        t = self.buffers[r.buffer.name]
        if r.buffer.versions > 1:
            t = t[0 if r.version is None else evaluate(r.version, env)]
        slices = []
        for o, e, s in zip(r.offset, r.extent, r.step, strict=True):
            start, count = evaluate(o, env), evaluate(e, env)
            slices.append(slice(start, start + (count - 1) * s + 1, s))
        return t[tuple(slices)]

    def padded(self, r: Region, env: dict[str, int]) -> Any:
        """Return the region's values when asked for; positions outside a guarded buffer read as 0."""
        if not r.guard:
            return self.view(r, env)
        t = self.buffers[r.buffer.name]
        starts = [evaluate(o, env) for o in r.offset]
        counts = [evaluate(e, env) for e in r.extent]

        def read() -> Any:
            import torch

            index = []
            inside = torch.ones((1,) * t.ndim, dtype=torch.bool)
            for d, (o, n, s) in enumerate(zip(starts, counts, r.step, strict=True)):
                at = torch.arange(n) * s + o
                good = (at >= 0) & (at < t.shape[d])
                shape = [1] * t.ndim
                shape[d] = n
                index.append(at.clamp(0, t.shape[d] - 1).reshape(shape))
                inside = inside & good.reshape(shape)
            return torch.where(inside, t[tuple(index)], torch.zeros((), dtype=t.dtype))

        return read

    def leaf(self, call: LeafCall, env: dict[str, int]) -> None:
        from septran.tasklang.oracle import apply_primitive

        names: dict[str, Any] = {a.param: self.view(a.region, env) for a in call.args}
        for name, value in call.scalars:
            names[name] = evaluate(value, env) if isinstance(value, Expr) else value
        for prim in call.prims:
            attrs = dict(prim.attrs) | {k: names[v] for k, v in prim.named}
            apply_primitive(prim.name, names[prim.out], tuple(names[n] for n in prim.ins), attrs)
