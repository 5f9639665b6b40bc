"""Pass `mark_unread`: say which results of a leaf nothing reads, so that the leaf need not store them.

    alloc t; f(w Y, r X, w t)          -->        alloc t; f(w Y, r X, w t unread)

A temporary of a leaf is a parameter that the leaf writes: only the Program knows whether another statement wants it.
Two cases are told, both without following loops: nothing in the Program reads the buffer, or the buffer is made in
the statement list of the call and nothing behind the call reads it.
"""

from __future__ import annotations

from dataclasses import replace

from septran.ir.access import map_bodies, reads
from septran.ir.nodes import Alloc, LeafCall, Program, Stmt, allocated


def mark_unread(program: Program) -> Program:
    """Return `program` with `unread` set in the leaf arguments that it holds for."""
    made = {b.name for b in allocated(program.body)}
    never = frozenset(made - reads(program.body))
    return replace(program, body=map_bodies(program.body, lambda body: _marked(body, never)))


def _marked(body: tuple[Stmt, ...], never: frozenset[str]) -> tuple[Stmt, ...]:
    own = {s.buffer.name for s in body if isinstance(s, Alloc)}
    return tuple(
        _call(s, never | (own - reads(body[at + 1 :]))) if isinstance(s, LeafCall) else s
        for at, s in enumerate(body)
    )


def _call(call: LeafCall, unread: frozenset[str]) -> LeafCall:
    args = tuple(
        replace(a, unread=True) if "w" in a.privilege and a.region.buffer.name in unread else a
        for a in call.args
    )
    return replace(call, args=args)
