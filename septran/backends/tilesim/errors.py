"""What the simulator says when a kernel does something a device would punish."""

from __future__ import annotations


class SimError(Exception):
    """A defect of the kernel, with the generated line it happened on.

    kind: short class of the defect ("race", "bounds", "capacity", "shape", "uninitialised", ...),
    stable enough for tests and for what a leaf writer is told.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.line = 0
        self.file = ""
        self.text = ""

    def at(self, file: str, line: int, text: str) -> SimError:
        """Remember the place, unless an inner frame already did."""
        if not self.line:
            self.file, self.line, self.text = file, line, text
        return self

    def __str__(self) -> str:
        place = f" (line {self.line}: {self.text.strip()})" if self.line else ""
        return f"{self.kind}: {self.message}{place}"
