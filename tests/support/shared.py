"""A few functions in C++ as a shared library, compiled as confined as a kernel is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from septran.toolchain.built import Built
from septran.toolchain.compilers import cpp_compiler, flags_for
from septran.toolchain.confined import Run, plain, run


def compile_shared(
    text: str,
    folder: Path,
    *,
    arch: str = "native",
    flags: Sequence[str] | None = None,
    runner: Run = run,
) -> Built:
    """Compile `text` in `folder`; flags: those of `arch`'s kernels unless given."""
    compiler = cpp_compiler(arch)
    assert compiler is not None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.cpp").write_text(text, encoding="utf-8")
    words = [*(flags_for(arch) if flags is None else flags), "text.cpp", "-o", "text.so"]
    done = runner([compiler.path, *words], folder, 120.0)
    made = folder / "text.so"
    return Built(
        ok=done.code == 0 and plain(made),
        artifact=made,
        log=done.output.replace(str(folder) + os.sep, ""),
        not_checked=done.not_enforced,
    )
