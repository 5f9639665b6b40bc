"""Insert Sync where a statement needs what an issued copy moves, or reuses what it still reads.

    copy t <- A; f(t)              -->   copy t <- A; sync; f(t)
    for k: copy t <- A[k]; f(t)    -->   for k: (sync); copy t <- A[k]; sync; f(t)   (back edge)
    copy C <- t                    -->   copy C <- t; sync                           (end of scope)
    copy t <- A; for w on WARP: .. -->   copy t <- A; sync; for w on WARP: ..        (inner processors)

Covers read-after-write, write-after-read and write-after-write between copies and leaves, around
loop back edges, and at the end of every processor's body. Leaves on shared buffers count as pending
too, because other threads may still be reading them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from septran.ir.access import reads, regions, writes
from septran.ir.nodes import Alloc, Copy, For, LeafCall, Program, Stmt, Sync, When


@dataclass(frozen=True, slots=True)
class _Pending:
    """Buffers that issued copies write and read, and that leaves wrote and read since the last Sync."""

    copy_writes: frozenset[str] = frozenset()
    copy_reads: frozenset[str] = frozenset()
    leaf_writes: frozenset[str] = frozenset()
    leaf_reads: frozenset[str] = frozenset()

    def join(self, other: _Pending) -> _Pending:
        return _Pending(
            self.copy_writes | other.copy_writes,
            self.copy_reads | other.copy_reads,
            self.leaf_writes | other.leaf_writes,
            self.leaf_reads | other.leaf_reads,
        )

    def blocks_copy(self, src: str, dst: str) -> bool:
        return (
            src in self.copy_writes | self.leaf_writes
            or dst in self.copy_writes | self.copy_reads | self.leaf_writes | self.leaf_reads
        )

    def blocks_leaf(self, reads: frozenset[str], writes: frozenset[str]) -> bool:
        return bool(
            reads & (self.copy_writes | self.leaf_writes)
            or writes & (self.copy_writes | self.copy_reads | self.leaf_writes | self.leaf_reads)
        )

    @property
    def copies(self) -> bool:
        return bool(self.copy_writes)


_NOTHING = _Pending()


def insert_sync(program: Program, *, private: tuple[str, ...] = ("REGISTER",)) -> Program:
    """Return the Program with Sync statements.

    private: memories whose buffers belong to one thread of execution; leaf-to-leaf hazards on them
        need no Sync (copy hazards do).
    """
    body, state = _body(program.body, _NOTHING, "", private)
    if state.copies:
        body = (*body, Sync(scope="HOST"))
    return replace(program, body=body)


def _shared(stmt: Stmt, private: tuple[str, ...]) -> frozenset[str]:
    """Return the buffers of a statement that other threads can see."""
    return frozenset(r.buffer.name for r, _ in regions(stmt) if r.buffer.mem not in private)


def _body(
    body: tuple[Stmt, ...], state: _Pending, scope: str, private: tuple[str, ...]
) -> tuple[tuple[Stmt, ...], _Pending]:
    out: list[Stmt] = []

    def sync() -> None:
        nonlocal state
        out.append(Sync(scope=scope or "HOST"))
        state = _NOTHING

    for stmt in body:
        match stmt:
            case Alloc():
                out.append(stmt)
            case Copy():
                if state.blocks_copy(stmt.src.buffer.name, stmt.dst.buffer.name):
                    sync()
                out.append(stmt)
                state = replace(
                    state,
                    copy_writes=state.copy_writes | {stmt.dst.buffer.name},
                    copy_reads=state.copy_reads | {stmt.src.buffer.name},
                )
            case LeafCall():
                used = reads((stmt,)), writes((stmt,))
                if state.blocks_leaf(*used):
                    sync()
                out.append(stmt)
                shared = _shared(stmt, private)
                state = replace(
                    state,
                    leaf_reads=state.leaf_reads | (used[0] & shared),
                    leaf_writes=state.leaf_writes | (used[1] & shared),
                )
            case For():
                inner_scope = stmt.proc or scope
                used = reads((stmt,)), writes((stmt,))
                nested = bool(stmt.proc and scope)
                if (nested or (stmt.proc and state.copies)) and state.blocks_leaf(*used):
                    sync()
                entering = _NOTHING if stmt.proc else state
                _, first = _body(stmt.body, entering, inner_scope, private)
                # the state around the back edge joins the state on entry; one round is a fixpoint,
                # because Sync only ever empties it
                around = entering if stmt.proc else entering.join(first)
                inner, leaving = _body(stmt.body, around, inner_scope, private)
                if stmt.proc:
                    if leaving.copies:
                        inner = (*inner, Sync(scope=inner_scope))
                    out.append(replace(stmt, body=inner))
                    if nested:  # the outer processor has not waited for what the inner ones did
                        shared = _shared(stmt, private)
                        state = replace(
                            state,
                            leaf_reads=state.leaf_reads | (used[0] & shared),
                            leaf_writes=state.leaf_writes | (used[1] & shared),
                        )
                else:
                    out.append(replace(stmt, body=inner))
                    state = leaving.join(entering)
            case When():
                inner, leaving = _body(stmt.body, state, scope, private)
                out.append(replace(stmt, body=inner))
                state = state.join(leaving)
            case _:
                out.append(stmt)
    return tuple(out), state
