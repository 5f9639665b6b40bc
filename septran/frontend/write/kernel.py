"""A kernel being written: one inner task (or a few), its leaves, and what the program passes to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from septran.frontend.view import View
from septran.frontend.write.frame import Frame, Operand
from septran.frontend.write.leaf import Leaf


@dataclass(slots=True)
class Kernel:
    """The text of one kernel. extra: operands besides the frame's (of a product, a window)."""

    name: str
    frame: Frame
    extra: list[Operand] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    """further inner tasks, defined before the kernel's own"""
    body: list[str] = field(default_factory=list)
    depth: int = 0

    def add(self, line: str) -> None:
        """Append a line of the task's body at the current depth."""
        self.body.append("    " * self.depth + line)

    @property
    def operands(self) -> list[Operand]:
        """All tensor parameters in order, outputs first."""
        return [*self.frame.outputs, *self.extra, *self.frame.inputs]

    def text(self) -> list[str]:
        """Return the lines of all tasks of this kernel."""
        lines: list[str] = []
        for leaf in self.leaves:
            lines += [*leaf.text(), ""]
        lines += self.before
        params = ", ".join(o.name for o in self.operands)
        lines += ["@task.define", f"def {self.name}_kernel({params}):"]
        lines += [f"    {line}" for line in self.body]
        return [*lines, "", ""]

    def arguments(self) -> list[tuple[str, View]]:
        """Return (parameter, view) in order."""
        return [(o.name, o.view) for o in self.operands]
