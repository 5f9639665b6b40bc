"""OpenMP: loops whose iterations run at once, and regions that a team of threads runs."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from septran.backends.judged.c_flow import Array
from septran.backends.judged.c_functions import CFile
from septran.backends.judged.c_library import LibraryFlow
from septran.backends.judged.flow import LOOPS, assigned
from septran.backends.judged.values import Pointer, Tile, Value
from septran.prove.foreign.launch import Launch, Memory, NotRead, Touch
from septran.prove.foreign.quantity import Space, Where

TEAM = "thread"
"""the coordinate of a team's threads; outside a region it is 0"""
TEAMS = (2, 8)
"""sizes of teams for which a region is read that does not say how large its team is"""
_CLAUSE = re.compile(r"(\w+)\(([^)]*)\)")
_OWN = ("private", "firstprivate", "lastprivate", "reduction", "linear")


class OpenMpFlow(LibraryFlow):
    """A function of the host. team: threads of a region that does not say how many. found: what runs at once."""

    def __init__(
        self,
        source: CFile,
        file: str,
        memories: dict[str, Memory],
        sizes: dict[str, int],
        team: int,
    ) -> None:
        """file: for findings. memories, sizes: as for CFlow."""
        space = Space((TEAM, *LOOPS))
        super().__init__(source, space, Where(space.box({TEAM: 1})), memories, sizes)
        self.name, self.team = file, team
        self.found: list[Launch] = []
        self.inside = ""
        """"loop" or "team" in what runs at once"""
        self.constructs = 0

    def launch(
        self,
        kernel: str,
        groups: tuple[str, ...],
        touches: Sequence[Touch],
        memories: Mapping[str, Memory],
        around: tuple[str, ...] = (),
        members: tuple[str, ...] = (),
    ) -> Launch:
        """Return accesses of the host's own as a launch."""
        return Launch(
            kernel=kernel,
            file=self.name,
            space=self.space,
            groups=groups,
            members=members,
            memories=dict(memories),
            touches=tuple(touches),
            unread=tuple(self.unread),
            group="iteration",
            around=around,
        )

    def pragma(self, text: str, stmt: ast.With) -> None:
        """Follow a statement below `#pragma omp`."""
        words = re.sub(r"\([^)]*\)", " ", text.removeprefix("#pragma omp")).split()
        match words:
            case ["atomic" | "critical", *_]:
                outer, self.atomic = self.atomic, True
                try:
                    self.run(stmt.body)
                finally:
                    self.atomic = outer
            case ["simd", *_]:
                self.run(stmt.body)
            case ["parallel", "for", *_] if not self.inside and isinstance(stmt.body[0], ast.For):
                self._parallel(text, stmt.body[0])
            case ["parallel", *rest] if not self.inside and not {"sections", "for"} & {*rest}:
                self._region(text, stmt)
            case ["barrier"] if self.inside == "team" and self.dealt is None:
                self.barrier()
            case ["for", *_] if self._may_share() and isinstance(stmt.body[0], ast.For):
                self._shared_loop(text, stmt.body[0], waits="nowait" not in words)
            case ["single", *_] if self._may_share():
                with self._dealt(0):
                    self.run(stmt.body)
                if "nowait" not in words:
                    self.barrier()
            case ["master" | "masked"] if self._may_share():
                before = self.when
                self.when = before & self.arith.compare("==", self.space.var(TEAM), 0)
                self.run(stmt.body)
                self.when = before
            case _:
                raise NotRead(stmt.lineno, f"{text.removeprefix('#pragma ')} is not read")

    def called(self, name: str, args: list[Value], node: ast.Call) -> Value:
        """Follow what a thread asks about its team."""
        if name == "omp_get_max_threads":
            return self.team
        if name == "omp_get_num_threads":
            return self.team if self.inside == "team" else 1
        if name == "omp_get_thread_num" and self.inside != "loop":
            return Tile(self.space.var(TEAM)) if self.inside else 0
        return super().called(name, args, node)

    # ---- iterations at once
    def _parallel(self, text: str, loop: ast.For) -> None:
        levels = _levels(text)
        nest = _nest(loop, levels)
        depth = len(self.loops)
        with self._at_once("loop", text, loop, nest) as found:
            assert isinstance(found.body, ast.For)
            self._for(found.body)
        groups, around = LOOPS[depth : depth + levels], LOOPS[:depth]
        self.found.append(
            self.launch(f"line {loop.lineno}", groups, found.touches, found.memories, around)
        )

    # ---- a team
    def _region(self, text: str, stmt: ast.With) -> None:
        around, before, bounds = LOOPS[: len(self.loops)], self.when, self.arith.bounds
        outer = self.team
        self.team = self._asked(text, stmt.lineno)
        team = self.space.box({TEAM: self.team})
        self.when = Where(self.space.rename(before.set, {TEAM: None}) & team, exact=before.exact)
        self.arith.bounds = self.space.rename(bounds, {TEAM: None}) & team
        try:
            with self._at_once("team", text, stmt, ()) as found:
                self.run(found.body.body)
        finally:
            self.when, self.arith.bounds, self.team = before, bounds, outer
        name = f"line {stmt.lineno}"
        self.found.append(
            self.launch(name, (), found.touches, found.memories, around, members=(TEAM,))
        )

    def _asked(self, text: str, line: int) -> int:
        told = next((m[2].strip() for m in _CLAUSE.finditer(text) if m[1] == "num_threads"), None)
        if told is None:
            return self.team
        value = int(told) if told.isdigit() else self.env.get(told)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise NotRead(line, "a team whose size is not known before it runs")
        return value

    def _may_share(self) -> bool:
        return self.inside == "team" and self.dealt is None

    @contextmanager
    def _dealt(self, levels: int) -> Iterator[None]:
        """What any thread of the team runs, but each round of the loops around and of `levels` more only one."""
        self.constructs += 1
        self.dealt = (self.constructs, len(self.loops) + levels)
        try:
            yield
        finally:
            self.dealt = None

    def _shared_loop(self, text: str, loop: ast.For, *, waits: bool) -> None:
        """Follow `omp for`. Which thread runs which iteration is up to the schedule, so that it may be any."""
        levels = _levels(text)
        nest = _nest(loop, levels)
        own = _own(text)
        written = assigned(loop) - {n.target.id for n in nest if isinstance(n.target, ast.Name)}
        if own & written:
            self.env.update({n: Tile(None) for n in own & {*self.env}})
            loop = _Renamed({n: f"{n}__own" for n in own}).visit(copy.deepcopy(loop))
            self.env.update({f"{n}__own": Tile(None) for n in own})
        if not waits and "static" in text:
            raise NotRead(loop.lineno, "which thread runs which iteration of a loop without a wait")
        with self._dealt(levels):
            self._for(loop)
        if waits:
            self.barrier()

    # ---- variables
    @contextmanager
    def _at_once(
        self, what: str, text: str, stmt: ast.For | ast.With, nest: Sequence[ast.For]
    ) -> Iterator[_Found]:
        """Make variables of outside that are written elements of memories that all share, but for those that clauses name."""
        own = _own(text)
        written = assigned(stmt) - {n.target.id for n in nest if isinstance(n.target, ast.Name)}
        shared = {n for n in written & {*self.env} - own if not isinstance(self.env[n], Array)}
        body = _Shared(shared).visit(ast.fix_missing_locations(copy.deepcopy(stmt)))
        before, memories, env = self.touches, dict(self.memories), dict(self.env)
        for name in shared:
            self.memories[f"{name} "] = Memory(name=name, size=1)
            self.sizes[f"{name} "] = 4
            self.env[name] = Pointer(f"{name} ", 0)
        known = {*self.memories}
        self.touches, self.inside = [], what
        found = _Found(body)
        try:
            yield found
        finally:
            found.touches, self.touches, self.inside = self.touches, before, ""
        private = {self.env[n].memory for n in own if isinstance(self.env.get(n), Array)}
        found.memories = {
            k: replace(m, shared="all") if k in known and k not in private else m
            for k, m in self.memories.items()
        }
        self.memories = {**memories}
        changed = {n for n in (shared | own) & {*env} if not isinstance(env[n], Array)}
        self.env = {**env, **dict.fromkeys(changed, Tile(None))}


