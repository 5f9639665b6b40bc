"""Child process: import one TileLang kernel file and lower it for an arch, without any device.

usage: lower_child.py KERNEL.py ENTRY ARCH OUT
"""

import importlib.util
import sys
import warnings
from pathlib import Path


def main(path: str, entry: str, arch: str, out: str) -> int:
    """Lower `entry` of `path` for `arch` into `out`; returns the exit status."""
    warnings.simplefilter("ignore")
    import tilelang
    from tilelang import tvm

    spec = importlib.util.spec_from_file_location("septran_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["septran_kernel"] = module
    hip = arch.startswith("gfx")
    target = {"kind": "hip", "mcpu": arch} if hip else {"kind": "cuda", "arch": arch}
    try:
        spec.loader.exec_module(module)
        with tvm.target.Target(target):
            lowered = tilelang.lower(getattr(module, entry), target=target)
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    Path(out).write_text(lowered.kernel_source, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
