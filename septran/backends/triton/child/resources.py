"""What a cubin needs of a multiprocessor, as the disassembler that comes with Triton says it; imported by the children beside it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path


def usage(cubin: bytes) -> dict[str, int]:
    """Return registers of a thread, and the bytes of its stack and of its local memory; {} where the disassembler says nothing."""
    import triton.backends.nvidia as nvidia

    tool = Path(str(nvidia.__file__)).parent / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run(
            [str(tool), "--dump-resource-usage", file.name],
            capture_output=True,
            text=True,
            check=False,
        )
    found = {}
    for key, name in (("REG", "registers"), ("STACK", "stack"), ("LOCAL", "spill_bytes")):
        match = re.search(rf"\b{key}:(\d+)", done.stdout)
        if match:
            found[name] = int(match.group(1))
    return found
