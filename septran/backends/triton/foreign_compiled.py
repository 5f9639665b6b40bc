"""What Triton's own compiler says of a file that SepTran did not write: it goes down to the machine code of a GPU, for which none is needed."""

from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

from septran.backends.base import Compiled
from septran.backends.judged.asked_compiler import asked_compiler, figures, kernels
from septran.backends.triton.toolchain import RUNTIME, found, in_triton
from septran.kernel import Kernel
from septran.toolchain.confined import child_answer

_CHILD = Path(__file__).with_name("child") / "judged_compile_child.py"
_SECONDS = 60.0


def compiled(kernel: Kernel, folder: Path) -> Compiled:
    """Return what Triton's compiler makes of the kernels that the file's entry launches, for `kernel.arch`, as `asked_compiler`."""
    if not found():
        return Compiled()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(RUNTIME / "driver.py", folder / "septran_triton_driver.py")
    return asked_compiler(
        kernel,
        folder,
        _CHILD,
        who=f"Triton {metadata.version('triton')}",
        answer=lambda script, reads, work: child_answer(
            lambda: in_triton(script, reads, work, _SECONDS), Path(script[-1])
        ),
        done=lambda facts: (
            f"compiles {kernels(facts['kernels'])} of it for {kernel.arch}{figures(facts)}"
        ),
        settles=True,
    )
