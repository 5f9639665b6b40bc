"""What every reader of printed text keeps: the statements that it read, with the loops and conditions around each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from septran.ir.expr import Const, Expr, Var
from septran.prove.printed import Act, Kind, Loop, Move, Number, Room, Test, View


@dataclass(kw_only=True)
class Scopes:
    """Base of readers. wrong: (line, what is wrong there).

    numbers: names of the text -> what they stand for here. needs: what is divided where division truncates.
    """

    acts: list[Act] = field(default_factory=list)
    rooms: dict[str, Room] = field(default_factory=dict)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    loops: tuple[Loop, ...] = ()
    tests: tuple[Test, ...] = ()
    numbers: dict[str, Expr] = field(default_factory=dict)
    needs: list[Expr] = field(default_factory=list)

    def act(
        self,
        kind: Kind,
        what: str,
        line: int,
        views: tuple[View, ...] = (),
        scalars: tuple[Number, ...] = (),
        *,
        needs: tuple[Expr, ...] | None = None,
        move: Move | None = None,
    ) -> None:
        """Keep a statement with the loops and conditions around it."""
        self.acts.append(
            Act(
                kind=kind,
                what=what,
                line=line,
                loops=self.loops,
                tests=self.tests,
                views=views,
                scalars=scalars,
                needs=tuple(self.needs) if needs is None else needs,
                move=move,
            )
        )

    def set_operand(self, at: int, view: View) -> None:
        """Replace an operand of the last statement."""
        last = self.acts[-1]
        self.acts[-1] = replace(last, views=(*last.views[:at], view, *last.views[at + 1 :]))

    @contextmanager
    def inside(self, *loops: Loop, tests: tuple[Test, ...] = ()) -> Iterator[None]:
        """Stand in loops and under conditions; the names that are bound there end with them."""
        outer = self.loops, self.tests, dict(self.numbers)
        self.loops, self.tests = (*self.loops, *loops), (*self.tests, *tests)
        yield
        self.loops, self.tests, self.numbers = outer

    @contextmanager
    def turns(self, loop: Loop) -> Iterator[None]:
        """Stand in a loop; one that runs once is none, and its variable is 0."""
        once = loop.extent == Const(1)
        with self.inside(*(() if once else (loop,))):
            self.numbers[loop.var] = Const(0) if once else Var(loop.var)
            yield
