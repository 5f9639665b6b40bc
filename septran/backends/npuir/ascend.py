"""NPUIR source rewritten for tilelang's own `ascend` target (Ascend 950).

The bodies stay as they are: their operations come from `child/ascend_forms.py`. What differs
is the import and the launch.

    import tilelang.language as T                     from ascend_forms import T
    with T.Kernel(64, is_npu=True) as (cid, _), ..:   with T.Kernel(64) as cid:
"""

from __future__ import annotations

import re

_SIZE = re.compile(r"size=\[([^\]]*)\]")
_LAUNCH = re.compile(
    r"with T\.Kernel\((?P<n>\d+), is_npu=True\) as \((?P<cid>\w+), _\)(?:, T\.Scope\(\"Cube\"\))?:"
)


class NoAscendForm(Exception):
    """A kernel cannot be said in that dialect; the text says why."""


def ascend_source(source: str) -> str:
    """Return the text to lower.

    Raises:
        NoAscendForm: a Developer kernel, or tails of a product that are cut at run time.
    """
    if "T.alloc_fragment" in source or "T.alloc_shared" in source:
        raise NoAscendForm("kernels in Developer form have none there")
    if "KERNELS = (" in source:
        raise NoAscendForm("several kernels and a host function have none there")
    if any(re.search(r"[^\d, ]", size) for size in _SIZE.findall(source)):
        raise NoAscendForm("its T.gemm cannot cut the tail of a tile (size=)")
    text, launches = _LAUNCH.subn(r"with T.Kernel(\g<n>) as \g<cid>:", source)
    if launches != 1:
        raise NoAscendForm("its T.Kernel has no such launch")
    return text.replace("import tilelang.language as T", "from ascend_forms import T")
