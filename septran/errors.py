"""What goes wrong, said to a person: spans, diagnostics and the exception tree.

    SeptranError                a list of diagnostics; has an exit code
    +-- InputError              the user's logic, mapping, config or flags (exit 2)
    |   +-- TaskLangError       E1xx, logic files
    |   +-- MappingError        Mxxx, mapping files
    |   |   +-- Unsupported     M170-M173, the target has no code for what the logic says
    |   +-- ArgumentError       C140, the values of a call; a TypeError, too
    |   +-- IndexProblem        C145, a position in a call that is not there; an IndexError, too
    |   +-- DivisionProblem     C147, a whole number is divided by a zero of the call; a ZeroDivisionError, too
    |   +-- ConfigError         Cxxx, configs, assets, flags
    +-- EnvironmentProblem      Vxxx, a tool, device, key or network is missing (exit 3)
    +-- NotCorrect              a kernel ran and is wrong (exit 1)
    +-- NothingSelected         nothing was asked for in the end (exit 5, as pytest says it)
    Interrupted                 SIGTERM or SIGHUP; ends a command as Ctrl-C does (exit 128 + the signal)
    OutOfTime                   the time of --timeout is over (exit 3); ends a command as Ctrl-C does
    InternalError               a SepTran bug (exit 4); never raised for a user's mistake

Every diagnostic has a code that `septran explain CODE` documents (docs/errors/CODE.md).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

_MESSAGE = 2000  # characters of a message that are shown; it may quote a word of megabytes


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a user's file; `line` and `col` count from 1, `width` in characters."""

    file: str
    line: int
    col: int = 1
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One mistake: what was found, where, and what the next keystroke is."""

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    help: str = ""

    @property
    def place(self) -> tuple[int, int]:
        """Return line and column, (0, 0) where it has no place in a file."""
        return (self.span.line, self.span.col) if self.span else (0, 0)

    def render(self) -> str:
        """Return the multi-line text: header, place, the source line with a caret, notes, help."""
        text = self.message if len(self.message) <= _MESSAGE else self.message[:_MESSAGE] + "..."
        lines = [f"error[{self.code}]: {text}"]
        if self.span is not None:
            lines.append(f"  --> {self.span}")
            lines.extend(_excerpt(self.span, self.label))
        lines.extend(f"   = note: {note}" for note in self.notes)
        if self.help:
            lines.append(f"   = help: {self.help}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, object]:
        """Return plain values for --json."""
        return {
            "code": self.code,
            "message": self.message,
            "file": self.span.file if self.span else None,
            "line": self.span.line if self.span else None,
            "col": self.span.col if self.span else None,
            "label": self.label,
            "notes": list(self.notes),
            "help": self.help,
        }


_EXCERPT = 200  # characters of a line that are shown; a line may have megabytes


def _excerpt(span: Span, label: str) -> list[str]:
    try:
        source = Path(span.file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    if not 1 <= span.line <= len(source):
        return []
    gutter = " " * len(str(span.line))
    first = max(0, span.col - _EXCERPT // 2) if span.col > _EXCERPT // 2 else 0
    text = source[span.line - 1][first : first + _EXCERPT]
    caret = " " * (span.col - 1 - first) + "^" * max(1, min(span.width, _EXCERPT))
    return [
        f" {gutter} |",
        f" {span.line} | {text}",
        f" {gutter} | {caret} {label}".rstrip(),
    ]


def closest(name: str, choices: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the nearest of `choices`, or "" when nothing is near; case does not count."""
    words = {word.lower(): word for word in choices if isinstance(word, str)}
    match = difflib.get_close_matches(str(name).lower(), words, n=1, cutoff=0.6)
    return f"; did you mean {words[match[0]]!r}?" if match else ""


