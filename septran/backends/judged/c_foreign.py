"""Proofs for C++ and CUDA files of others: the call that the judge makes, as `c_launches` takes it."""

from __future__ import annotations

import math
from pathlib import Path

from septran.backends.base import HostCall
from septran.backends.judged.c_launches import Given, launches
from septran.ir.dtypes import nbytes
from septran.kernel import KernelParam
from septran.prove.foreign.launch import Launch


def read_launches(
    text: str, file: str, call: HostCall, params: tuple[KernelParam, ...], run_dir: Path
) -> tuple[Launch, ...]:
    """Return the accesses of what the host function does when it is called so; nothing has to run for it."""
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