class _Found:
    """A body with its shared variables as memories, and what it touches."""

    def __init__(self, body: ast.For | ast.With) -> None:
        self.body = body
        self.touches: list[Touch] = []
        self.memories: dict[str, Memory] = {}


def _own(text: str) -> set[str]:
    """Return the variables of which each thread has its own."""
    clauses = ((m[1], m[2].split(":")[-1].split(",")) for m in _CLAUSE.finditer(text))
    return {n.strip() for kind, names in clauses if kind in _OWN for n in names}


def _levels(text: str) -> int:
    return next((int(m[2]) for m in _CLAUSE.finditer(text) if m[1] == "collapse"), 1)


def _nest(loop: ast.For, levels: int) -> list[ast.For]:
    found = [loop]
    while len(found) < levels:
        inner = found[-1].body
        if len(inner) != 1 or not isinstance(inner[0], ast.For):
            raise NotRead(loop.lineno, "loops that are collapsed and are not nested")
        found.append(inner[0])
    return found


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

    def visit_With(self, node: ast.With) -> ast.With:
        """Leave out what a pragma inside gives each thread of its own."""
        call = node.items[0].context_expr
        assert isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant)
        inner = _Shared(self.names - _own(str(call.args[0].value)))
        node.body = [inner.visit(s) for s in node.body]
        return node


class _Renamed(ast.NodeTransformer):
    """Gives variables other names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)
