"""C++ and CUDA files of others: the kernel that the judge calls, and the call as the proofs take it."""

from __future__ import annotations

import math
from pathlib import Path

from septran.backends.base import HostCall
from septran.backends.judged.c_conditions import asks_its_judge
from septran.backends.judged.c_host import CFunction
from septran.backends.judged.c_hosts import COPY, entry_text
from septran.backends.judged.c_launches import Given, launches
from septran.ir.dtypes import nbytes
from septran.kernel import Kernel, KernelParam
from septran.prove.foreign.launch import Launch, NotRead

ENTRY = "septran_judged_entry"


def judged(
    text: str,
    function: CFunction,
    call: HostCall,
    params: tuple[KernelParam, ...],
    *,
    backend: str,
    arch: str,
    suffix: str,
    around: str = "{call};",
    copy: str = COPY,
    fails: str = "",
) -> Kernel:
    """Return the file with the judge's entry after it; around: the statement with `{call}` in it. copy, fails: as `c_hosts.entry_text`."""
    entry = entry_text(ENTRY, function, call, params, around=around, copy=copy, fails=fails)
    return plain_kernel(text, entry, call, params, backend, arch, suffix)


def plain_kernel(
    text: str,
    entry: str,
    call: HostCall,
    params: tuple[KernelParam, ...],
    backend: str,
    arch: str,
    suffix: str,
) -> Kernel:
    """Return a text with the judge's entry after it as a Kernel."""
    main = f"judged_kernel{suffix}"
    return Kernel(
        name=call.host.name,
        backend=backend,
        arch=arch,
        entry=ENTRY,
        params=params,
        main=main,
        files=((main, f"{text}\n{entry}"),),
        leaves=(),
    )


def of_torch(text: str) -> tuple[str, ...]:
    """Return what no judge of plain files can build."""
    torch = ("torch's C++ extension interface",) if "torch/extension.h" in text else ()
    return (*torch, *asks_its_judge(text))


def read_launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    """Return the accesses of what the host function does when it is called so; nothing has to run for it.

    Raises:
        NotRead: the host function, or a kernel, says something that is not read.
    """
    if call.host.tier:
        raise NotRead(call.host.line, "host functions on vectors and spans are not read")
    known = {p.name: p for p in params}
    given = [
        Given(
            name=a.param,
            elements=math.prod(known[a.param].shape),
            item=nbytes(known[a.param].dtype),
        )
        if a.param
        else Given(number=a.value)
        for a in call.args
    ]
    return launches(text, file, call.host.name, given)
