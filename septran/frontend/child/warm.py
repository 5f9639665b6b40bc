"""What an import needs of torch, loaded before it is asked for: in a preloaded Python (`septran.preloaded`), never on a user's file."""

from __future__ import annotations

from septran.preloaded import Preload

PRELOAD = Preload(
    ("torch.export", "septran.frontend.child.warm:export_once"), (("OMP_NUM_THREADS", "1"),)
)
"""Of children that import a module file, and their environment."""


def export_once() -> None:
    """Export a module of one addition, so that all that torch.export loads and remembers at its first use is there (2 s)."""
    import torch

    from septran.frontend.child.composites import prepare

    class Small(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) + 1

    torch.export.export(Small(), (torch.ones(4, 5),))
    prepare()
