"""Static gate: what a compiled kernel may call, and what a Python kernel may say.

The sandbox and the bytes decide; the gate refuses early and by name what has no place in a kernel. A leaf that
somebody else wrote is compiled as septran.leafgate printed it; here that is checked once more. Compiled code is
judged by its artefact, too.
"""

from __future__ import annotations

from pathlib import Path

from septran import backends
from septran.kernel import Kernel, Leaf
from septran.leafgate import Refusal, printed
from septran.verify.gate_binary import scan_shared_object
from septran.verify.gate_python import scan_python
from septran.verify.gate_types import Finding, GateReport
from septran.verify.gate_wasm import scan_module

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
    if language:
        findings += [
            f for leaf in kernel.leaves if leaf.writer != "library" for f in scan_leaf(leaf)
        ]
    if python and not kernel.leaves:
        # a stored kernel or a bundle, whose leaves are not told from the rest: all of it is read
        for name, text in kernel.files:
            if name.endswith(".py"):
                findings += scan_python(text, name=name, language=language)
    if device and language and not python:
        skipped.append(
            "compiled symbols: the GPU's runtime is linked in; leaves' sources were checked"
        )
    elif artifact.suffix == ".wasm":
        findings += scan_module(artifact).findings
    elif language and not python:
        report = scan_shared_object(
            artifact,
            emulator=language if emulated else "",
            target=f"{kernel.backend}.{kernel.arch}",
        )
        findings += report.findings
        skipped += report.not_checked
    return GateReport(findings=tuple(findings), not_checked=tuple(skipped))


def scan_leaf(leaf: Leaf) -> tuple[Finding, ...]:
    """Return why a leaf's text is not what the gate prints from it, () when it is."""
    backend = backends.get(leaf.spec.backend)
    try:
        again = printed(
            leaf,
            signature=backend.signature(leaf.spec),
            subset=backend.subset or backend.language,
        )
    except Refusal as why:
        return (Finding(kind="subset", what=why.sentence, where=f"{leaf.name}:{why.line}"),)
    if again.source != leaf.source:
        return (
            Finding(kind="subset", what="is not the text that the gate prints", where=leaf.name),
        )
    return ()
