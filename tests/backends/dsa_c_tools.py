"""Build a Program for dsa_c and run it in the simulator, outside the verifier's sandbox."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from septran.backends.dsa import backend as dsa_c
from septran.backends.dsa import emit as dsa_emit
from septran.ir.nodes import Program
from septran.kernel import Kernel, Leaf, leaf_specs

CHILD = textwrap.dedent(
    """
    import ctypes, json, sys
    import numpy as np
    so, entry, data = sys.argv[1:4]
    arrays = [np.ascontiguousarray(v) for v in np.load(data).values()]
    lib = ctypes.CDLL(so)
    call = getattr(lib, entry)
    call.restype = None
    lib.vendor_lib_report.restype = ctypes.c_char_p
    call((ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays]))
    np.savez(data, *arrays)
    print(lib.vendor_lib_report().decode())
    """
)


def kernel_of(program: Program, own: dict[str, str] | None = None) -> Kernel:
    """Return the kernel with library leaves; `own` maps a task to a C leaf body."""
    leaves: dict[str, Leaf] = {}
    for _, spec in leaf_specs(program):
        leaf = dsa_emit.library_leaf(spec)
        assert leaf is not None
        if own and spec.task in own:
            text = f"{dsa_emit.signature(spec)} {{\n{own[spec.task]}\n}}\n"
            leaf = Leaf(spec=spec, writer="file", name="own", source=text)
        leaves[spec.key] = leaf
    return dsa_c.DSA_C.emit(program, leaves)


def run_text(
    kernel: Kernel, folder: Path, arrays: list[np.ndarray[Any, Any]], order: str = "program"
) -> tuple[list[np.ndarray[Any, Any]], dict[str, Any]]:
    """Return the arrays after the call and the simulator's report. Runs in a child process."""
    built = dsa_c.build(kernel, folder)
    assert built.ok, built.log
    data = folder / "data.npz"
    np.savez(data, *arrays)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(built.artifact), kernel.entry, str(data)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={"VL_ORDER": order, "PATH": ""},
    )
    with np.load(data) as found:
        return [found[k] for k in found], json.loads(done.stdout)
