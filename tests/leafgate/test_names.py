"""The lists of configs/leaves/ are true: each name exists in the runtime with its kind; each macro list is whole."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from septran import assets
from septran.backends.cuda.toolchain import EMULATOR
from septran.leafgate import names as n
from septran.leafgate.names import language

ROOT = Path(assets.find("configs/gate.yaml").path).resolve().parents[1] / "septran" / "backends"
CPP = "".join(
    f'#include "{ROOT}/cpp/runtime/{part}.h"\n'
    for part in (
        "view",
        "vec",
        "vmath",
        "arena",
        "copy",
        "panels",
        "direct",
        "gemm",
        "taps",
        "winograd",
        "planes",
        "reduce",
    )
)
HEADERS = {
    "cpp": "#include <cmath>\n#include <cstddef>\n#include <cstdint>\n#include <cstdlib>\n#include <cstring>\n#include <limits>\n#include <type_traits>\n" + CPP,
    "cuda": f'#define SEPTRAN_THREADS 256\n#define SEPTRAN_EMULATE\n#include "{ROOT}/cuda/runtime/septran_cuda.cuh"\n#include "{ROOT}/cuda/runtime/st_wgmma.cuh"\n',
    "c": f'#include "{ROOT}/dsa/simulator/vendor_lib.h"\n',
}  # fmt: skip


def compiled(of: str, lines: str, *flags: str) -> subprocess.CompletedProcess[str]:
    tool = "gcc" if of == "c" else "g++"
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")
    standard = ["-xc", "-std=gnu11"] if of == "c" else ["-xc++", "-std=c++20", "-march=x86-64-v3"]
    return subprocess.run(
        [tool, *standard, f"-I{EMULATOR}", f"-I{ROOT}/cuda/runtime", "-w", *flags, "-"],
        input=HEADERS[of] + lines,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("of", ["cpp", "cuda", "c"])
def test_every_name_exists_with_its_kind(of: str) -> None:
    lines = []
    for number, (name, kind) in enumerate(sorted(language(of).kinds.items())):
        full = name.replace("<>", "<float>")
        if kind == n.TYPE:
            lines.append(f"typedef {full} probe{number};")
        elif kind == n.VALUE:
            lines.append(
                f"#ifndef {full}\nvoid probe{number}() {{ (void)({full}); }}\n#endif"
                if "::" not in full
                else f"void probe{number}() {{ (void)({full}); }}"
            )
        elif of == "c":  # a function, or a macro over one
            macro = f"#ifdef {full}\n#else\nvoid *probe{number}(void) {{ return (void *){full}; }}\n#endif"
            lines.append(macro)
        elif kind == n.VALUE_TEMPLATE:
            lines.append(f"auto probe{number} = {full}<st::f32v>;")
        elif kind == n.TYPE_TEMPLATE:
            lines.append(
                f"template <auto... V> void probe{number}(); namespace in{number} {{ using {full}; }}"
                if "::" in full
                else ""
            )
        elif "<" in full:
            lines.append(f"auto probe{number} = &{full};")
        elif full.count("::") == 2:
            space, member = full.rsplit("::", 1)
            lines.append(f"struct probe{number} : {space} {{ using {space}::{member}; }};")
        else:
            text = f"namespace in{number} {{ using {full if '::' in full else '::' + full}; }}"
            lines.append(text if "::" in full else f"#ifndef {full}\n{text}\n#endif")
    done = compiled(of, "\n".join(lines) + "\n", "-fsyntax-only")
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.parametrize("of", ["cpp", "cuda", "c"])
def test_every_macro_of_the_headers_is_listed(of: str) -> None:
    done = compiled(of, "", "-dM", "-E")
    assert done.returncode == 0, done.stderr[:2000]
    found = {line.split()[1].partition("(")[0] for line in done.stdout.splitlines()}
    found = {name for name in found if name[:1] != "_"}
    assert sorted(found - n.macros() - set(language(of).kinds)) == []
