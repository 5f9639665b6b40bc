"""What C++ and CUDA files of others share: host functions as the manifest says them, and the judge's entry."""

from __future__ import annotations

import math

from septran.backends.base import THREW, Host, HostCall, HostParam
from septran.backends.judged.c_arguments import HEADER, argument, held_call
from septran.backends.judged.c_host import ELEMENTS, CFunction, CParam, outermost
from septran.ir.dtypes import nbytes
from septran.kernel import KernelParam

COPY = "__builtin_memcpy({to}, {of}, {bytes})"


def hosts_of(found: tuple[CFunction, ...]) -> tuple[Host, ...]:
    """Return functions as `Foreign.hosts` gives them; a stream is a number that has a default. Those on vectors are asked after those on pointers."""
    return tuple(
        Host(
            name=f.name,
            line=f.line,
            params=tuple(_param(p) for p in f.params),
            tier=int(f.held),
            result=_param(f.result) if f.result else None,
        )
        for f in found
    )


def likely(found: tuple[CFunction, ...]) -> tuple[CFunction, ...]:
    """Return the functions that no other calls: of those on pointers, and of those on vectors, which often are what wraps or checks the former."""
    plain = tuple(f for f in found if not f.held)
    return (*outermost(plain), *outermost(tuple(f for f in found if f.held)))


def of_host(found: tuple[CFunction, ...], host: Host) -> CFunction:
    """Return the function that a host was made of."""
    return next(f for f in found if (f.name, f.line) == (host.name, host.line))


def named(found: tuple[Host, ...], name: str) -> Host | None:
    """Return the last function of this name (a declaration may come before), None when there is none."""
    return next((h for h in reversed(found) if h.name == name), None)


def _param(p: CParam) -> HostParam:
    return HostParam(
        name=p.name,
        kind="tensor" if p.kind == "tensor" else "number",
        dtype=p.dtype or ELEMENTS.get(p.type, ""),
        writes=p.writes,
        default=p.kind == "stream" or (p.kind == "number" and p.default is not None),
        value=p.default or 0,
    )


def entry_text(
    name: str,
    function: CFunction,
    call: HostCall,
    params: tuple[KernelParam, ...],
    *,
    around: str = "{call};",
    copy: str = COPY,
    fails: str = "",
) -> str:
    """Return `extern "C" void name(void* const* args)` that calls the host function.

    around: the statement, with `{call}` in it. copy: as `in_place`. fails: what defines `septran_vectors::fail(kind, format, ...)`. An exception that leaves it ends the process with the status THREW.
    """
    place = {p.name: i for i, p in enumerate(params)}
    before = in_place(call, params, copy)
    if function.held or call.returns:
        called = held_call(function, call, params, before)
    else:
        pairs = zip(function.params, call.args, strict=True)
        words = [argument(p, passed, place) for p, passed in pairs]
        called = f"{before}{function.scope}{function.name}({', '.join(words)})"
    text = around.replace("{call}", called)
    return (
        f"{fails + HEADER if function.held else ''}#include <cstdlib>\n"
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
