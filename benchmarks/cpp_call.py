"""What a call from Python costs beyond the C function: `python benchmarks/cpp_call.py`."""

from __future__ import annotations

import sys
import tempfile
import timeit
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from septran.backends.cpp.toolchain import build_module, load_module
from tests.backends.cpp import programs as P


def best(f, *args) -> float:
    timer = timeit.Timer(lambda: f(*args))
    return min(timer.repeat(20, 5000)) / 5000


def main() -> None:
    add = (P.prim("map", "Z", named={"x": "X", "y": "Y"}, expr="x + y"),)
    tensors = dict.fromkeys("ZXY", ((4, 4), "float32"))
    kernel = P.kernel_of(P.leaf_program(add, tensors, ("Z",)))
    with tempfile.TemporaryDirectory() as folder:
        built = build_module(kernel, Path(folder))
        assert built.ok, built.log
        call = load_module(built, kernel)
        raw = call.__globals__["call"]
        z, x, y = (torch.ones(4, 4) for _ in range(3))
        addresses = [t.data_ptr() for t in (z, x, y)]
        floor = best(lambda *a: None, z, x, y)
        print(
            f"built in {built.seconds:.1f} s; 4x4 add: "
            f"checked call {1e9 * (best(call, z, x, y) - floor):.0f} ns, "
            f"tensors {1e9 * (best(raw, z, x, y) - floor):.0f} ns, "
            f"addresses {1e9 * (best(raw, *addresses) - floor):.0f} ns"
        )


if __name__ == "__main__":
    main()
