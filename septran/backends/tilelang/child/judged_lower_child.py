"""Child process: call a host function that somebody else wrote with TileLang's own compiler and without a device.

Kernels are lowered for an arch where the file compiles them, and not launched. The file lies beside its septran_device_host.py.

usage: judged_lower_child.py KERNEL.py ASKED.json OUT.json
"""

import contextlib
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


def main(path: str, asked: str, out: str) -> int:
    """Write how many kernels of `path` were lowered, and TileLang's words where it refused one."""
    warnings.simplefilter("ignore")
    sys.path.append(str(Path(path).parent))
    wanted = json.loads(Path(asked).read_text(encoding="utf-8"))
    found: dict[str, Any] = {"lowered": 0, "refused": ""}
    try:
        _called(path, wanted, found)
    except NotLaunched:
        pass
    except Exception as error:
        found["refused"] = _words(error)
    Path(out).write_text(json.dumps(found), encoding="utf-8")
    return 0


def _called(path: str, wanted: dict[str, Any], found: dict[str, Any]) -> None:
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
                found["refused"] = f"{type(error).__name__}: {error}"
                raise NotLaunched from error
        found["lowered"] += 1
        return _launched if out_idx is None else _needed

    # every way to compile a kernel ends in this function of the module
    sys.modules["tilelang.jit"].cached = lowered  # type: ignore[attr-defined]
    with tvm.target.Target(wanted["target"]), _on_the_processor():
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


@contextlib.contextmanager
def _on_the_processor() -> Any:
    """Tensors that are asked for on a GPU lie in memory: nothing computes with them."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Moved(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
        def __torch_function__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = dict(kwargs or {})
            if "cuda" in str(named.get("device", "")):
                named["device"] = "cpu"
            if getattr(func, "__name__", "") == "cuda":
                return args[0]
            at = [a for a in args if not (isinstance(a, torch.device) and a.type == "cuda")]
            if getattr(func, "__name__", "") == "to":
                at = [a for a in at if not (isinstance(a, str) and "cuda" in a)]
            return func(*at, **named)

    torch.nn.Module.cuda = lambda self, *_: self
    with Moved():
        yield


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
