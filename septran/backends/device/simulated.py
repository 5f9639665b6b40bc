"""A TileLang kernel beside the simulator that runs it, as its child loads it."""

from __future__ import annotations

import shutil
from pathlib import Path

from septran.kernel import Kernel

_SIMULATOR = Path(__file__).resolve().parents[1] / "tilesim"
_NAME = "septran_tilesim"


def write_simulated(kernel: Kernel, folder: Path) -> Path:
    """Write the kernel's files and the simulator into `folder`; return the main file."""
    main = kernel.write(folder)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_SIMULATOR, folder / _NAME, ignore=ignore, dirs_exist_ok=True)
    return main
