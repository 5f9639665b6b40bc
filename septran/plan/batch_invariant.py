"""`deterministic: batch-invariant`: one set of tiles and leaves for every number of rows and of threads.

A policy reads extents and cores, so its tiles follow the number of rows, and with them the leaves' widths. Here it
is asked once, at `ROWS` rows and `CORES` cores, and every number of rows is bound with the tiles that it gave: a
tile stays as it is where there are fewer rows than it holds. `septran.prove.rows` then proves the order for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import zip_longest

from septran.bind import ArgType
from septran.errors import MappingError
from septran.kernel import LeafSpec, leaf_specs
from septran.mapping.schema import ExplicitMapping, Policy
from septran.plan.fit import Lowered
from septran.plan.rows import row_dims
from septran.tasklang.operator import Operator

CODE = "M092"
ROWS, CORES = 256, 8
"""what a policy sees: enough rows for its large tiles, few enough that a short batch still has tiles for all threads"""

MOST_ROWS = 1 << 20
"""rows that tiles are cut from: more than any tile holds"""

Given = dict[str, ArgType | int | float]


Lower = Callable[[ExplicitMapping | Policy, Given, int], Lowered]
"""Lowers an operator for a mapping, its arguments and a number of cores."""


def lower_rows(
    operator: Operator,
    policy: Policy,
    dims: Mapping[str, int],
    arguments: Callable[[Mapping[str, int]], Given],
    lower: Lower,
) -> Lowered:
    """Return the Program of an operator at `dims` with the tiles that `policy` has for ROWS rows.

    Raises:
        TaskLangError, MappingError: the user's mistakes; M092, a tile or leaf follows the number of rows.
    """
    rows = row_dims(operator)
    if not rows:
        raise refused(f"the outputs of {operator.name} have no dim in common that counts rows")

    def at(count: int) -> Given:
        return arguments({**dims, **dict.fromkeys(rows, count)})

    mapping = lower(replace(policy, deterministic=""), at(ROWS), CORES).bound.mapping
    most = at(max(MOST_ROWS, *(dims[r] + 1 for r in rows)))
    try:
        found, usual = (
            lower(mapping, {p: _bounded(one, most[p]) for p, one in given.items()}, CORES)
            for given in (arguments(dims), at(ROWS))
        )
    except MappingError as e:
        if any(d.code == "M011" for d in e.diagnostics):
            raise refused("a tile holds all rows") from e
        raise
    mine, theirs = _leaves(found), _leaves(usual)
    if mine != theirs:
        other = next(a for a, b in zip_longest(mine, theirs) if a != b)
        name = "a leaf" if other is None else f"leaf {other.task}"
        raise refused(f"{name} is another one than for {ROWS} rows")
    return found


def refused(why: str) -> MappingError:
    """Return the refusal of a kernel whose rows depend on their number."""
    return MappingError.of(
        CODE,
        f"deterministic: batch-invariant cannot be kept: {why}",
        help="leave it out, or let a tile of rows be cut from this dim in the logic",
    )


def _bounded(one: ArgType | int | float, most: ArgType | int | float) -> ArgType | int | float:
    """Return an argument whose tiles are cut from the shape of `most`."""
    if not isinstance(one, ArgType) or not isinstance(most, ArgType):
        return one
    return replace(one, bound=most.shape)


def _leaves(lowered: Lowered) -> list[LeafSpec]:
    return [spec for _, spec in leaf_specs(lowered.program)]
