"""A host function that somebody else wrote, called with its DSL's own compiler and without a device; nothing that it launches runs.

Lies beside a judged kernel as septran_compiler_host.py.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from septran_device_host import Entry
from septran_torch_card import card_of, pretend_cuda
from septran_torch_host import Gate, Machine


class NotLaunched(Exception):
    """A kernel whose results the rest of the host function would need."""


class Refused(Exception):
    """What the compiler said of a kernel; a host function that catches it may have another one."""


Facts = dict[str, int]


def tell(
    path: str,
    asked: str,
    out: str,
    *,
    compiler: Callable[[str, Facts], AbstractContextManager[None]],
    words: Callable[[Exception], str],
) -> int:
    """Write whether the compiler takes all kernels of `path` (ok), in which words it refuses one (log), and figures (facts; kernels: how many).

    path: the file. asked: as `backends.judged.asked_compiler` writes it. compiler: arch, facts -> stands while the file is called and counts in facts.
    words: what an error says that is no `Refused`; "" for one that has to do with the device that is not there.
    """
    warnings.simplefilter("ignore")
    facts, log = {"kernels": 0}, ""
    try:
        _call(path, json.loads(Path(asked).read_text(encoding="utf-8")), facts, compiler)
    except NotLaunched:
        pass
    except Refused as error:
        log = str(error)
    except Exception as error:
        log = words(error)
    told = {"ok": not log, "log": log, "facts": facts}
    Path(out).write_text(json.dumps(told), encoding="utf-8")
    return 0


def _call(
    path: str,
    wanted: dict[str, Any],
    facts: Facts,
    compiler: Callable[[str, Facts], AbstractContextManager[None]],
) -> None:
    pretend_cuda(card_of(wanted["arch"]))
    with compiler(wanted["arch"], facts), Machine(Gate(None, path)):
        spec = importlib.util.spec_from_file_location("judged_kernel", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["judged_kernel"] = module
        spec.loader.exec_module(module)
        tensors = {
            name: torch.zeros(shape, dtype=getattr(torch, dtype))
            for name, shape, dtype in wanted["params"]
        }
        Entry(getattr(module, wanted["entry"]), wanted["call"], wanted["outputs"]).timed(tensors)
