"""What a full tile of a leaf costs: cycles, from the compiler's listing and a core as the machine's file describes it, and its hot loop's bound.

The compiler knows how often a loop runs where its bound is a constant, and says so in its listing. A leaf's extents
are arguments, so that for the listing they are written into its body as its calls give them.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from septran.backends.base import TileCost
from septran.errors import ConfigError, SeptranError
from septran.ir.brackets import closing, split_top
from septran.kernel import Kernel, Leaf
from septran.machine import Machine
from septran.toolchain.compilers import WITHOUT_TILES, Compiler, flags_for
from septran.toolchain.confined import plain, run_confined, toolchain_folders
from septran.toolchain.listing import Block, functions
from septran.toolchain.nominal_core import Core, cycles, hottest
from septran.toolchain.port_bound import port_bound, tool

_TEXT, _LISTING = "priced.cpp", "priced.s"
_LOOP = "llvm-mca"
_FLAGS = ("-S", "-dA", "--param", "max-predicted-iterations=65536")
_FULL = re.compile(r"if \((\w+ >= lanes<\w+>)\)")
_VIEW = re.compile(r"st::View<[^>]*>\s+(\w+)")


def priced(
    kernel: Kernel, leaf: Leaf, compiler: Compiler, machine: Machine, folder: Path
) -> TileCost:
    """Return what one call of `leaf` on a full tile costs; nothing where there is no listing or no such core.

    folder: the listing is made in it.
    """
    core = core_of(machine)
    text = with_extents(
        kernel.source, leaf.spec.symbol, {p.name: p.shape for p in leaf.spec.params}
    )
    if core is None or text is None:
        return TileCost()
    for name, part in kernel.files:
        (folder / name).write_text(part, encoding="utf-8")
    (folder / _TEXT).write_text(text, encoding="utf-8")
    # the core that is described has no matrix tiles, whatever this machine has
    flags = [f for f in (*flags_for(kernel.arch), *WITHOUT_TILES) if f != "-shared"]
    command = [compiler.path, *flags, *_FLAGS, f"./{_TEXT}", "-o", _LISTING]
    try:
        done = run_confined(
            command, folder.resolve(), 120.0, reads=toolchain_folders(compiler.path, {})
        )
    except SeptranError:
        return TileCost()
    if done.code != 0 or not plain(folder / _LISTING):
        return TileCost()
    listed = functions((folder / _LISTING).read_text(encoding="utf-8", errors="replace"))
    name = next((n for n in listed if leaf.spec.symbol in n and n.find(".") < 0), "")
    own = processor(machine)
    told = _bounded(hottest(name, listed, core, own), kernel.arch, machine, folder)
    return replace(told, cycles=cycles(name, listed, core, own))


def _bounded(block: Block | None, arch: str | None, machine: Machine, folder: Path) -> TileCost:
    """Return what bounds the block, on this machine's own processor where the kernel is for it, else on that of the machine's file."""
    if block is None:
        return TileCost()
    if tool() is None:
        return TileCost(bound=f"{_LOOP}: missing")
    named = [str(machine.limits["core"].get("modelled", ""))]
    for cpu in [name for name in (["native"] if arch in (None, "native") else []) + named if name]:
        found = port_bound(block.lines, processor=cpu, machine=processor(machine), folder=folder)
        if found is not None:
            waits = f" ({found.cycles:g} as it waits)" if found.by == "dependences" else ""
            what = "hot loop" if block.loops else "hot block"
            told = f"{what} {found.throughput:g} cycles{waits}, bound by {found.by}"
            return TileCost(
                throughput=found.throughput, bound=f"{told} ({_LOOP}, {found.processor})"
            )
    return TileCost(bound=f"{_LOOP}: refused")


def processor(machine: Machine) -> str:
    """Return the processor whose instructions a machine's listing has."""
    named = machine.name.rpartition(".")[2]
    return named if named != "native" else platform.machine()


def core_of(machine: Machine) -> Core | None:
    """Return the core that the machine's file describes, None where it describes none.

    Raises:
        ConfigError: C120, it describes it badly.
    """
    told = machine.limits.get("core")
    if not isinstance(told, Mapping):
        return None
    try:
        return Core(
            issue=int(told["issue"]),
            window=int(told["window"]),
            ports={str(k): int(v) for k, v in told["ports"].items()},
            vector=int(told["vector"]),
            kinds={str(k): (str(v[0]), float(v[1]), float(v[2])) for k, v in told["kinds"].items()},
            load=float(told["load"]),
            calls={str(k): float(v) for k, v in told["calls"].items()},
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
        raise ConfigError.of(
            "C120",
            f"machine {machine.name}: limits: core: a part is missing or of the wrong kind: {e}",
        ) from e


def with_extents(source: str, symbol: str, tiles: Mapping[str, tuple[int, ...]]) -> str | None:
    """Return the kernel's text with the leaf a function of its own that knows the extents of a full tile.

    tiles: parameter -> bounds of its extents. Strides are taken where every call gives the same number. None: the
    text holds no such function.
    """
    head = re.search(rf"static void {re.escape(symbol)}\(", source)
    if head is None:
        return None
    params = _VIEW.findall(source[head.end() : closing(source, head.end() - 1)])
    begin = source.index("{", closing(source, head.end() - 1)) + 1
    known: dict[str, list[str]] = {}
    for call in re.finditer(rf"(?<!void ){re.escape(symbol)}\(", source):
        given = split_top(source[call.end() : closing(source, call.end() - 1)])
        for name, view in zip(params, given, strict=False):
            parts = split_top(view.strip()[1:-1])
            if len(parts) == 3:
                known.setdefault(name, []).append(parts[2].strip())
    told: list[str] = []
    for name in params:
        bounds = tiles.get(name, ())
        told += [f"{name}.n[{d}] = {bound};" for d, bound in enumerate(bounds)]
        strides = set(known.get(name, ()))
        if len(strides) == 1:
            each = split_top(strides.pop()[1:-1])
            told += [
                f"{name}.s[{d}] = {s.strip()};" for d, s in enumerate(each) if s.strip().isdigit()
            ]
    # a full tile takes the fast way of the library's loads and stores; a compiler would take both ways for as likely
    source = _FULL.sub(lambda m: f"if (__builtin_expect_with_probability({m[1]}, 1, 1.0))", source)
    head = re.search(rf"static void {re.escape(symbol)}\(", source)
    assert head is not None
    begin = source.index("{", closing(source, head.end() - 1)) + 1
    own = "__attribute__((noinline, used)) "
    return f"{source[: head.start()]}{own}{source[head.start() : begin]} {' '.join(told)}{source[begin:]}"
