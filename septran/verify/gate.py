"""Static gate: what a compiled kernel may call, and what a Python kernel may say.

The sandbox and the bytes decide; the gate refuses early and by name what has no place in a kernel.
Compiled code is judged by its artefact, because source scanners are fooled by the preprocessor.
"""

from __future__ import annotations

from pathlib import Path

from septran.kernel import Kernel
from septran.verify.gate_binary import scan_shared_object
from septran.verify.gate_python import scan_python
from septran.verify.gate_source import scan_c_source
from septran.verify.gate_types import Finding, GateReport

__all__ = ["Finding", "GateReport", "gate"]


def gate(
    kernel: Kernel,
    artifact: Path,
    *,
    language: str,
    emulated: bool = False,
    device: bool = False,
) -> GateReport:
    """Return what the gate found in the leaves' sources and in the artifact; empty = admitted.

    language: whose words a leaf may use, "" for no gate. A kernel whose main file is Python is read; any other is
        compiled, of the C family.
    device: the artifact is linked with a GPU's runtime, so its symbols say nothing about the kernel.
    """
    findings: list[Finding] = []
    skipped: list[str] = []
    python = bool(language) and kernel.main.endswith(".py")
    for leaf in kernel.leaves:
        if leaf.writer == "library":
            continue  # ours, and tested; a model's leaf starts here
        if python:
            findings += scan_python(leaf.source, name=leaf.name, language=language)
        elif language:
            findings += scan_c_source(leaf.source, name=leaf.name)
    if python and not kernel.leaves:
        # a stored kernel or a bundle, whose leaves are not told from the rest: all of it is read
        for name, text in kernel.files:
            if name.endswith(".py"):
                findings += scan_python(text, name=name, language=language)
    if device and language and not python:
        skipped.append(
            "compiled symbols: the GPU's runtime is linked in; leaves' sources were checked"
        )
    elif language and not python:
        report = scan_shared_object(artifact, emulator=language if emulated else "")
        findings += report.findings
        skipped += report.not_checked
    return GateReport(findings=tuple(findings), not_checked=tuple(skipped))
