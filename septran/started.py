"""When this process first read anything of SepTran: the package imports this before all else."""

from __future__ import annotations

import time

STARTED_NS = time.time_ns()
