"""What a WebAssembly module may ask of who runs it: nothing.

WebAssembly core specification 2.0, section 5.5.
"""

from __future__ import annotations

from pathlib import Path

from septran.verify.gate_types import Finding, GateReport

_IMPORT, _START = 2, 8


def scan_module(path: Path) -> GateReport:
    """Return findings in a module: anything imported, and a function that runs when it is instantiated."""
    raw = path.read_bytes()
    if raw[:8] != b"\0asm\x01\0\0\0":
        return GateReport(findings=(Finding(kind="memory", what="is not a WebAssembly module"),))
    found = []
    at = 8
    while at < len(raw):
        section, at = raw[at], at + 1
        size, at = _unsigned(raw, at)
        if section == _IMPORT and _unsigned(raw, at)[0]:
            found.append(Finding(kind="symbol", what="imports functions or memory"))
        if section == _START:
            found.append(Finding(kind="constructor", what="runs code when it is loaded"))
        at += size
    return GateReport(findings=tuple(found))


def _unsigned(raw: bytes, at: int) -> tuple[int, int]:
    """Return a LEB128 number and the place after it; what is cut short ends there."""
    value = shift = 0
    while at < len(raw):
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            break
    return value, at
