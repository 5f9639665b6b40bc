"""Why a leaf's text is not compiled: where, what, and what to write instead."""

from __future__ import annotations


class Refusal(Exception):
    """line counts from 1 in the text that was given. instead: "" when nothing stands for it."""

    def __init__(self, line: int, what: str, instead: str = "") -> None:
        """Keep the three parts; str() joins them."""
        self.line, self.what, self.instead = line, what, instead
        super().__init__(f"line {line}: {self.sentence}")

    @property
    def sentence(self) -> str:
        """What is wrong and what to write, without the line."""
        return f"{self.what}; {self.instead}" if self.instead else self.what
