"""Whether a judged file is right at other sizes, too: there where its own comparisons of sizes come out the other way.

What a file does where `n > 5000` no call with the reference's 1000 elements shows. Where the reference's graph takes its sizes from
its inputs (torch's export keeps them open), the file is called with others, few of them: one for each comparison that turns, as near
and as divisible as can be. Where the reference fixes them, or a size is too large to compute, the comparison stays unchecked by its name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from septran.aten.open_graph import OpenGraph
from septran.backends.base import HostCall
from septran.errors import SeptranError
from septran.ir.size_asked import BLOCKS, Size, SizeAsked, ways
from septran.kernel import Kernel
from septran.plan.wanted import Wanted, load_open, wanted_at
from septran.run.host_call import Numbers
from septran.verify.problem import Problem
from septran.verify.verdict import Verdict

_DIVISIBLE = 128
_RUNS, _MOST_ELEMENTS = 4, 1 << 18
# an emulated call takes a thousand times as long
_EMULATED_RUNS, _MOST_EMULATED = 3, 1 << 15
_TRIED, _OF_A_BLOCK = 24, 128
_WRONG = ("V202", "V205", "V208", "V209")
"""Codes that accuse a file at another size; what ends otherwise there only was not checked."""
_GIVEN = "a file that is made for the reference's sizes alone is judged at these with --sizes given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """How a file is judged at other sizes.

    asked: its comparisons. call: of a problem, with these numbers of the user's. kernel: of such a call. judged: kernel, problem,
    folder -> its verdict. numbers: the user's. native: it runs on this processor, not in an emulation.
    """

    asked: tuple[SizeAsked, ...]
    call: Callable[[Wanted, Numbers], HostCall]
    kernel: Callable[[HostCall, Wanted], Kernel]
    judged: Callable[[Kernel, Problem, Path], Verdict]
    numbers: Numbers
    native: bool = True
    given: bool = False

    @property
    def most(self) -> int:
        """Elements of all tensors together, at most, unless the reference's own are more."""
        return _MOST_ELEMENTS if self.native else _MOST_EMULATED


def with_other_sizes(
    verdict: Verdict, sized: Sized, reference: Path, usual: Wanted, folder: Path
) -> Verdict:
    """Return the verdict, or that of a size at which the file is wrong; comparisons that nothing turned are unchecked."""
    if not verdict.passed or not sized.asked:
        return verdict
    known = _quantities(usual, sized.call(usual, sized.numbers))
    # two sizes with each other: what is none of the host's may be a place in a row
    sure = tuple(a for a in sized.asked if len(a.sizes) == 1 or all(s.of in known and s.of not in ("", BLOCKS) for s in a.sizes))  # fmt: skip
    sized = replace(sized, asked=sure)
    if not sure:
        return verdict
    if sized.given:
        return verdict.without(f"other sizes: it asks {', '.join(map(str, sure))}; --sizes given")
    left = list(sized.asked)
    tried: list[str] = []
    why = "the reference fixes its sizes"
    try:
        opened = load_open(reference)
        if isinstance(opened, OpenGraph):
            why = f"no size up to {sized.most} elements turns it"
            for sizes, numbers, turned in _chosen(opened, sized, usual):
                if not set(turned) & set(left):
                    continue
                found, told = _at(sized, opened, sizes, numbers, reference, folder / f"size{len(tried)}")  # fmt: skip
                if found.code in _WRONG:
                    asks = ", ".join(map(str, turned))
                    message = f"{found.message} ({told}, where {asks} comes out otherwise)"
                    return replace(found, message=message, hint=f"{found.hint}; {_GIVEN}")
                if not found.passed:
                    why = f"at {told}: {found.message}"
                    continue
                left = [one for one in left if one not in turned]
                tried.append(told)
                if len(tried) == (_RUNS if sized.native else _EMULATED_RUNS):
                    break
    except _Unsized as e:
        why = str(e)
    except (SeptranError, RuntimeError, ValueError, KeyError, TypeError):
        # what torch asked of the sizes of its export is not all in the graph
        why = "another size does not fit the reference"
    if tried:
        verdict = replace(verdict, enforced=(*verdict.enforced, f"other sizes: {'; '.join(tried)}"))
    if left:
        verdict = verdict.without(f"other sizes: it asks {', '.join(map(str, left))}; {why}")
    return verdict


class _Unsized(Exception):
    """Why a file cannot be called at other sizes."""


def _at(
    sized: Sized,
    opened: OpenGraph,
    sizes: Mapping[str, int],
    numbers: Numbers,
    reference: Path,
    folder: Path,
) -> tuple[Verdict, str]:
    wanted = wanted_at(reference, opened, sizes)
    kernel = sized.kernel(sized.call(wanted, numbers), wanted)
    shapes = [f"{p.name} {list(p.shape)}" for p in wanted.problem.params if p.privilege == "r"]
    return sized.judged(kernel, wanted.problem, folder), f"with {', '.join(shapes)}"


