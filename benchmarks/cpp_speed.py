"""What the `speed:` section of a cpp machine file needs, measured on this processor with the library's own functions.

    python benchmarks/cpp_speed.py 3.79      the argument: GHz of a core while it works

Prints cycles of an element-wise operation on one vector, and bytes a cycle at several sizes; the peak of products is
that of `septran/run/roofline_probe.cpp`. Takes about ten seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from septran.toolchain.compilers import cpp_compiler, flags_for

RUNTIME = Path(__file__).resolve().parents[1] / "septran/backends/cpp/runtime"
HEADERS = "cmath cstddef cstdint cstdlib cstring limits type_traits".split()


def main() -> None:
    """Build the probe behind the runtime that kernels have, and run it."""
    compiler = cpp_compiler("native")
    if compiler is None or len(sys.argv) != 2:
        raise SystemExit(__doc__)
    parts = [f"#include <{name}>" for name in HEADERS]
    parts += [
        (RUNTIME / f"{part}.h").read_text()
        for part in ("view", "vec", "vmath", "arena", "copy", "movement")
    ]
    parts.append(Path(__file__).with_suffix(".cpp").read_text())
    with tempfile.TemporaryDirectory() as name:
        source, program = Path(name, "probe.cpp"), Path(name, "probe")
        source.write_text("\n".join(parts))
        flags = [f for f in flags_for("native") if f not in ("-shared", "-fPIC")]
        subprocess.run([compiler.path, *flags, source, "-o", program], check=True)
        subprocess.run([program, sys.argv[1]], check=True)


if __name__ == "__main__":
    main()
