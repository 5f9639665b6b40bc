"""What a DSL's own compiler says of a file that SepTran did not write, on a machine without a GPU.

An emulator runs what a language means; its compiler refuses some of it (layouts that it finds none for, more shared memory than there is).
It is asked at the sizes that are judged: the host function is called, and what it launches is compiled and not run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from septran.backends.base import Compiled
from septran.backends.judged.python_file import lay_torch_host, write_for_device
from septran.kernel import Kernel

_TEXT = 300
_LAID = "compiler_host"


def asked_compiler(
    kernel: Kernel,
    folder: Path,
    child: Path,
    *,
    who: str,
    answer: Callable[[list[str], Path, Path], Mapping[str, Any] | None],
    done: Callable[[Mapping[str, int]], str],
    settles: bool = False,
) -> Compiled:
    """Return what a compiler makes of the kernels that the file's entry launches or compiles for `kernel.arch`.

    folder: for this alone. child: the script that asks it (`child/compiler_host.py`: tell). who: the compiler and its version.
    answer: script and arguments whose last is the file that it writes, folder it reads, folder it writes -> as `toolchain.confined.child_answer`.
    done: figures -> what the card says after `who`.
    Says nothing where the compiler was not reached: the host function does not get as far without a device, or launches nothing.
    """
    write_for_device(kernel, folder)
    lay_torch_host(folder, _LAID)
    work = folder / "compiled"
    work.mkdir(exist_ok=True)
    (work / "out.json").unlink(missing_ok=True)  # of an earlier run that kept its evidence here
    asked = {
        "arch": kernel.arch,
        "entry": kernel.entry,
        "call": json.loads(str(dict(kernel.options)["call"])),
        "params": [(p.name, p.shape, p.dtype) for p in kernel.params],
        "outputs": [p.name for p in kernel.params if p.privilege != "r"],
    }
    (work / "asked.json").write_text(json.dumps(asked), encoding="utf-8")
    script = [str(child), str(folder / kernel.main), str(work / "asked.json")]
    said = answer([*script, str(work / "out.json")], folder, work)
    if said is None:  # the file was judged without it
        return Compiled()
    if not said["ok"]:
        text = " ".join(said["log"].split())
        text = text.replace(f"{folder}/", "").replace(str(folder), ".")[:_TEXT]
        return Compiled(
            refused=f"{who} does not compile it for {kernel.arch} at these sizes: {text}"
        )
    facts: Mapping[str, int] = said["facts"]
    if not facts.get("kernels"):
        return Compiled()
    return Compiled(done=f"{who} {done(facts)}", settles=settles)


def kernels(count: int) -> str:
    """Return `1 kernel` or `3 kernels`."""
    return "1 kernel" if count == 1 else f"{count} kernels"


def figures(facts: Mapping[str, int]) -> str:
    """Return what of a multiprocessor kernels take, the most of each figure, in brackets; "" where nobody said."""
    told = []
    if facts.get("registers"):
        told.append(f"{facts['registers']} registers")
        spilled = facts.get("spill_bytes", 0)
        told.append(f"{spilled} bytes spilled" if spilled else "none spilled")
    shared = facts.get("shared") or facts.get("static_shared_bytes")
    if shared:
        told.append(f"{shared} bytes of shared memory")
    return f" ({', '.join(told)})" if told else ""