class SeptranError(Exception):
    """Base of every error a user can meet; carries one or more diagnostics."""

    exit_code = 2

    def __init__(self, diagnostics: Diagnostic | Sequence[Diagnostic]) -> None:
        found = [diagnostics] if isinstance(diagnostics, Diagnostic) else list(diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(found)
        super().__init__("\n".join(d.render() for d in found))

    @classmethod
    def of(
        cls,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        label: str = "",
        notes: Sequence[str] = (),
        help: str = "",
    ) -> Self:
        """Return an error of this class with one diagnostic."""
        return cls(
            Diagnostic(
                code=code, message=message, span=span, label=label, notes=tuple(notes), help=help
            )
        )

    def placed(self, span: Span | None) -> Self:
        """Return the same error with `span` where a diagnostic has no place yet."""
        return type(self)([replace(d, span=d.span or span) for d in self.diagnostics])

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Diagnostic, ...]]]:
        """Survive the way between processes with the diagnostics, not only their text."""
        return type(self), (self.diagnostics,)

    def to_json(self) -> list[dict[str, object]]:
        """Return the diagnostics as plain values: code, message, file, line, col, notes, help."""
        return [d.to_json() for d in self.diagnostics]

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all diagnostics, in source order."""
        return tuple(d.code for d in self.diagnostics)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no result. exit_code: a command's. errors: as `SeptranError.to_json` says them."""

    SCHEMA: ClassVar[str] = "septran.error/1"
    exit_code: int
    errors: tuple[Mapping[str, object], ...]

    @classmethod
    def of(cls, e: SeptranError) -> Failure:
        """Return what an error says."""
        return cls(e.exit_code, tuple(e.to_json()))

    @classmethod
    def said(cls, exit_code: int, code: str, message: str) -> Failure:
        """Return one diagnostic without a place."""
        return cls(exit_code, ({"code": code, "message": message},))

    def to_json(self) -> dict[str, Any]:
        """Return the septran.error/1 object."""
        return {
            "schema": self.SCHEMA,
            "exit_code": self.exit_code,
            "errors": list(self.errors),
        }


class InputError(SeptranError):
    """The user's own files or flags."""


class ArgumentError(InputError, TypeError):
    """A call whose values do not fit the kernel; Python code that expects a TypeError sees one."""


class IndexProblem(InputError, IndexError):
    """A call with a position outside of what it picks from; Python code that expects an IndexError sees one."""


class DivisionProblem(InputError, ZeroDivisionError, RuntimeError):
    """A call that divides a whole number by zero; Python code that expects torch's RuntimeError sees one, too."""


class TaskLangError(InputError):
    """A logic file (E1xx)."""


class MappingError(InputError):
    """A mapping file (Mxxx)."""


class Unsupported(MappingError):
    """The target refuses what it cannot compute or say: a mistake in a call, not in a matrix of many."""


class ConfigError(InputError):
    """A config, an asset or a flag (Cxxx)."""


class EnvironmentProblem(SeptranError):
    """Something outside the project is missing: a tool, a device, a key, the network."""

    exit_code = 3


class NotCorrect(SeptranError):
    """A kernel ran and its results are wrong."""

    exit_code = 1


class NothingSelected(SeptranError):
    """A selection that leaves nothing to do; 0 would look like a verdict."""

    exit_code = 5


class Interrupted(KeyboardInterrupt):
    """A signal other than Ctrl-C's asks for the end: whoever cleans up after Ctrl-C does so here, too."""

    def __init__(self, number: int, name: str) -> None:
        self.exit_code = 128 + number
        super().__init__(f"ended by {name}")


class OutOfTime(KeyboardInterrupt):
    """The user's own limit of a command's time is over: whoever cleans up after Ctrl-C does so here, too."""

    exit_code = 3

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not done in {seconds:g} s, the time of --timeout")


def exit_code_of(e: KeyboardInterrupt) -> int:
    """Return the exit code of a command that ended this way; 130 after Ctrl-C."""
    return getattr(e, "exit_code", 130)


class InternalError(Exception):
    """A SepTran bug."""

    exit_code = 4
