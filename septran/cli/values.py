"""Turn the words of a command line into the types the rest of SepTran takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click

from septran.errors import ConfigError

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8")
_DIGITS = 18


class Finite(click.FloatRange):
    """A number of seconds, minutes or days: not-a-number has no order, and clocks end some time."""

    _MOST = 1e9

    def __init__(self, *, above: bool = False) -> None:
        super().__init__(min=0, min_open=above, max=self._MOST)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        found = float(super().convert(value, param, ctx))
        if math.isnan(found):
            self.fail(f"{value} is not a number", param, ctx)
        return found


def parse_dims(words: Sequence[str]) -> dict[str, int]:
    """Return {"M": 512, "N": 512} for ("M=512", "N=512") or ("M=512,N=512",).

    Raises:
        ConfigError: C007 a word that is not NAME=SIZE, or a name given twice.
    """
    found: dict[str, int] = {}
    for word in ",".join(words).split(",") if words else ():
        name, equals, size = word.partition("=")
        name = name.strip()
        plain = size.strip().isdecimal() and len(size) <= _DIGITS
        if not equals or not name.isidentifier() or not plain or int(size) < 1:
            word = word if len(word) <= 80 else f"{word[:80]}..."
            raise ConfigError.of(
                "C007", f"--dim {word!r} is not NAME=SIZE", help="for example --dim M=1024"
            )
        if name in found:
            raise ConfigError.of("C007", f"--dim gives {name} twice")
        found[name] = int(size)
    return found


def parse_open(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of --dim with sizes, and the dims that stay open: "M=dynamic", or "M=dynamic:256" for tiles at 256."""
    sized, names = [], []
    for word in ",".join(words).split(",") if words else ():
        name, _, size = (part.strip() for part in word.partition("="))
        kind, colon, tiles = size.partition(":")
        if kind != "dynamic":
            sized.append(word)
            continue
        names.append(name)
        if colon:
            sized.append(f"{name}={tiles}")
    if len(set(names)) < len(names):
        raise ConfigError.of("C007", f"--dim gives {names[-1]} twice")
    return tuple(sized), tuple(names)


_TRUTH = {"true": True, "false": False}


def parse_numbers(words: Sequence[str]) -> dict[str, int | float | str]:
    """Return {"n": 4, "eps": 1e-5, "causal": True, "dtype": "float16"} for ("n=4", "eps=1e-5", "causal=true", "dtype=float16").

    Raises:
        ConfigError: C007 a word that is not NAME=VALUE, or a name given twice.
    """
    found: dict[str, int | float | str] = {}
    for word in words:
        name, _, text = word.partition("=")
        value = _number(text.strip())
        if not name.isidentifier() or value is None or name in found:
            raise ConfigError.of(
                "C007",
                f"--number {word[:80]!r} is not NAME=VALUE, or given twice",
                help="for example --number eps=1e-5",
            )
        found[name] = value
    return found


def _number(text: str) -> int | float | str | None:
    """Return what a user wrote for a number parameter: a number, true or false, or a word; None for anything else."""
    if (truth := _TRUTH.get(text.lower())) is not None:
        return truth
    try:
        value = int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text if all(part.isidentifier() for part in text.split(".")) else None
    return None if value != value else value


def exactly_one(**given: object) -> str:
    """Return the name of the one option that was given.

    Raises:
        ConfigError: C008 none or several.
    """
    names = [name for name, value in given.items() if value is not None]
    if len(names) == 1:
        return names[0]
    choices = ", ".join(f"--{name}" for name in given)
    what = f"both {' and '.join(f'--{n}' for n in names)}" if names else "none of them"
    raise ConfigError.of(
        "C008",
        f"give exactly one of {choices}; found {what}",
        help="`septran ls ops` lists operators",
    )
