"""The Pallas toolchain: write the kernel folder, lower it in a child, compile it where libtpu is, say what is here."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from septran.backends.base import Availability, Built, Capability
from septran.kernel import Kernel
from septran.toolchain import environment
from septran.toolchain.built import built_since
from septran.toolchain.confined import child_result, run_confined

NAME = "pallas_tpu"
PACKAGES = ("jax==0.10.2", "jaxlib==0.10.2")
"""In an environment of its own: 600 MB that only this target needs."""
LIBTPU = ("libtpu", ("libtpu==0.0.42.1",))
"""Google's TPU compiler, only for who asks for it: 690 MB more, under the Google Cloud Platform Terms of Service."""
TOPOLOGIES = {
    "v5e": "v5e:2x2",
    "v4": "v4:2x2x1",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}
"""The smallest slice of each generation that libtpu describes without a chip."""
HERE = Path(__file__).resolve().parent
_SECONDS = 240.0
ENV = (("JAX_PLATFORMS", "cpu"), ("TPU_SKIP_MDS_QUERY", "1"))
"""No question to a machine's metadata server about a TPU."""
_HOST = {
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no chip is used, so no lock of one
}
_SCHEDULES = "schedules"
_DUMP = {
    "LIBTPU_INIT_ARGS": f"--xla_jf_dump_to={_SCHEDULES} --xla_jf_dump_llo_text=true",
}


def build(kernel: Kernel, folder: Path) -> Built:
    """Write the kernel and lower it to Mosaic, the TPU compiler's own language, in a child without a TPU.

    Where libtpu is in the environment it is compiled to machine code of its generation, too; facts: bundles, spill_bundles, around_bundles.
    """
    started, folder = time.monotonic(), folder.resolve()  # the child has a folder of its own
    main = kernel.write(folder)
    more = environment.command(NAME, LIBTPU[0])
    machine_code = f"compile for TPU {kernel.arch}: libtpu is not installed; {more}"
    if not environment.version(NAME, "jax"):
        reason = f"lower to Mosaic: jax is not installed; {environment.command(NAME)}"
        return Built(ok=True, artifact=main, not_checked=(reason, machine_code))
    work = folder / "lower"
    work.mkdir(exist_ok=True)
    params = [[p.name, list(p.shape), p.dtype] for p in kernel.params]
    (work / "params.json").write_text(json.dumps(params), encoding="utf-8")
    words: tuple[str, ...] = (
        str(HERE / "child" / "lower_child.py"),
        str(main),
        "params.json",
        "lowered.json",
    )
    there = environment.folder(NAME)
    env = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "LANG")}
    env |= {**dict(ENV), environment.VARIABLE: str(there)}
    unchecked: tuple[str, ...] = (machine_code,)
    shown = f"jax.export({kernel.main}, platforms=tpu)"
    if version := environment.version(NAME, "libtpu"):
        (work / _SCHEDULES).mkdir(exist_ok=True)
        words = (*words, TOPOLOGIES[kernel.arch], _SCHEDULES)
        env |= {**_HOST, **_DUMP}
        unchecked, shown = (), f"{shown}; libtpu {version} for {kernel.arch}"
    done = run_confined((sys.executable, *words), work, _SECONDS, env=env, reads=(folder, there))
    result = child_result(work / "lowered.json")
    shutil.rmtree(work / _SCHEDULES, ignore_errors=True)
    if done.code == 124:
        log = f"lowering took longer than {_SECONDS:.0f} s"
        return built_since(None, {}, log, shown, started, ())
    if result is None:
        log = done.output.replace(str(folder), ".")[-4000:] or f"exit status {done.code}"
        return built_since(None, {}, log, shown, started, ())
    made = main if result["ok"] else None
    log = result["log"].replace(str(folder), ".")[-8000:]
    missing = (*unchecked, *done.not_enforced)
    return built_since(made, result["facts"], log, shown, started, missing)


def _compiler(jax: str) -> Availability:
    if version := environment.version(NAME, "libtpu"):
        return Availability(ok=True, detail=f"jax {jax}, libtpu {version}")
    more = environment.command(NAME, LIBTPU[0])
    return Availability(ok=True, detail=f"jax {jax}, up to Mosaic; no libtpu", install=more)


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
        "compile": _compiler(version),
        "emulate": Availability(ok=True, detail=f"jax {version}, Google's TPU simulation"),
        "device": device,
    }
