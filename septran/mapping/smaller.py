"""A policy's own fallbacks: the same rules with sizes capped, for when a memory turns out too small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from septran.mapping.schema import TILE_ROLES, Policy, Rule, Tune

CAPPED = (*TILE_ROLES, "pipeline")
"""What `smaller:` may cap: the roles of a rule's tiles, and the depth of pipelines."""


def smaller(policy: Policy) -> Iterator[Policy]:
    """Yield the policy under each entry of its `smaller:` list, in order; each entry stands alone."""
    for caps in policy.smaller:
        yield replace(
            policy,
            rules=tuple(_capped(rule, caps) for rule in policy.rules),
            options=_options(policy.options, caps),
            smaller=(),
        )


def _capped(rule: Rule, caps: Mapping[str, int]) -> Rule:
    tiles = {role: _least(size, caps.get(role)) for role, size in rule.tiles.items()}
    return replace(rule, tiles=tiles, options=_options(rule.options, caps))


def _least(size: object, cap: int | None) -> object:
    if cap is None:
        return size
    if isinstance(size, Tune):
        return _fewer(size, cap)
    if isinstance(size, str):
        return f"min({size}, {cap})"
    return min(size, cap) if isinstance(size, int) else size


def _options(options: Mapping[str, object], caps: Mapping[str, int]) -> dict[str, object]:
    found = dict(options)
    depth = found.get("pipeline")
    if "pipeline" in caps and isinstance(depth, Tune):
        found["pipeline"] = _fewer(depth, caps["pipeline"])
        depth = None
    if "pipeline" in caps and isinstance(depth, int):
        found["pipeline"] = min(depth, caps["pipeline"])
        if found["pipeline"] == 1:
            found.pop("warpspecialize", None)  # it needs something to hand over
    return found


def _fewer(tune: Tune, cap: int) -> Tune:
    """Return `tune` without what is larger than `cap`, unchanged where that is nothing or there is no default."""
    values = tuple(v for v in tune.values if isinstance(v, int) and v <= cap)
    if tune.default is None or not values:
        return tune
    return replace(tune, values=values, default=_least(tune.default, cap))
