"""Follow a kernel's statements once for all places at which they run, and collect its accesses.

The statements are Python's `ast`: Triton's as they stand, C's as `c_source` reads them. Loops are not unrolled: a
number that a loop moves is guessed from its first round and then shown by induction, or it is unknown.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Sequence

from septran.backends.judged.expressions import Expressions
from septran.backends.judged.values import Other, Pointer, Tile, Value, moved, numbers, unknown
from septran.prove.foreign.launch import CLOCKS, NotRead, Touch, Wait
from septran.prove.foreign.quantity import Arithmetic, Number, Space, Where

LOOPS = tuple(f"k{d}" for d in range(6))
_MOST_ROUNDS = 300
_MOST_TOUCHES = 120


class Flow(Expressions):
    """The walk over one kernel. Languages add `evaluate` and their own statements."""

    def __init__(self, space: Space, start: Where) -> None:
        """start: where the kernel runs at all."""
        self.space = space
        self.arith = Arithmetic(space)
        self.arith.bounds = start.set
        self.when = start
        self.why = ""
        self.env = {}
        self.touches: list[Touch] = []
        self.waits: list[Wait] = []
        self.unread: list[tuple[int, str]] = []
        self.loops: list[tuple[int, str]] = []
        self.clock: dict[str, Number] = dict.fromkeys(CLOCKS, 0)
        self.dealt: tuple[int, int] | None = None
        self.returned: list[Value] = []
        self.depth = 0
        self._count = 0
        self._loop_count = 0
        self._quiet = 0

    # ---- names and numbers
    def assign(self, target: ast.expr, value: Value) -> None:
        """Bind a name, or names of a tuple."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = value if isinstance(value, tuple) else (Tile(None, None),) * len(target.elts)
            for one, part in zip(target.elts, parts, strict=True):
                self.assign(one, part)
        else:
            raise NotRead(target.lineno, "assigns to something that is not read")

    def truth(self, value: Value) -> bool | Where:
        """Return a condition, as True or False where it is known before anything runs."""
        match value:
            case Tile(where=Where() as found):
                return found
            case Tile(n, _, _):
                known = self.arith.constant(n)
                return self.arith.compare("!=", n, 0) if known is None else bool(known)
            case Other() | Pointer():
                return True
        return bool(value)

    def arithmetic(self, op: type[ast.operator], a: Number, b: Number) -> Number:
        """Return `a op b` of integers; None where nobody knows."""
        arith, small = self.arith, isinstance(b, int) and 0 <= b < 62
        if op in (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod):
            does = {ast.Add: arith.add, ast.Sub: arith.sub, ast.Mult: arith.mul}
            does |= {ast.FloorDiv: arith.divide, ast.Mod: arith.modulo}
            return does[op](a, b)
        if op is ast.LShift and small:
            return arith.mul(a, 1 << b)
        if op is ast.RShift and small:
            return arith.divide(a, 1 << b, floor=True)
        if op is ast.BitAnd and isinstance(b, int) and b >= 0 and b & (b + 1) == 0:
            return arith.modulo(a, b + 1, floor=True)
        if isinstance(a, int) and isinstance(b, int) and op in (ast.BitAnd, ast.BitOr, ast.BitXor):
            return {ast.BitAnd: a & b, ast.BitOr: a | b, ast.BitXor: a ^ b}[op]
        return None

    # ---- accesses
    def touch(self, mode: str, pointer: Pointer, line: int, guard: Where, value: Number = None,
              varies: tuple[str, ...] = (), *, later: bool = False) -> None:  # fmt: skip
        """Record an access where the flow stands and `guard` holds."""
        if self._quiet:
            return
        when = self.when & guard
        why = pointer.why if pointer.at is None else ""
        if pointer.at is None:
            why = why or "its address depends on data"
        elif not when.exact:
            why = "whether it runs depends on data" if guard.exact else "its mask depends on data"
            why = self.why if guard.exact and self.why else why
        self._count += 1
        if len(self.touches) >= _MOST_TOUCHES:
            raise NotRead(line, f"more than {_MOST_TOUCHES} accesses")
        self.touches.append(
            Touch(
                memory=pointer.memory,
                mode=mode,  # type: ignore[arg-type]
                at=pointer.at,
                when=when.set,
                line=line,
                order=self._count,
                exact=when.exact,
                why=why,
                width=pointer.width,
                clock=self.clock,
                later=later,
                dealt=self.dealt,
                loops=tuple(self.loops),
                value=value,
                varies=varies,
            )
        )

    def tick(self, *names: str) -> None:
        """Note that what a clock counts has happened once more."""
        self.clock = {**self.clock, **{n: self.arith.add(self.clock[n], 1) for n in names}}

    def barrier(self) -> None:
        """Note that the members of the group wait for each other here."""
        self.tick("barriers", "warps")

    # ---- statements
    def run(self, body: Sequence[ast.stmt]) -> None:
        """Follow statements in order."""
        for stmt in body:
            if self.when.exact and self.when.set.is_empty():
                return
            self.statement(stmt)

    def statement(self, stmt: ast.stmt) -> None:
        """Follow one statement."""
        match stmt:
            case ast.Assign():
                value = self.evaluate(stmt.value)
                for target in stmt.targets:
                    self.assign(target, value)
            case ast.AnnAssign(value=None):
                pass
            case ast.AnnAssign():
                self.assign(stmt.target, self.evaluate(stmt.value))  # type: ignore[arg-type]
            case ast.AugAssign():
                load = ast.copy_location(_loaded(stmt.target), stmt)
                both = ast.copy_location(ast.BinOp(load, stmt.op, stmt.value), stmt)
                self.assign(stmt.target, self.evaluate(both))
            case ast.Expr():
                self.evaluate(stmt.value)
            case ast.If():
                self._if(stmt)
            case ast.For():
                self._for(stmt)
            case ast.While():
                self._while(stmt)
            case ast.Return():
                self.returned.append(None if stmt.value is None else self.evaluate(stmt.value))
                self.when = Where(self.space.nowhere)
            case ast.Continue():
                self.when = Where(self.space.nowhere)
            case ast.Assert() | ast.Pass():
                pass
            case _:
                raise NotRead(stmt.lineno, f"a {type(stmt).__name__} is not read")

    def _if(self, stmt: ast.If) -> None:
        found = self.truth(self.evaluate(stmt.test))
        if isinstance(found, bool):
            self.run(stmt.body if found else stmt.orelse)
            return
        before, env, clock, why = self.when, dict(self.env), self.clock, self.why
        if not found.exact:
            self.why = why or "whether it runs depends on data"
        self.when = before & found
        self.run(stmt.body)
        after_then, then_env, then_clock = self.when, self.env, self.clock
        self.env, self.clock, self.when = dict(env), clock, before & found.negated()
        self.run(stmt.orelse)
        ends = after_then.set.is_empty(), self.when.set.is_empty()
        if not any(ends) and not _leaves(stmt, ast.Break, ast.Return, ast.Continue):
            self.when = before
        else:
            self.when = after_then | self.when
            if not found.exact:
                self.when = Where(self.when.set, exact=False)
        if ends[0]:
            pass
        elif ends[1]:
            self.env, self.clock = then_env, then_clock
        else:
            self._merge(found, then_env, then_clock)
        if self.when.exact:
            self.why = why

    def _merge(
        self, found: Where, then_env: dict[str, Value], then_clock: dict[str, Number]
    ) -> None:
        for name in {*then_env, *self.env}:
            a, b = then_env.get(name), self.env.get(name)
            if name not in then_env or name not in self.env:
                self.env[name] = a if name in then_env else b
            elif a is not b:
                self.env[name] = self._either(found, a, b)
        self.clock = {
            n: now if then_clock[n] is now else self.arith.choose(found, then_clock[n], now)
            for n, now in self.clock.items()
        }

    def _either(self, found: Where, a: Value, b: Value) -> Value:
        one, two = numbers(a), numbers(b)
        like = getattr(a, "memory", None) == getattr(b, "memory", None)
        if one is None or two is None or len(one) != len(two) or not like:
            if isinstance(a, Pointer) or isinstance(b, Pointer):
                return Other("one of several pointers")
            return Tile(None, getattr(a, "shape", ()))
        if isinstance(a, int) and isinstance(b, int) and a == b:
            return a
        return moved(
            a if not isinstance(a, int) else Tile(a),
            tuple(self.arith.choose(found, x, y) for x, y in zip(one, two, strict=True)),
        )

    def _while(self, stmt: ast.While) -> None:
        for _ in range(_MOST_ROUNDS):
            found = self.truth(self.evaluate(stmt.test))
            if not isinstance(found, bool):
                break
            if not found:
                return
            if _leaves(stmt):
                break
            self.run(stmt.body)
        raise NotRead(stmt.lineno, "a while loop whose rounds are not known before it runs")

    # ---- counted loops
    def span(self, node: ast.For) -> tuple[Number, Number, int]:
        """Return first, end and step of a loop's variable; languages say what they iterate over."""
        raise NotRead(node.lineno, "a loop over something that is not read")

    def _for(self, stmt: ast.For) -> None:
        low, high, step = self.span(stmt)
        early = _leaves(stmt)
        if step == 0 or len(self.loops) == len(LOOPS):
            raise NotRead(stmt.lineno, "a loop that is not read")
        name = LOOPS[len(self.loops)]
        k, space = self.space.var(name), self.space
        before, bounds, why = self.when, self.arith.bounds, self.why
        touches, waits = len(self.touches), len(self.waits)
        var = self.arith.add(low, self.arith.mul(step, k))
        inside = Where(k.ge_set(space.lift(0)))
        if var is None or high is None:
            inside, self.why = (
                Where(inside.set, exact=False),
                "how often its loop runs depends on data",
            )
        else:
            inside = inside & self.arith.compare("<" if step > 0 else ">", var, high)
        if early:
            inside, self.why = Where(inside.set, exact=False), "its loop may end early"
        self._loop_count += 1
        self.loops.append((self._loop_count, name))
        self.arith.bounds = bounds & inside.set
        start, clock = dict(self.env), self.clock
        written = assigned(stmt)
        moves = self._guess(stmt, var, before & inside, start, written)
        ticks = {n: self._ticks(clock[n], self.clock[n], name) for n in clock}
        while True:
            self.env = {**start, **{n: unknown(start[n]) for n in written & {*start}}}
            self.env.update({n: self._at(start[n], moves[n], k) for n in moves})
            self.clock = {n: self.arith.add(clock[n], ticks[n](k)) for n in clock}
            del self.touches[touches:], self.waits[waits:]
            self.when = before & inside
            self._body(stmt, var)
            wrong = [n for n in moves if not self._holds(start[n], moves[n], k, n)]
            next_ = self.arith.add(k, 1)
            late = [
                n
                for n in clock
                if self.clock[n] is not None
                and not self._same(self.clock[n], self.arith.add(clock[n], ticks[n](next_)))
            ]
            if not wrong and not late:
                break
            for n in wrong:
                del moves[n]
            ticks.update(dict.fromkeys(late, _unknown_count))
        trips = self._trips(low, high, step)
        ended = {n: unknown(self.env[n]) for n in written if n in self.env}
        ended.update({n: self._at(start[n], moves[n], trips) for n in moves})
        self.env = {**start, **ended}
        self.clock = {n: self.arith.add(clock[n], ticks[n](trips)) for n in clock}
        self.loops.pop()
        self.arith.bounds, self.when = bounds, before
        if early and any(isinstance(n, ast.Return) for n in ast.walk(stmt)):
            self.when = Where(before.set, exact=False)
        else:
            self.why = why

    def _body(self, stmt: ast.For, var: Number) -> None:
        self.assign(stmt.target, var if isinstance(var, int) else Tile(var))
        self.run(stmt.body)

    def _guess(
        self, stmt: ast.For, var: Number, when: Where, start: dict[str, Value], written: set[str]
    ) -> dict[str, tuple[Number, ...]]:
        """Return name -> how much the first round moves it."""
        self.env, self.when = dict(start), when
        self._quiet += 1
        try:
            self._body(stmt, var)
        finally:
            self._quiet -= 1
        found = {}
        for name in written & {*start}:
            old, new = numbers(start[name]), numbers(self.env.get(name))
            if old is None or new is None or len(old) != len(new) or isinstance(start[name], bool):
                continue
            diffs = tuple(self.arith.sub(b, a) for a, b in zip(old, new, strict=True))
            if all(d is not None for d in diffs):
                found[name] = tuple(self._plain(d) for d in diffs)
        return found

    def _plain(self, found: Number) -> Number:
        value = self.arith.constant(found)
        return found if value is None else value

    def _at(self, start: Value, move: tuple[Number, ...], k: Number) -> Value:
        old = numbers(start)
        assert old is not None
        new = tuple(self.arith.add(a, self.arith.mul(d, k)) for a, d in zip(old, move, strict=True))
        return moved(Tile(start) if isinstance(start, int) else start, new)

    def _holds(self, start: Value, move: tuple[Number, ...], k: Number, name: str) -> bool:
        """Whether the round that began as `_at(k)` ends as `_at(k + 1)`."""
        now = numbers(self.env.get(name))
        then = numbers(self._at(start, move, self.arith.add(k, 1)))
        if now is None or then is None or len(now) != len(then):
            return False
        for a, b in zip(now, then, strict=True):
            if a is None or b is None:
                return False
            if self.arith.possible(self.arith.compare("!=", a, b).set):
                return False
        return True

    def _same(self, a: Number, b: Number) -> bool:
        if a is None or b is None:
            return False
        return not self.arith.possible(self.arith.compare("!=", a, b).set)

    def _ticks(self, before: Number, after: Number, loop: str) -> Callable[[Number], Number]:
        """Return rounds -> what a clock counts in them, from what it counts in the round at hand.

        One number a round, or one in the first rounds and another in the others.
        """
        if after is before:
            return lambda rounds: 0
        arith = self.arith
        each = arith.sub(after, before)
        found = self._plain(each)
        if found is None:
            return _unknown_count
        if isinstance(found, int):
            return lambda rounds: arith.mul(found, rounds)
        space, bounds = self.space, arith.bounds
        first = self._plain(space.rename(each, {loop: None}))
        others = each.ne_set(space.lift(first)) & bounds
        if others.is_empty():
            return lambda rounds: arith.mul(first, rounds)
        begin = others.dim_min_val(space.names.index(loop))
        arith.bounds = others
        try:
            rest = arith.constant(each)
        finally:
            arith.bounds = bounds
        if rest is None or not begin.is_int():
            return _unknown_count
        turn = int(begin.to_python())

        def counted(rounds: Number) -> Number:
            early = arith.mul(first, arith.least(rounds, turn))
            return arith.add(early, arith.mul(rest, arith.most(arith.sub(rounds, turn), 0)))

        return counted

    def _trips(self, low: Number, high: Number, step: int) -> Number:
        a = self.arith
        length = a.sub(high, low) if step > 0 else a.sub(low, high)
        rounded = a.divide(a.add(length, abs(step) - 1), abs(step), floor=True)
        return a.most(rounded, 0)

    # ---- functions
    def inline(self, body: Sequence[ast.stmt], env: dict[str, Value]) -> Value:
        """Follow a called function's body and return its value."""
        outer, when, returned = self.env, self.when, self.returned
        self.env, self.returned = env, []
        self.depth += 1
        try:
            self.run(body)
            found = self.returned
        finally:
            self.depth -= 1
            self.env, self.when, self.returned = outer, when, returned
        if len(found) == 1:
            return found[0]
        return None if not found else unknown(found[0])


def _unknown_count(rounds: Number) -> Number:
    """What a clock counts where nobody knows."""
    return None


def assigned(*nodes: ast.AST) -> set[str]:
    """Return the names that statements bind."""
    inside = (n for node in nodes for n in ast.walk(node))
    return {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _leaves(node: ast.AST, *how: type[ast.stmt]) -> bool:
    """Whether control may leave a statement other than at its end."""
    return any(isinstance(n, how or (ast.Break, ast.Return)) for n in ast.walk(node))


def _loaded(target: ast.expr) -> ast.expr:
    found = copy.copy(target)
    if isinstance(found, ast.Name | ast.Subscript | ast.Attribute):
        found.ctx = ast.Load()
    return found
