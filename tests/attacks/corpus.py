"""All attacks and controls, in the order of the published table."""

from __future__ import annotations

from tests.attacks import (
    corpus_c,
    corpus_carried,
    corpus_chips,
    corpus_compile,
    corpus_cuda,
    corpus_dsl,
    corpus_files,
    corpus_host,
    corpus_jumps,
    corpus_leaf,
    corpus_leaves,
    corpus_native,
    corpus_owners,
    corpus_places,
    corpus_python,
    corpus_replies,
    corpus_sizes,
    corpus_sought,
    corpus_states,
    corpus_surroundings,
    corpus_told,
)
from tests.attacks.attack import Attack

_ALL: tuple[Attack, ...] = (
    *corpus_c.ALL,
    *corpus_host.CORPUS,
    *corpus_leaf.ALL,
    *corpus_compile.ALL,
    *corpus_python.ALL,
    *corpus_cuda.ALL,
    *corpus_dsl.ALL,
    *corpus_chips.ALL,
    *corpus_files.ALL,
    *corpus_carried.ALL,
    *corpus_replies.ALL,
    *corpus_leaves.ALL,
    *corpus_native.ALL,
    *corpus_sought.ALL,
    *corpus_surroundings.ALL,
    *corpus_sizes.ALL,
    *corpus_told.ALL,
    *corpus_states.ALL,
    *corpus_jumps.ALL,
    *corpus_owners.ALL,
    *corpus_places.ALL,
)
_FAMILIES = list(dict.fromkeys(a.family for a in _ALL))
CORPUS = tuple(sorted(_ALL, key=lambda a: _FAMILIES.index(a.family)))
"""Entries of one family stand together."""
