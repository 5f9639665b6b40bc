"""Compilers for Ascend that run without a device, each optional: what they said, or why they did not run.

`bishengir-compile` (package ascendnpu-ir) takes Expert kernels as HIVM text through the whole
BiShengIR pipeline for 910B; only its last step, hivmc, is part of CANN. tilelang's own `ascend`
target lowers the same source to Ascend C text, for Ascend 950: a second opinion on another chip, so
what it cannot lower is not checked and not refused.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from septran.backends.npuir.ascend import NoAscendForm, ascend_source
from septran.backends.npuir.hivm import hivm_text
from septran.backends.npuir.hivm_ops import NoHivmForm
from septran.kernel import Kernel
from septran.preloaded import Preload
from septran.toolchain.confined import Finished, plain, run_confined

RUNTIME = Path(__file__).resolve().parent / "child"
INSTALL_BISHENGIR = "pip install ascendnpu-ir"
INSTALL_TILELANG = 'pip install "tilelang==0.1.15"'
BISHENGIR_SECONDS, ASCEND_SECONDS = 30.0, 20.0
NO_TARGET = 77
_HIVM = "--enable-hivm-compile=true"
_FLAGS = {"vector": (_HIVM,), "cube": (_HIVM, "--disable-hivm-tensor-compile")}
"""Form -> flags; vector kernels need the pipeline's tensor part, products must not take it."""
_LAST_STEP = "External hivmc run fails"
_CRASH = re.compile(r"LLVM ERROR: .*|PLEASE submit a bug report|Assertion .* failed")

Run = Callable[..., Finished]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a gate found. status: "passed", "refused" (the kernel is wrong) or "skipped".

    note: for `not_checked`, "" when nothing is left unchecked. fact: for the build's facts.
    """

    status: Literal["passed", "refused", "skipped"]
    note: str = ""
    fact: str = ""
    log: str = ""
    not_enforced: tuple[str, ...] = ()


def bishengir() -> Path | None:
    """Return the BiShengIR compiler: of the package ascendnpu-ir (not imported), or on PATH."""
    spec = importlib.util.find_spec("ascendnpuir")
    if spec is not None and spec.origin is not None:
        tool = Path(spec.origin).parent / "bin" / "bishengir-compile"
        if tool.is_file():
            return tool
    there = shutil.which("bishengir-compile")
    return Path(there) if there else None


def ascend_target() -> str:
    """Return why tilelang's `ascend` target cannot be used, "" when it can (nothing is imported)."""
    spec = importlib.util.find_spec("tilelang")
    if spec is None or spec.origin is None:
        return f"tilelang is not installed; {INSTALL_TILELANG}"
    if not (Path(spec.origin).parent / "ascend" / "language" / "__init__.py").is_file():
        return f"the installed tilelang has no ascend target; {INSTALL_TILELANG}"
    return ""


def run_bishengir(kernel: Kernel, folder: Path, run: Run = run_confined) -> Outcome:
    """Compile `kernel` as HIVM text in `folder`/bishengir, where the text stays."""
    what = f"compile for {kernel.arch} with bishengir"
    form = str(dict(kernel.options).get("form"))
    if form not in _FLAGS:
        return Outcome(status="skipped", note=f"{what}: Developer kernels have no HIVM text here")
    try:
        text = hivm_text(kernel.source, kernel.entry)
    except NoHivmForm as error:
        return Outcome(status="skipped", note=f"{what}: {error}")
    work = folder / "bishengir"
    work.mkdir(exist_ok=True)
    (work / "kernel.mlir").write_text(text, encoding="utf-8")
    tool = bishengir()
    if tool is None:
        return Outcome(status="skipped", note=f"{what}: not installed; {INSTALL_BISHENGIR}")
    words = ("kernel.mlir", "--target=Ascend910B2", "-o", "kernel.o", *_FLAGS[form])
    done = run((str(tool), *words), work, BISHENGIR_SECONDS)
    crash = _CRASH.search(done.output)
    if crash or done.code < 0 or done.code == 124:
        why = crash.group() if crash else f"exit status {done.code}"
        return Outcome(
            status="skipped",
            note=f"{what}: the compiler did not end ({why[:120]})",
            log=done.output[-4000:],
            not_enforced=done.not_enforced,
        )
    errors = [line for line in done.output.splitlines() if "error:" in line]
    wrong = [line for line in errors if _LAST_STEP not in line]
    if wrong or (done.code and not errors):
        log = "\n".join(wrong) or done.output
        return Outcome(status="refused", log=_scrub(log, work), not_enforced=done.not_enforced)
    rest = f"assembling for {kernel.arch}: hivmc, the last step, is part of CANN"
    return Outcome(
        status="passed",
        note=rest if errors else "",
        fact="accepted up to hivmc" if errors else "compiled",
        not_enforced=done.not_enforced,
    )


def run_ascend(kernel: Kernel, folder: Path, run: Run = run_confined) -> Outcome:
    """Lower `kernel` with tilelang's `ascend` target to `folder`/ascend/kernel.cpp."""
    what = "Ascend C text by tilelang's ascend target (Ascend 950)"
    missing = ascend_target()
    if missing:
        return Outcome(status="skipped", note=f"{what}: {missing}")
    try:
        source = ascend_source(kernel.source)
    except NoAscendForm as error:
        return Outcome(status="skipped", note=f"{what}: {error}")
    work = folder / "ascend"
    work.mkdir(exist_ok=True)
    (work / "kernel.py").write_text(source, encoding="utf-8")
    child = (sys.executable, str(RUNTIME / "ascend_child.py"), "kernel.py", kernel.entry)
    env = {"TILELANG_CACHE_DIR": str(work / "cache")}
    done = run(
        (*child, "lowered.cpp"), work, ASCEND_SECONDS, env=env, preload=Preload(("tilelang",))
    )
    out = work / "lowered.cpp"
    if done.code == 0 and plain(out):
        size = len(out.read_text(encoding="utf-8").splitlines())
        return Outcome(status="passed", fact=f"{size} lines", not_enforced=done.not_enforced)
    why = f"longer than {ASCEND_SECONDS:.0f} s" if done.code == 124 else _last(done.output)
    if done.code == NO_TARGET:
        why = f"this tilelang cannot make the target ({why})"
    return Outcome(
        status="skipped",
        note=f"{what}: {why}",
        log=_scrub(done.output, work)[-4000:],
        not_enforced=done.not_enforced,
    )


def _last(output: str) -> str:
    """Return the line of a Python error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"\w*(Error|Exception)\b", line)]
    return (errors or lines or ["no reason given"])[-1][:200]


def _scrub(text: str, work: Path) -> str:
    return text.replace(f"{work}/", "").replace(str(work), ".")
