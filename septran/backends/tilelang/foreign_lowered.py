"""What TileLang's own compiler says of a file that SepTran did not write: it lowers to CUDA C++, for which no GPU is needed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from septran.backends.base import Compiled
from septran.backends.judged.asked_compiler import asked_compiler, kernels
from septran.backends.tilelang.toolchain import found, in_tilelang
from septran.kernel import Kernel
from septran.toolchain.confined import child_answer

_CHILD = Path(__file__).with_name("child") / "judged_lower_child.py"


def lowered(kernel: Kernel, folder: Path) -> Compiled:
    """Return what TileLang's compiler makes of the kernels that the file's entry compiles for `kernel.arch`, as `asked_compiler`."""
    if not found():
        return Compiled()
    return asked_compiler(
        kernel,
        folder,
        _CHILD,
        who=f"TileLang {metadata.version('tilelang')}",
        answer=lambda script, reads, work: child_answer(
            lambda: in_tilelang(script, reads, work), Path(script[-1])
        ),
        done=lambda facts: f"lowers {kernels(facts['kernels'])} of it for {kernel.arch}",
    )
