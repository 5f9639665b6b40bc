"""What kind of mistake a verdict on somebody's kernel is about, and codes that only such kernels have."""

from __future__ import annotations

import re
from dataclasses import replace

from septran.outcome import Level, Status
from septran.verify.verdict import Verdict

_LACKS = (
    "NotImplementedError",
    "not supported in interpreter mode",
    "is unknown to this emulator",
    "Unsupported data type",  # the interpreter's own, of atomic operations
)


_NOT_TAKEN = ("capacity", "shape", "dtype", "memory", "parallel", "rebind")
"""kinds of what an emulator says that are no accesses but texts which the language's compiler refuses"""


def told(verdict: Verdict) -> Verdict:
    """Return the verdict with codes of its own for host functions and for what the emulation lacks."""
    first = verdict.diagnostics[0] if verdict.diagnostics else {}
    if verdict.code == "V209" and first.get("kind") == "host":
        return replace(
            verdict,
            code="V216",
            message=str(first.get("message")),
            hint="allocation, views, copies and launches are the host function's work",
        )
    if verdict.code == "V205" and "HostError: host:" in verdict.message:
        text = verdict.message.partition("host: ")[2]
        return replace(verdict, code="V204", status=Status.INCORRECT_SHAPE, message=text, hint="")
    if verdict.code == "V209" and first.get("kind") == "result":
        return replace(verdict, code="V204", status=Status.INCORRECT_SHAPE, hint="")
    if verdict.code == "V209" and first.get("kind") == "check":
        text = f"the host function refuses these inputs: {first.get('message')}"
        return replace(verdict, code="V205", message=text, hint="")
    if verdict.code == "V209" and first.get("kind") in _NOT_TAKEN:
        return replace(verdict, hint="the language refuses such a kernel")
    if verdict.code == "V209" and first.get("kind") == "lacks":
        return verdict.unavailable("V217", f"the emulation lacks something: {first.get('message')}", "nothing is known about the kernel")  # fmt: skip
    emulated = verdict.where == "emulated"
    uncompiled = verdict.code == "V201" and emulated
    lacks = verdict.where != "device" and any(w in verdict.message for w in _LACKS)
    if uncompiled or (verdict.code == "V205" and lacks):
        text = f"the emulation lacks something: {verdict.message}"
        return verdict.unavailable("V217", text, "nothing is known about the kernel")
    return verdict


_CHANGES = ("which is an input", "writes input", "was changed")
_STORES = ("V209", "V215", "V216")


def with_place_hint(verdict: Verdict) -> Verdict:
    """Return a verdict on a file that stores to its inputs, or may have, saying how one that works in place is judged."""
    place = "a function that makes its results of its inputs where these lie is judged with --in-place NAME"
    if verdict.code == "V205" and verdict.message.startswith("SIGSEGV"):
        return replace(verdict, hint=f"{verdict.hint}; {place}" if verdict.hint else place)
    changes = any(words in verdict.message for words in _CHANGES)
    return replace(verdict, hint=place) if changes and verdict.code in _STORES else verdict


def finding_of(verdict: Verdict) -> str:
    """Return the class of what is wrong: race, bounds, uninitialised, precision, wrong, cheat, ...; "" for nothing."""
    if verdict.passed or verdict.level is Level.UNAVAILABLE:
        return ""
    text = verdict.message
    match verdict.code:
        # what reads memory that nobody wrote does so for every input; large inputs alone overflow
        case "V202" if "(integers" in text and ("never written" in text or "not written" in text):
            return "uninitialised"
        case "V202" | "V208" if "(uninitialised)" in text:
            return "uninitialised"
        case "V202" if "NaN" in text:
            return "wrong"
        case "V202":
            return "precision" if verdict.hint.startswith("right on small integers:") else "wrong"
        case "V209" if re.match(
            r"(emulator: )?(race|hazard|divergence|deadlock|async|fence)", text
        ):
            return "race"
        case "V209" if re.match(rf"(emulator: )?({'|'.join(_NOT_TAKEN)}):", text):
            return "compile"
        case "V209" if "uninitialised" in text:
            return "uninitialised"
        case "V209" if re.match(r"(emulator: )?state:", text):
            return "state"
        case "V209" if text.startswith("opaque"):
            return "cheat"
        case "V209" if text.startswith("launch"):
            return "launch"
        case "V209":
            return "bounds"
        case "V205" if "SIG" in text:
            return "bounds"
        case "V216":
            return "cheat"
    return _BY_CODE.get(verdict.code, "wrong")


_BY_CODE = {
    "P110": "bounds",
    "P130": "race",
    "V201": "compile",
    "V204": "shape",
    "V205": "crash",
    "V206": "hang",
    "V207": "bounds",
    "V208": "race",
    "V210": "refused",
    "V211": "cheat",
    "V212": "state",
    "V213": "race",
    "V215": "bounds",
    "V219": "race",
}
