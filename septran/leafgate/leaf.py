"""One door for leaves of every language: the text as it may be compiled, or why not."""

from __future__ import annotations

from dataclasses import replace

from septran.kernel import Leaf
from septran.leafgate.cleaf import print_leaf
from septran.leafgate.inputs import refuse_written_inputs
from septran.leafgate.names import is_compiled
from septran.leafgate.pyleaf import print_python_leaf


def printed(leaf: Leaf, *, signature: str, subset: str) -> Leaf:
    """Return the leaf with the text that is printed from its parsed source; printing twice changes nothing.

    signature: as the backend generates it. subset: names configs/leaves/<subset>.yaml.

    Raises:
        Refusal: what is not part of the subset, or writes an input. ConfigError C001: there is no such subset.
    """
    if is_compiled(subset):
        text = print_leaf(leaf.source, signature=signature, spec=leaf.spec, of=subset)
    else:
        text = print_python_leaf(leaf.source, signature=signature, of=subset)
    refuse_written_inputs(text, leaf.spec, subset)
    return replace(leaf, source=text)
