"""The gate for text that somebody else wrote: parse it, allow what is listed, print it from what was parsed.

Only printed text is compiled or lowered, so nothing that was not understood reaches a compiler. The rules are
data in configs/leaves/; docs/leaf-language.md is the subset for people and models.
"""

from __future__ import annotations

from septran.leafgate.leaf import printed
from septran.leafgate.refusal import Refusal

__all__ = ["Refusal", "printed"]
