"""How a judged file is called: with the reference's tensors and numbers, and with what its object or its kernel is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from septran.backends.base import Foreign, Host, HostCall
from septran.plan.wanted import Wanted
from septran.run.host_call import Numbers, host_call
from septran.run.judge_maker import sized_with
from septran.run.judge_module import made_with
from septran.run.judge_torch import allowed


def called(
    files: tuple[Path, Path],
    foreign: Foreign,
    host: Host,
    wanted: Wanted,
    numbers: Numbers,
    allow_torch: tuple[str, ...],
    in_place: tuple[str, ...] = (),
) -> HostCall:
    """Return the call of the host function. files: the judged one and the reference. in_place: parameters that hold results, too.

    Raises:
        ConfigError: C172, they do not fit.
    """
    file, reference = files
    call = host_call(host, wanted, numbers, file=file, in_place=in_place)
    call = replace(call, allow_torch=allowed(allow_torch, foreign, file))
    if host.module:
        return replace(call, made_with=made_with(reference), state=wanted.state)
    if host.maker is not None:
        return replace(call, made_with=sized_with(call, host.maker, wanted, numbers, file))
    return call
