"""What TileLang's own compiler says of a file that SepTran did not write, on a machine without a GPU.

The simulator runs what TileLang's language means; the compiler refuses some of it (layouts that it finds none for, extents that it cannot
place). It is asked at the sizes that are judged: the host function is called, and what it compiles is lowered to CUDA C++ and not launched.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

from septran.backends.base import Compiled
from septran.backends.judged.python_file import write_for_device
from septran.backends.tilelang.toolchain import found, in_tilelang, scrub
from septran.errors import EnvironmentProblem
from septran.kernel import Kernel
from septran.toolchain.confined import child_result

_CHILD = Path(__file__).with_name("child") / "judged_lower_child.py"
_TEXT = 300


def lowered(kernel: Kernel, folder: Path) -> Compiled:
    """Return what TileLang's compiler makes of the kernels that the file's entry compiles for `kernel.arch`.

    folder: for this alone. Says nothing where TileLang is not installed, or where the host function does not get as far without a device.
    """
    if not found():
        return Compiled()
    write_for_device(kernel, folder)
    work = folder / "lowered"
    work.mkdir(exist_ok=True)
    (work / "out.json").unlink(missing_ok=True)  # of an earlier run that kept its evidence here
    asked = {
        "arch": kernel.arch,
        "target": {"kind": "cuda", "arch": kernel.arch},
        "entry": kernel.entry,
        "call": json.loads(str(dict(kernel.options)["call"])),
        "params": [(p.name, p.shape, p.dtype) for p in kernel.params],
        "outputs": [p.name for p in kernel.params if p.privilege != "r"],
    }
    (work / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    script = [str(_CHILD), str(folder / kernel.main), str(work / "asked.json")]
    try:
        done = in_tilelang([*script, str(work / "out.json")], folder, work)
    except EnvironmentProblem:  # the file was judged without it
        return Compiled()
    said = child_result(work / "out.json")
    if done.code or said is None:
        return Compiled()
    who = f"TileLang {metadata.version('tilelang')}"
    if not said["ok"]:
        text = scrub(" ".join(said["log"].split()), folder)[:_TEXT]
        return Compiled(
            refused=f"{who} does not compile it for {kernel.arch} at these sizes: {text}"
        )
    count = said["facts"].get("kernels", 0)
    if not count:
        return Compiled()
    kernels = "1 kernel" if count == 1 else f"{count} kernels"
    return Compiled(done=f"{who} lowers {kernels} of it for {kernel.arch}")
