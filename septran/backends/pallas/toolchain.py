"""The Pallas toolchain: write the kernel folder, lower it in a child, say what is here."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from septran.backends.base import Availability, Built, Capability
from septran.kernel import Kernel
from septran.toolchain import environment
from septran.toolchain.confined import child_result, run_confined

NAME = "pallas_tpu"
PACKAGES = ("jax==0.10.2", "jaxlib==0.10.2")
"""In an environment of its own: 600 MB that only this target needs."""
HERE = Path(__file__).resolve().parent
_SECONDS = 240.0
ENV = (("JAX_PLATFORMS", "cpu"), ("TPU_SKIP_MDS_QUERY", "1"))
"""No question to a machine's metadata server about a TPU."""


def build(kernel: Kernel, folder: Path) -> Built:
    """Write the kernel and lower it to Mosaic, the TPU compiler's own language, in a child without a TPU."""
    started = time.monotonic()
    for name, text in kernel.files:
        (folder / name).write_text(text, encoding="utf-8")
    main = folder / kernel.main
    machine_code = (
        f"compile for TPU {kernel.arch}: libtpu is not used; Mosaic is the last step here"
    )
    if not environment.version(NAME, "jax"):
        reason = f"lower to Mosaic: jax is not installed; {environment.command(NAME)}"
        return Built(ok=True, artifact=main, not_checked=(reason, machine_code))
    work = folder / "lower"
    work.mkdir(exist_ok=True)
    params = [[p.name, list(p.shape), p.dtype] for p in kernel.params]
    (work / "params.json").write_text(json.dumps(params), encoding="utf-8")
    words = (str(HERE / "child" / "lower_child.py"), str(main), "params.json", "lowered.json")
    there = environment.folder(NAME)
    env = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "LANG")}
    env |= {**dict(ENV), environment.VARIABLE: str(there)}
    done = run_confined((sys.executable, *words), work, _SECONDS, env=env, reads=(folder, there))
    result = child_result(work / "lowered.json")
    shown = f"jax.export({kernel.main}, platforms=tpu)"
    seconds = time.monotonic() - started
    if done.code == 124:
        log = f"lowering took longer than {_SECONDS:.0f} s"
        return Built(ok=False, artifact=None, log=log, command=shown, seconds=seconds)
    if result is None:
        log = done.output.replace(str(folder), ".")[-4000:] or f"exit status {done.code}"
        return Built(ok=False, artifact=None, log=log, command=shown, seconds=seconds)
    return Built(
        ok=result["ok"],
        artifact=main if result["ok"] else None,
        log=result["log"].replace(str(folder), ".")[-8000:],
        command=shown,
        seconds=seconds,
        facts=tuple(sorted(result["facts"].items())),
        not_checked=(machine_code, *done.not_enforced),
    )


def available() -> Mapping[Capability, Availability]:
    """Return what works here: everything but writing needs the environment."""
    emit = Availability(ok=True, detail="built in")
    version = environment.version(NAME, "jax")
    device = Availability(ok=False, detail="no runner for a real TPU yet", install="")
    if not version:
        lack = Availability(
            ok=False, detail="jax is not installed", install=environment.command(NAME)
        )
        return {"emit": emit, "compile": lack, "emulate": lack, "device": device}
    return {
        "emit": emit,
        "compile": Availability(ok=True, detail=f"jax {version}, up to Mosaic"),
        "emulate": Availability(ok=True, detail=f"jax {version}, Google's TPU simulation"),
        "device": device,
    }
