"""Numbers of a module's text as torch takes them where something is decided by them: rounded to the dtype of the tensor.

0.1 in a comparison with float32 is 0.100000001: that element itself is not larger. The judge computes in float64, where it would be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from septran.aten.graph import Graph, Node, Ref
from septran.ir.dtypes import FLOATS, as_stored

COMPARES = ("eq", "ne", "lt", "le", "gt", "ge")
STEPS = ("fmod", "remainder", "floor_divide")
"""What jumps at multiples of its divisor, which torch rounds to float32 before: 1.4 is a multiple of that 0.7 or is not."""
_CLAMPS = {
    "clamp": ("min", "max"),
    "clamp_min": ("min",),
    "clamp_max": ("max",),
    "hardtanh": ("min_val", "max_val"),
}
_BORDERS = {"hardshrink": ("lambd",), "threshold": ("threshold", "value")}
_COPIED = {
    "full": ("fill_value",),
    "full_like": ("fill_value",),
    "new_full": ("fill_value",),
    "fill": ("value",),
    "masked_fill": ("value",),
    "index_fill": ("value",),
    "scatter": ("value",),
    "constant_pad_nd": ("value",),
    "scalar_tensor": ("s",),
    "where": ("self", "other"),
}
"""Operator -> its numbers that are results as they are: what compares with them later compares with what torch has stored."""
_NUMBERS = {**dict.fromkeys((*COMPARES, *STEPS), ("other",)), **_CLAMPS, **_BORDERS, **_COPIED}
_OWN = {*COMPARES, *_CLAMPS, *_COPIED, "hardshrink"}
"""Operators that take numbers in 16 bits where the tensor has 16; others have float32."""


def dtypes_of(graph: Graph) -> dict[str, str]:
    """Return the dtype of each input and of each node that is one tensor."""
    found = {i.name: i.meta.dtype for i in graph.inputs}
    return found | {
        n.name: n.results[0].dtype for n in graph.nodes if not n.many and n.results and n.results[0]
    }


def _decided_in(name: str, dtype: str) -> str:
    return dtype if dtype == "float64" or (name in _OWN and dtype in FLOATS) else "float32"


def as_taken(node: Node, dtypes: Mapping[str, str]) -> Node:
    """Return a node with its numbers as torch takes them. dtypes: of the values by name."""
    name = node.op.split(".")[1] if node.op.startswith("aten.") else ""
    if name not in _NUMBERS:
        return node
    about = node.named.get("self") if name in COMPARES else Ref(node.name)
    dtype = dtypes.get(about.name, "float64") if isinstance(about, Ref) else "float64"
    taken = {}
    for key in _NUMBERS[name]:
        value = node.named.get(key)
        if isinstance(value, float) or (isinstance(value, int) and dtype in FLOATS):
            found = as_stored(value, _decided_in(name, dtype))
            if found != value and not (name in _COPIED and math.isinf(found)):
                taken[key] = found
    return replace(node, named={**node.named, **taken}) if taken else node