def _chosen(
    opened: OpenGraph, sized: Sized, usual: Wanted
) -> Iterator[tuple[dict[str, int], dict[str, float | int | str], tuple[SizeAsked, ...]]]:
    """Yield sizes at which comparisons come out otherwise, with the user's numbers there and those comparisons.

    Raises:
        _Unsized: a number of the user's is no size of the reference, and nobody says what it is at others.
    """
    hints = opened.hints
    before = _quantities(usual, sized.call(usual, sized.numbers))
    for one in sized.asked:
        for name in hints:
            for value in _values(one, hints[name], before, sized.most):
                sizes = {**hints, name: value}
                dim = next(d for d in opened.dims if d.name == name)
                if not dim.low <= value <= dim.high or value == hints[name]:
                    continue
                numbers = _renumbered(sized.numbers, hints, sizes)
                wanted = wanted_at(Path(opened.file), opened, sizes)
                elements = sum(math.prod(p.shape) for p in wanted.problem.params)
                if elements > max(sized.most, sum(math.prod(p.shape) for p in usual.problem.params)):  # fmt: skip
                    continue
                after = _quantities(wanted, sized.call(wanted, numbers))
                turned = tuple(a for a in sized.asked if _turns(a, before, after))
                if one in turned:
                    yield sizes, numbers, turned
                    break
            else:
                continue
            break


def _renumbered(
    numbers: Numbers, hints: Mapping[str, int], sizes: Mapping[str, int]
) -> dict[str, float | int | str]:
    found = dict(numbers)
    for name, value in numbers.items():
        if isinstance(value, bool | str) or value != int(value) or abs(value) <= 1:
            continue
        same = [dim for dim, hint in hints.items() if hint == value]
        if len(same) != 1:
            raise _Unsized(f"nobody says what --number {name}={value} is at another size")
        found[name] = sizes[same[0]]
    return found


def _quantities(wanted: Wanted, call: HostCall) -> dict[str, set[int]]:
    """Return what sizes of a call are: by `SizeAsked.of`, and under "" all extents and counts of its tensors."""
    found: dict[str, set[int]] = {"": set()}
    for tensor in wanted.problem.params:
        count = math.prod(tensor.shape)
        found[""] |= {*tensor.shape, count}
        for name, size in (
            *((f"size({a})", n) for a, n in enumerate(tensor.shape)),
            ("numel()", count),
        ):
            found.setdefault(name, set()).add(size)
    found[BLOCKS] = {n // _OF_A_BLOCK for n in found["numel()"]}
    for param, passed in zip(call.host.params, call.args, strict=False):
        if param.kind == "number" and isinstance(passed.value, int):
            found[param.name] = {passed.value}
    return found


def _turns(asked: SizeAsked, before: Mapping[str, set[int]], after: Mapping[str, set[int]]) -> bool:
    """Return whether a comparison comes out otherwise than it did for all that its sizes may have been."""
    was = {bool(asked.holds(way)) for way in ways(asked.sizes, before)}
    now = {bool(asked.holds(way)) for way in ways(asked.sizes, after)}
    return bool(now - was)


def _values(
    asked: SizeAsked, hint: int, before: Mapping[str, set[int]], most: int
) -> tuple[int, ...]:
    """Return values of a dim at which a comparison may come out otherwise, those first that are as divisible as the usual one and near.

    A size that is a multiple of the dim's usual value grows with the dim, or stays; each way is reckoned through for all values.
    """
    found: list[int] = []
    dims = np.arange(2, max(most, hint + 1) + 1)
    step = math.gcd(hint, _DIVISIBLE)
    for way in ways(asked.sizes, before):
        if _made_for(asked, way):
            return ()
        blocks = [s for s in way if s.of == BLOCKS]
        grows = [s for s, n in way.items() if n and n % hint == 0 and s not in blocks]
        for moved in (grows, *([one] for one in grows if len(grows) > 1)):
            sizes = {s: n // hint * dims if s in moved else n for s, n in way.items()}
            sizes |= {s: max(before["numel()"]) // hint * dims // _OF_A_BLOCK for s in blocks}
            held = np.broadcast_to(np.asarray(asked.holds(sizes), bool), dims.shape)
            turned = dims[held != bool(asked.holds(way))]
            for by in _divisors(step):
                near = turned[turned % by == 0]
                # the second first: at the first, what is left out behind a bound is nothing yet
                found += [*near[near > hint][1::-1], *near[near < hint][-2:]]
    return tuple(dict.fromkeys(int(n) for n in found))[:_TRIED]


def _divisors(step: int) -> Iterator[int]:
    """Yield a step, halved as often as it can be, and 1: a kernel may need what the usual size is a multiple of."""
    while step % 2 == 0:
        yield step
        step //= 2
    if step > 1:
        yield step
    yield 1


def _made_for(asked: SizeAsked, way: Mapping[Size, int]) -> bool:
    """Whether a file says that it is made for a size: that it is the usual one, or one of those."""
    plain = all(isinstance(t, Size | int | float) for t in (asked.term, asked.other))
    equal = asked.sign in ("==", "!=") and plain
    return equal and bool(asked.holds(way)) == (asked.sign == "==")
