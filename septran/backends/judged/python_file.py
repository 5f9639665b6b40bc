"""What Python files of any target share that SepTran did not write: what they may say, how they become a Kernel."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from septran.backends.base import HostCall, HostParam
from septran.backends.text.python_host import Rules, needed, objections
from septran.kernel import Kernel, KernelParam

MODULE = "ModelNew"
"""the class that benchmarks of modules ask for"""
_MAIN = "judged_kernel.py"
_TORCH_HOST = Path(__file__).resolve().parent / "child" / "torch_host.py"

IMPORTS = frozenset(
    """
    __future__ torch torch.nn torch.nn.functional torch.autograd torch.cuda math typing functools itertools dataclasses
    enum collections collections.abc operator contextlib warnings logging
    """.split()
)
NAMES = frozenset(
    """
    exec eval compile __import__ open input globals locals vars breakpoint memoryview __builtins__ __loader__
    __spec__ getattr setattr delattr exit quit
    """.split()
)
ATTRIBUTES = frozenset(
    """
    torch.utils torch.overrides torch.library torch.ops torch.hub torch.multiprocessing torch.distributed torch.load
    torch.save torch.from_numpy torch.frombuffer torch.compile torch.jit torch.fx
    numpy from_blob storage untyped_storage f_globals f_locals f_back gi_frame cr_frame tb_frame
    """.split()
)
"""imports, names and attributes (see `text.python_host.Rules`) of host functions on torch, whatever launches"""


def host_params(found: tuple[tuple[str, bool], ...]) -> tuple[HostParam, ...]:
    """Return parameters as `text.python_host` finds them."""
    return tuple(HostParam(name=name, default=default) for name, default in found)


def as_kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str, *, backend: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file as a Kernel, reduced to what its host function needs, and the lines that were left out."""
    kept, left = needed(text, call.host.name)
    plan = {
        "args": [asdict(a) for a in call.args],
        "returns": call.returns,
        "made_with": [asdict(a) for a in call.made_with],
        "state": call.state,
    }
    found = Kernel(
        name=call.host.name,
        backend=backend,
        arch=arch,
        entry=call.host.name,
        params=params,
        main=_MAIN,
        files=((_MAIN, kept),),
        leaves=(),
        options=(("call", json.dumps(plan)),),
    )
    return found, left


def refusals(text: str, entry: str, *, rules: Rules) -> tuple[tuple[str, str, int], ...]:
    """Return what the part of the file that would run may not say."""
    return objections(needed(text, entry)[0], rules)


def lay_torch_host(folder: Path) -> None:
    """Write torch's side of a host function into `folder`, from which its child imports it."""
    shutil.copyfile(_TORCH_HOST, folder / "septran_torch_host.py")
