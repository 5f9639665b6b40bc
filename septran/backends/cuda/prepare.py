"""Ready any CUDA C++ source for the CPU emulation: what a host compiler cannot parse, line by line.

Changed are only launches, dynamic shared memory, `__shared__` arrays (which are the machine's, fresh in every
block), `__constant__` (which is constant), `__noinline__`, casts to integers and the sign of a NaN; line numbers stay.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from septran.ir.brackets import closing

_DYNAMIC = re.compile(
    r"extern\s+__shared__\s+((?:__align__\s*\([^)]*\)|alignas\s*\([^)]*\))\s*)?([\w:\s]+?)\s+(\w+)\s*\[\s*\]\s*;"
)
_ALIGN = r"((?:__align__|alignas)\s*\([^)]*\)\s*)?"
_TYPE = r"(?:[\w:]|<[^;{}]*>)+"
_NAME = r"\w+(?:\s*\[[^;,\]]*\])*"
_STATIC = re.compile(
    rf"(?<!extern )\b(?:static\s+)?__shared__\s+(?:static\s+)?{_ALIGN}({_TYPE}(?:\s+{_TYPE})*?)\s+({_NAME}(?:\s*,\s*{_NAME})*)\s*;"
)
# a union or structure that is declared with its variable
_SHARED_KIND = re.compile(
    r"\b(?:static\s+)?__shared__\s+(?:static\s+)?((?:__align__|alignas)\s*\([^)]*\)\s*)?(union|struct)(?:\s+((?:alignas\s*\([^)]*\)\s*)?\w*))?\s*(?=\{)"
)
_CONSTANT = re.compile(r"\b(?:(?:static|const)[ \t]+)*__constant__(?:[ \t]+(?:static|const)\b)*")
_INTEGER = (
    r"(?:signed\s+char|unsigned\s+char|char|unsigned\s+short|short|unsigned\s+long\s+long|long\s+long"
    r"|unsigned\s+long|long|unsigned\s+int|unsigned|int|u?int(?:8|16|32|64)_t|size_t)"
)
_STATIC_CAST = re.compile(rf"\bstatic_cast\s*<\s*({_INTEGER})\s*>\s*(?=\()")
# of builtin types, before what may be an operand and no declarator's qualifier
_CAST = re.compile(
    rf"\(\s*({_INTEGER})\s*\)(?=\s*(?!const\b|noexcept\b|mutable\b|override\b|->)[\w(.+~!*&-])"
)
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*(\w+)\s*(?:,[^()]*)?\)\s*(?:void\s+)?(\w+)\s*\(")
_COPYSIGN = re.compile(r"(?<![\w.:])(?:std::)?copysignf?(?=\s*\()")
_UNSUPPORTED = (
    (
        r"#\s*include\s*[<\"](cutlass|cute|thrust|cuda/(?!pipeline|functional|barrier|atomic|ptx|std/))",
        "a CUDA C++ library",
    ),
    (
        r"\b(this_grid|grid_group|this_cluster|cluster_group|this_multi_grid|multi_grid_group)\b",
        "cooperative groups larger than a block",
    ),
    (r"\bpipeline_shared_state\b", "a pipeline that threads share"),
    (r"\bcudaLaunch(Cooperative)?Kernel(Ex)?\w*\s*\(", "a special launch"),
)


def unsupported(source: str) -> tuple[str, ...]:
    """Return what the source uses that the emulation does not have."""
    libraries = (
        f"{name}::{found}"
        for name in ("cub", "cuda")
        if not re.search(rf"\bnamespace\s+(?:\w+\s*::\s*)*{name}\s*\{{", source)  # the file's own
        # at::cuda and the like are others
        for found in dict.fromkeys(re.findall(rf"(?<!\w::)\b{name}\s*::\s*(\w+)", source))
        if found not in _offered(name)
    )
    maps = ("the bits of a tensor map",) if _looks_into_maps(source) else ()
    known = (what for pattern, what in _UNSUPPORTED if re.search(pattern, source))
    return (*known, *maps, *libraries)


def _looks_into_maps(source: str) -> bool:
    """Whether a text reads what a CUtensorMap holds, by its member or through a pointer to something else; copies are made by what pieces the compiler likes."""
    if "CUtensorMap" not in source:
        return False
    names = "|".join(
        {re.escape(n) for n in re.findall(r"\bCUtensorMap\b[\s*&]*(?:const\s+)?(\w+)", source)}
    )
    kind = r"(?:(?:const|volatile|unsigned|signed|struct)\s+)*(?!void\b|CUtensorMap\b)[\w:]+(?:\s+(?:const|volatile|int|char|long))*\s*\*"
    cast = rf"(?:\(\s*{kind}\s*\)|reinterpret_cast\s*<\s*{kind}[^>]*>\s*\()\s*\(?\s*&?\s*(?:{names or 'CUtensorMap'})\b"
    return (
        re.search(r"(?:\.|->)\s*opaque\b", source) is not None
        or re.search(cast, source) is not None
    )


@functools.cache
def _offered(library: str) -> frozenset[str]:
    """Return the words of the emulation's own headers of a library, comments left out."""
    emulator = Path(__file__).parent / "emulator"
    # with `using namespace at`, torch's are called so, too
    folders = (library, "ATen", "c10", "torch") if library == "cuda" else (library,)
    found = [p for folder in folders for p in (emulator / folder).rglob("*") if p.is_file()]
    found += [emulator / "cuda_pipeline.h"] if library == "cuda" else []
    text = "".join(re.sub(r"//.*", "", h.read_text(encoding="utf-8")) for h in found)
    return frozenset(re.findall(r"\w+", text))


