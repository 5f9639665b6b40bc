"""A judgement under the numbers that a file is made for, where its reference does not say them (`host_numbers`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from septran.run.host_numbers import Guess
from septran.run.judgement import Judgement

_BY_NUMBERS = ("bounds", "uninitialised")
"""Classes of what a number that is too large, or too small, shows of any file; the second is the more likely."""


def with_other_numbers(found: Judgement, again: Callable[[Guess], Judgement]) -> Judgement:
    """Return the judgement under the first numbers with which nothing is found. again: judges with others.

    Where something is found with all of them: the one whose finding is not what other numbers show of any file.
    """
    if found.code != 1 or not found.guesses:
        return found
    tried = [found]
    for guess in found.guesses[1:]:
        other = replace(again(guess), taken=dict(guess))
        if other.code == 0:
            return other
        if other.code == 1:  # what cannot be judged hides nothing that was found
            tried.append(other)
    last = min(
        tried,
        key=lambda one: 1 + _BY_NUMBERS.index(one.finding) if one.finding in _BY_NUMBERS else 0,
    )
    taken = ", ".join(f"{name} = {number}" for name, number in last.taken.items())
    told = (
        f"nobody said that {taken}: the reference's sizes and the names do; --number says another"
    )
    hint = "; ".join(filter(None, (last.verdict.hint, told)))
    return replace(last, verdict=replace(last.verdict, hint=hint))
