"""Child process: lower one NPUIR kernel file with tilelang's `ascend` target, without any device.

usage: ascend_child.py KERNEL.py ENTRY OUT     (KERNEL.py is written for ascend_forms.T)
"""

import importlib.util
import sys
import warnings
from pathlib import Path

NO_TARGET = 77


def main(path: str, entry: str, out: str) -> int:
    """Lower `entry` of `path` into `out`; 77 when this tilelang has no such target."""
    warnings.simplefilter("ignore")
    try:
        import tilelang
        import tilelang.ascend.language
        from tilelang import tvm

        target = tvm.target.Target({"kind": "ascend"})
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return NO_TARGET
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    spec = importlib.util.spec_from_file_location("septran_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["septran_kernel"] = module
    try:
        spec.loader.exec_module(module)
        with target:
            lowered = tilelang.lower(getattr(module, entry), target=target)
    except Exception as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    Path(out).write_text(lowered.kernel_source, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
