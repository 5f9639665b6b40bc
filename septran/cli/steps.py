"""What a long command is doing and for how long: a live line for a person, a line now and then in a log."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from septran.cli.console import Terminal

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

STILL_S = 30.0
"""Seconds after which a log hears again what is awaited."""


class Steps:
    """The steps of a command: the last one said is the one that is awaited."""

    def __init__(self, term: Terminal) -> None:
        self._term = term
        self._text = ""
        self._since = 0.0
        self._live: Live | None = None

    def note(self, text: str) -> None:
        """Say that a step begins; the one before has ended."""
        self._ended()
        self._text, self._since = text, time.monotonic()
        if self._live is None:
            self._term.note(text)

    def ended(self) -> None:
        """Say how long the last step took."""
        self._ended()
        self._text = ""

    def still(self) -> str:
        """Return what is awaited and for how long, "" when nothing is."""
        return f"{self._text}: {time.monotonic() - self._since:.0f} s" if self._text else ""

    def drawn_on(self, live: Live) -> None:
        """Let `live` show the step instead of plain lines."""
        self._live = live

    def line(self) -> Text:
        """Return the line that a terminal shows."""
        from rich.text import Text

        return Text(self.still(), style="dim")

    def _ended(self) -> None:
        if self._live is not None and self._text:
            from rich.text import Text

            took = time.monotonic() - self._since
            self._live.console.print(Text(f"{self._text}  {took:.1f} s", style="dim"))


@contextmanager
def steps(term: Terminal) -> Iterator[Callable[[str], None]]:
    """Give a function that says which step begins; while the body runs, what is awaited is shown."""
    found = Steps(term)
    with live(term, found.line) as shown:
        if shown is not None:
            found.drawn_on(shown)
        with heartbeat(term, found.still, unless=lambda: shown is not None):
            try:
                yield found.note
            finally:
                found.ended()


@contextmanager
def live(term: Terminal, draw: Callable[[], object]) -> Iterator[Live | None]:
    """Show what `draw` returns on stderr, anew four times a second; None when nobody looks there."""
    if not sys.stderr.isatty() or term.quiet:
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, no_color=not term.colored(sys.stderr), highlight=False)
    with Live(get_renderable=draw, console=console, transient=True) as found:  # type: ignore[arg-type]
        yield found


@contextmanager
def heartbeat(
    term: Terminal, still: Callable[[], str], *, unless: Callable[[], bool]
) -> Iterator[None]:
    """Write what `still` returns to stderr every STILL_S seconds while the body runs, `unless` it is shown anyway."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(STILL_S):
            if not unless() and (text := still()):
                term.note(f"still {text}")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
