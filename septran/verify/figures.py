"""The figures an emulator leaves behind: read once the child is dead, believed only where they are possible.

They never count in a kernel's favour for accuracy. What they say is checked by the backend
(`Backend.figures`), which knows what is possible on its machine.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from septran.document import plain_text, read_object
from septran.kernel import Kernel

FILE = "figures.json"
_MOST_BYTES, _MOST_SAID, _DEEPEST = 64 * 1024, 1 << 20, 3

Check = Callable[[Mapping[str, Any], Kernel], Mapping[str, Any]]
"""Raw figures and their kernel -> figures that are possible; ValueError says what is not."""


def read_figures(work: Path) -> Mapping[str, Any]:
    """Return the plain numbers, texts and mappings of `work`/figures.json; {} when there is none.

    A child that nobody trusts wrote it: no links, no large files, no lists, nothing but finite numbers.
    """
    path = work / FILE
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            return {}
    except OSError:
        return {}
    return plain_figures(read_object(path) or {})


def plain_figures(found: dict[str, Any]) -> Mapping[str, Any]:
    """Return the plain numbers, texts and mappings of `found`, at most three levels of them."""
    return _plain(found, _DEEPEST)


def _plain(found: dict[str, Any], depth: int) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in found.items():
        if isinstance(value, dict) and depth > 0:
            kept[name[:40]] = _plain(value, depth - 1)
        elif isinstance(value, bool | str):
            kept[name[:40]] = value[:200] if isinstance(value, str) else value
        elif isinstance(value, int | float) and math.isfinite(value) and abs(value) < 1e18:
            kept[name[:40]] = value
    return kept


def believed(
    raw: Mapping[str, Any], kernel: Kernel, check: Check | None
) -> tuple[Mapping[str, Any], str]:
    """Return the figures to show and, when they are impossible, a line for `not_checked`."""
    if check is None or not raw:
        return {}, ""
    try:
        return check(raw, kernel), ""
    except (ValueError, KeyError, TypeError) as error:
        return {}, f"cycles: the simulator's report is impossible ({error})"


def read_diagnostics(work: Path) -> tuple[Mapping[str, object], ...]:
    """Return what the child's emulator said against the kernel."""
    path = work / "diagnostics.json"
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_SAID:
            return ({"kind": "protocol", "message": "diagnostics.json is not a small plain file"},)
        data = json.loads(plain_text(path))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RecursionError):
        return ({"kind": "protocol", "message": "diagnostics.json is not JSON"},)
    return tuple(d for d in data if isinstance(d, dict)) if isinstance(data, list) else ()
