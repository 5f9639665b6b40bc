"""What a shared object may import and contain.

Undefined symbols are compared with an allow-list (mathematics, memory moves, OpenMP, the C++ runtime's
allocation); the disassembly is searched for instructions that reach the operating system or the
processor's modes without a symbol.
"""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

from septran import assets, spanyaml
from septran.own_tool import run_tool
from septran.verify.gate_types import Finding, GateReport
from septran.verify.object_file import ObjectFile, read

_CONSTRUCTOR_SECTIONS = (".init_array", ".ctors", ".preinit_array")
# bytes that the C runtime puts there: more is a kernel's own
_LOAD_CODE = {".init": 0x24, ".fini": 0x18, ".fini_array": 8}
# "syscall" and friends; wrfsbase and xrstor touch thread state, ldmxcsr rounding (checked at run time too)
_INSTRUCTIONS = re.compile(
    r"\t(syscall|sysenter|int\s+\$0x80|int3|rdtscp?|rdpmc|wrfsbase|wrgsbase|rdfsbase|rdgsbase"
    r"|vmcall|hlt|ptwrite"
    r"|svc|hvc|smc|brk|mrs\s+\w+, (?:cnt|pm)\w+"
    r"|ecall|ebreak|rdcycleh?|rdtimeh?|rdinstreth?|csr\w+\s+.*\b(?:cycle|time|instret)h?)\b"
)
_ASKS = " <st_tiles>:\n"
# by ELF's number of the machine: what its binutils are called, when they are not this machine's own
_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64"}


def scan_shared_object(path: Path, *, emulator: str = "", target: str = "") -> GateReport:
    """Return findings in a compiled kernel; what the machine lacks tools for is not checked.

    emulator: language whose emulator is linked in; its runtime's needs are allowed too.
    target: `backend.arch`; of one whose emulator is a vendor's library, what that needs.
    """
    if path.suffix not in (".so", ".o", ".dylib"):
        return GateReport()
    tools = (_disassembler(path), "readelf")
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        return GateReport(not_checked=(f"compiled symbols: no {', '.join(missing)} here",))
    told = read(_tool("readelf", "-SlsW", str(path)))
    findings = [
        *_imports(told, emulator, target),
        *_instructions(path),
        *_constructors(told, 2 if emulator else 1),
        *_state(told, emulator),
    ]
    return GateReport(findings=tuple(findings))


def allowed_symbols(
    emulator: str = "", target: str = ""
) -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
    """Return names and patterns of configs/gate.yaml a compiled kernel may import."""
    value = spanyaml.load(assets.find("configs/gate.yaml").path).value
    names = {str(n) for group in value["symbols"].values() for n in group}
    if emulator:
        names.update(str(n) for key in (emulator, target) for n in value["emulators"].get(key, ()))
    return frozenset(names), tuple(re.compile(p) for p in value["patterns"])


def _imports(told: ObjectFile, emulator: str, target: str) -> list[Finding]:
    names, patterns = allowed_symbols(emulator, target)
    found = []
    for symbol in told.imports:
        bare = symbol.removesuffix("f").removesuffix("l")
        if symbol in names or bare in names or any(p.fullmatch(symbol) for p in patterns):
            continue
        found.append(Finding(kind="symbol", what=f"calls {_demangled(symbol)}"))
    return found


def _instructions(path: Path) -> list[Finding]:
    found: dict[str, Finding] = {}
    text = _tool(_disassembler(path), "-d", "--no-show-raw-insn", str(path))
    # the runtime asks the system for matrix tiles there; a second function of that name is a kernel's own
    asks = text.count(_ASKS) == 1
    inside = False
    for line in text.splitlines():
        if line.endswith(">:"):
            inside = asks and line.endswith(_ASKS.strip())
        match = _INSTRUCTIONS.search(line)
        if match and not (inside and match.group(1) == "syscall"):
            name = " ".join(match.group(1).split())
            found.setdefault(name, Finding(kind="instruction", what=f"contains {name}"))
    return list(found.values())


def _disassembler(path: Path) -> str:
    """Objdump reads the code of its own kind of machine only; of another one it prints nothing."""
    with path.open("rb") as file:
        head = file.read(20)
    machine = _MACHINES.get(int.from_bytes(head[18:20], "little"), "")
    foreign = head[:4] == b"\x7fELF" and machine and machine != platform.machine()
    return f"{machine}-linux-gnu-objdump" if foreign else "objdump"


def _constructors(told: ObjectFile, allowed: int) -> list[Finding]:
    """The compiler's own frame_dummy is the one constructor a kernel has; an emulator adds one."""
    found = []
    for section in told.sections.values():
        if section.name in _CONSTRUCTOR_SECTIONS and section.size > 8 * allowed:
            what = f"runs code when it is loaded ({section.name})"
            found.append(Finding(kind="constructor", what=what))
        if section.name == ".ifunc":
            found.append(Finding(kind="constructor", what="resolves symbols at load"))
        if section.size > _LOAD_CODE.get(section.name, 1 << 62):
            what = f"runs code when it is loaded or closed ({section.name})"
            found.append(Finding(kind="constructor", what=what))
    if told.writable_code:
        found.append(Finding(kind="memory", what="has memory that is writable and executable"))
    if any(s.kind == "IFUNC" for s in told.symbols):
        found.append(Finding(kind="constructor", what="has an indirect function resolver"))
    return found


def _state(told: ObjectFile, emulator: str) -> list[Finding]:
    """Writable variables of the kernel's own: what a remembered answer would need."""
    rules = spanyaml.load(assets.find("configs/gate.yaml").path).value["state"]
    texts = [*rules["native"], *(rules.get(emulator, ()) if emulator else ())]
    allowed = [re.compile(str(text)) for text in texts]
    return [
        Finding(kind="state", what=f"keeps {_demangled(symbol)} between calls")
        for symbol in told.variables
        if not any(p.fullmatch(symbol) for p in allowed)
    ]


def _tool(*command: str) -> str:
    """Return what a tool says of an object file."""
    return run_tool(command, cpu_s=60).stdout


def _demangled(symbol: str) -> str:
    if shutil.which("c++filt") is None:
        return symbol
    return _tool("c++filt", symbol).strip() or symbol
