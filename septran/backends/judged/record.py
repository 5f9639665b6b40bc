"""What a child wrote down of the launches that it made: claims, read as such."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from septran.document import plain_text
from septran.prove.foreign.launch import NotRead

_MOST_BYTES = 1 << 20


def recorded(run_dir: Path) -> tuple[Mapping[str, Any], ...]:
    """Return the launches of launches.jsonl in the child's folder.

    Raises:
        NotRead: there are none, or they cannot be read.
    """
    path = run_dir / "child" / "launches.jsonl"
    try:
        if path.is_symlink() or path.stat().st_size > _MOST_BYTES:
            raise NotRead(0, "the record of launches is no small plain file")
        found = [json.loads(line) for line in plain_text(path).splitlines()]
    except (OSError, ValueError) as e:
        raise NotRead(0, "no launch was recorded") from e
    unread = next((f for f in found if "unread" in f), None)
    if unread is not None:
        raise NotRead(
            0, f"the arguments of {unread['kernel']} were not recorded: {unread['unread']}"
        )
    return tuple(found)
