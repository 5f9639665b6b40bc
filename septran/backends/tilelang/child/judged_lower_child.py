"""Child process: call a host function that somebody else wrote with TileLang's own compiler and without a device.

Kernels are lowered for an arch where the file compiles them, and not launched. The file lies beside its septran_compiler_host.py.

usage: judged_lower_child.py KERNEL.py ASKED.json OUT.json
"""

import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LANGUAGE = ("language", "layout", "ir.py", "jit/__init__.py", "utils/language.py")
"""parts of TileLang that read a kernel's text and ask no device"""


def main(path: str, asked: str, out: str) -> int:
    """Write what TileLang makes of `path`, as `compiler_host.tell`."""
    sys.path.append(str(Path(path).parent))
    host = importlib.import_module("septran_compiler_host")

    @contextmanager
    def lowering(arch: str, facts: dict[str, int]) -> Iterator[None]:
        import tilelang
        from tilelang import tvm

        target = {"kind": "cuda", "arch": arch}

        def lowered(func: Any, out_idx: Any = None, pass_configs: Any = None, **_: Any) -> Any:
            with tvm.transform.PassContext(config=pass_configs or {}):
                try:
                    tilelang.lower(func, target=target)
                except Exception as error:
                    raise host.Refused(f"{type(error).__name__}: {error}") from error
            facts["kernels"] += 1
            return _launched if out_idx is None else needed

        def needed(*args: Any, **more: Any) -> None:
            """A kernel that makes its results."""
            raise host.NotLaunched

        # every way to compile a kernel ends in this function of the module
        sys.modules["tilelang.jit"].cached = lowered  # type: ignore[attr-defined]
        with tvm.target.Target(target):
            yield

    told: int = host.tell(path, asked, out, compiler=lowering, words=_words)
    return told


def _launched(*args: Any, **more: Any) -> None:
    """A kernel that writes where it is told to."""


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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
