"""Child process: call a host function that somebody else wrote with TileLang's own compiler and without a device.

Kernels are lowered for an arch where the file compiles them, and not launched. The file lies beside its septran_device_host.py.

usage: judged_lower_child.py KERNEL.py ASKED.json OUT.json
"""

import importlib
import importlib.util
import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

_LANGUAGE = ("language", "layout", "ir.py", "jit/__init__.py", "utils/language.py")
"""parts of TileLang that read a kernel's text and ask no device"""


class NotLaunched(Exception):
    """A kernel whose results the rest of the host function would need."""


class Refused(Exception):
    """What the compiler said of a kernel; a host function that catches it may have another one."""


def main(path: str, asked: str, out: str) -> int:
    """Write whether TileLang takes all kernels of `path` (ok), in which words it refuses one (log), and how many it lowered (facts)."""
    warnings.simplefilter("ignore")
    sys.path.append(str(Path(path).parent))
    facts, log = {"kernels": 0}, ""
    try:
        _called(path, json.loads(Path(asked).read_text(encoding="utf-8")), facts)
    except NotLaunched:
        pass
    except Refused as error:
        log = str(error)
    except Exception as error:
        log = _words(error)
    told = {"ok": not log, "log": log, "facts": facts}
    Path(out).write_text(json.dumps(told), encoding="utf-8")
    return 0


def _called(path: str, wanted: dict[str, Any], facts: dict[str, int]) -> None:
    import tilelang
    import torch
    from tilelang import tvm

    torch_host = importlib.import_module("septran_torch_host")
    device_host = importlib.import_module("septran_device_host")
    torch_host.pretend_cuda(torch_host.card_of(wanted["arch"]))

    def lowered(func: Any, out_idx: Any = None, pass_configs: Any = None, **_: Any) -> Any:
        with tvm.transform.PassContext(config=pass_configs or {}):
            try:
                tilelang.lower(func, target=wanted["target"])
            except Exception as error:
                raise Refused(f"{type(error).__name__}: {error}") from error
        facts["kernels"] += 1
        return _launched if out_idx is None else _needed

    # every way to compile a kernel ends in this function of the module
    sys.modules["tilelang.jit"].cached = lowered  # type: ignore[attr-defined]
    machine = torch_host.Machine(torch_host.Gate(None, path))
    with tvm.target.Target(wanted["target"]), machine:
        spec = importlib.util.spec_from_file_location("judged_kernel", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["judged_kernel"] = module
        spec.loader.exec_module(module)
        tensors = {
            name: torch.zeros(shape, dtype=getattr(torch, dtype))
            for name, shape, dtype in wanted["params"]
        }
        entry = device_host.Entry(
            getattr(module, wanted["entry"]), wanted["call"], wanted["outputs"]
        )
        entry.timed(tensors)


def _words(error: Exception) -> str:
    """Return what an error says, "" for one that is not of TileLang's language: anything else may need the device that is not there."""
    import tilelang

    package = Path(str(tilelang.__file__)).parent
    frames = traceback.extract_tb(error.__traceback__)
    lacking = isinstance(error, ImportError) and str(error.name).startswith("tilelang")
    last = Path(frames[-1].filename) if frames else Path()
    if not (lacking or any(last.is_relative_to(package / part) for part in _LANGUAGE)):
        return ""
    # an assertion without words says what it asserts
    return f"{type(error).__name__}: {str(error) or frames[-1].line}"


def _launched(*args: Any, **more: Any) -> None:
    """A kernel that writes where it is told to."""


def _needed(*args: Any, **more: Any) -> None:
    """A kernel that makes its results."""
    raise NotLaunched


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