def asked_of_emulation(source: str) -> tuple[str, ...]:
    """Return what the emulation's headers are told of a source by flags, so that files without it have none of that."""
    marks = (
        (r"\bcudaStreamCreate", "-DCUEMU_STREAMS"),
        (r"\b__managed__\b", "-DCUEMU_MANAGED"),
        (r"\bcuemu::ptx::", "-DCUEMU_PTX"),
        # a constant without a value is one that the host sets, here or nowhere
        (
            r"\bcuda(MemcpyToSymbol|GetSymbolAddress)|__constant__\s[^;={(]*;",
            "-DCUEMU_SETS_CONSTANTS",
        ),
    )
    return tuple(flag for pattern, flag in marks if re.search(pattern, source))


def prepare(source: str) -> str:
    """Return the source for a host compiler; the number of lines does not change."""
    bounds = _bounds(source)
    source = re.sub(r"\b__noinline__\b", "__attribute__((noinline))", source)
    source = _CONSTANT.sub("__constant__", source)
    source = _DYNAMIC.sub(r"\2* \3 = (\2*)cuemu::dynamic_shared;", source)
    source = _STATIC.sub(_shared_array, _named_kinds(source))
    source = _CAST.sub(_c_cast, source)
    source = _STATIC_CAST.sub(r"(\1)(cuemu::Cast<\1>)", source)
    source = _COPYSIGN.sub("cuemu::copysigned", source)
    return _launches(source, bounds)


def _named_kinds(source: str) -> str:
    """Return the source with what `__shared__ union { .. } name;` declares as a type and then a variable of it."""
    while match := _SHARED_KIND.search(source):
        align, kind, name = match.groups()
        close = closing(source, match.end(), "{")
        declared = re.match(r"\s*(\w+)", source[close + 1 :])
        if declared is None:
            raise ValueError("a shared type without a variable")
        name = name or f"{declared.group(1)}_kind"
        plain = name.split()[-1]
        source = (
            f"{source[: match.start()]}{kind} {name} {source[match.end() : close + 1]}; "
            f"__shared__ {align or ''}{plain} {source[close + 1 :].lstrip()}"
        )
    return source


def _bounds(source: str) -> dict[str, str]:
    """Return how many threads the blocks of kernels may have, by their names, where one number or a constant of the file says it."""
    found: dict[str, set[str]] = {}
    for match in _BOUNDS.finditer(source):
        most, name = match.groups()
        inside = re.search(r"\bnamespace\s+\w+\s*\{", source)
        known = most.isdigit() or (
            not inside
            and re.search(
                rf"^[ \t]*#[ \t]*define[ \t]+{most}\b|^(?:static\s+|inline\s+)?constexpr\s[^;(]*\b{most}\s*=",
                source,
                re.M,
            )
        )
        found.setdefault(name, set()).add(most if known else "")
    return {name: most.pop() for name, most in found.items() if len(most) == 1 and most != {""}}


def _c_cast(match: re.Match[str]) -> str:
    """Return a cast that converts floats as the device does; what follows a name is a list of parameters."""
    before = re.search(r"(\w+|\S)\s*$", match.string[: match.start()])
    word = before.group(1) if before else ""
    names = re.fullmatch(r"\w+", word) and word not in ("return", "case", "else")
    if names or word == "]":
        return match.group()
    return f"{match.group()}(cuemu::Cast<{match.group(1)}>)"


def _shared_array(match: re.Match[str]) -> str:
    align, kind = match.group(1) or "", match.group(2)
    out = []
    for declared in match.group(3).split(","):
        name = declared.split("[")[0].strip()
        out.append(
            f'static constexpr char {name}_site[] = "{name}"; struct {name}_room {{ {align}{kind} {declared.strip()}; }}; '
            f"auto& {name} = static_cast<{name}_room*>(cuemu::shared_array({name}_site, sizeof({name}_room), "
            f"alignof({name}_room)))->{name};"
        )
    return " ".join(out)


def _launches(source: str, bounds: dict[str, str]) -> str:
    while (found := source.find("<<<")) >= 0:
        start, end = _callee_start(source, found), source.index(">>>", found)
        open_ = source.index("(", end)
        close = closing(source, open_, "(")
        if close == len(source):
            raise ValueError("unbalanced parentheses in a launch")
        name, config = source[start:found].strip(), source[found + 3 : end]
        args = source[open_ + 1 : close]
        tail = f", {args}" if args.strip() else ""
        plain = name.split("<")[0]
        most = f".bounded({bounds[plain]})" if plain in bounds else ""
        call = (
            f'cuemu::launch("{plain}", cuemu::Launch({config}){most}, '
            f"[=](auto... a_) {{ {name}(a_...); }}{tail})"
        )
        source = source[:start] + call + source[close + 1 :]
    return source


def _callee_start(source: str, end: int) -> int:
    at = end
    while at and source[at - 1].isspace():
        at -= 1
    if source[at - 1] == ">":
        depth = 0
        while True:
            at -= 1
            depth += (source[at] == ">") - (source[at] == "<")
            if depth == 0:
                break
    while True:
        while at and (source[at - 1].isalnum() or source[at - 1] == "_"):
            at -= 1
        if source[max(at - 2, 0) : at] != "::":  # one colon ends a label
            return at
        at -= 2
