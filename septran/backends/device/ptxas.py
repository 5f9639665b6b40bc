"""What `ptxas -v` (nvcc --resource-usage) reports."""

from __future__ import annotations

import re

_FIGURES = {
    "registers": r"Used (\d+) registers",
    "spill_bytes": r"(\d+) bytes spill stores, (\d+) bytes spill loads",
    "static_shared_bytes": r"(\d+) bytes smem",
    "stack_bytes": r"(\d+) bytes stack frame",
}


def resource_usage(log: str) -> tuple[tuple[str, int], ...]:
    """Return the worst figures over all kernels of a log; those that it does not mention are left out.

    registers (per thread), spill_bytes (stores + loads), static_shared_bytes, stack_bytes.
    """
    found = {
        name: [sum(map(int, m.groups())) for m in re.finditer(pattern, log)]
        for name, pattern in _FIGURES.items()
    }
    return tuple((name, max(values)) for name, values in found.items() if values)
