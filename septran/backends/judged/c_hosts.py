"""What C++ and CUDA files of others share: host functions as the manifest says them, and the judge's entry."""

from __future__ import annotations

import math

from septran.backends.base import THREW, Host, HostCall, HostParam, Passed
from septran.backends.judged.c_host import CFunction, CParam, literal
from septran.ir.dtypes import nbytes
from septran.kernel import KernelParam

COPY = "__builtin_memcpy({to}, {of}, {bytes})"


def hosts_of(found: tuple[CFunction, ...]) -> tuple[Host, ...]:
    """Return functions as `Foreign.hosts` gives them; a stream is a number that has a default."""
    return tuple(
        Host(name=f.name, line=f.line, params=tuple(_param(p) for p in f.params)) for f in found
    )


def named(found: tuple[Host, ...], name: str) -> Host | None:
    """Return the last function of this name (a declaration may come before), None when there is none."""
    return next((h for h in reversed(found) if h.name == name), None)


def _param(p: CParam) -> HostParam:
    return HostParam(
        name=p.name,
        kind="tensor" if p.kind == "tensor" else "number",
        dtype=p.dtype,
        writes=p.writes,
        default=p.kind == "stream",
    )


def entry_text(
    name: str,
    function: CFunction,
    call: HostCall,
    params: tuple[KernelParam, ...],
    *,
    around: str = "{call};",
    copy: str = COPY,
) -> str:
    """Return `extern "C" void name(void* const* args)` that calls the host function.

    around: the statement, with `{call}` in it. copy: as `in_place`. An exception that leaves it ends the process with the status THREW.
    """
    place = {p.name: i for i, p in enumerate(params)}
    words = [
        _argument(p, passed, place) for p, passed in zip(function.params, call.args, strict=True)
    ]
    called = f"{in_place(call, params, copy)}{function.name}({', '.join(words)})"
    text = around.replace("{call}", called)
    return (
        "#include <cstdlib>\n"
        f'extern "C" __attribute__((visibility("default"))) void {name}(void* const* args) {{\n'
        f"    try {{ {text} }} catch (...) {{ std::_Exit({THREW}); }}\n}}\n"
    )


def in_place(call: HostCall, params: tuple[KernelParam, ...], copy: str) -> str:
    """Return what gives results that are made of inputs in place those inputs' values; an expression and a comma each.

    copy: with `{to}`, `{of}` and `{bytes}`.
    """
    place = {p.name: i for i, p in enumerate(params)}
    size = {p.name: math.prod(p.shape) * nbytes(p.dtype) for p in params}
    return "".join(
        f"{copy.format(to=f'args[{place[a.param]}]', of=f'args[{place[a.begins]}]', bytes=size[a.param])}, "
        for a in call.args
        if a.begins
    )


def _argument(param: CParam, passed: Passed, place: dict[str, int]) -> str:
    if param.kind == "stream":
        return "0"
    if passed.param:
        return f"static_cast<{param.type}>(args[{place[passed.param]}])"
    return f"static_cast<{param.type}>({literal(passed.value)})"
