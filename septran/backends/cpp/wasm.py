"""C++ kernels as WebAssembly modules (SIMD of 128 bits): built with clang and wasi-libc, judged in wasmtime.

A module has no imports: it computes on its own memory and can reach nothing else.
"""

from __future__ import annotations

import functools
import importlib.util
import shlex
import shutil
import time
from pathlib import Path

from septran.backends.base import Availability, Emulation
from septran.kernel import Kernel
from septran.own_tool import run_tool
from septran.toolchain.built import Built
from septran.toolchain.confined import plain, run_confined

ARCH = "wasm32"
_HEADERS = Path("/usr/include/wasm32-wasi/stdlib.h")
_INSTALL = 'apt-get install clang-19 lld-19 wasi-libc libc++-19-dev-wasm32 libclang-rt-19-dev-wasm32 && pip install "septran[wasm]"'
FLAGS = (
    "--target=wasm32-wasi",
    "-msimd128",
    "-std=c++20",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fno-exceptions",
    "-fno-rtti",
    "-Xclang",
    "-fnative-half-arguments-and-returns",
    "-Wno-unknown-pragmas",
    "-Wno-psabi",
    "-DSEPTRAN_HOSTED",
)
# blocks that grow; what an earlier user left there is overwritten with NaN bits
_SCRATCH = """
#include <stdlib.h>
#include <string.h>
void *st_scratch(int use, unsigned long bytes) {
  static char *block[4];
  static unsigned long room[4];
  if (use < 0 || use > 3) __builtin_trap();
  if (bytes > room[use]) {
    block[use] = realloc(block[use], bytes);
    if (!block[use]) __builtin_trap();
    memset(block[use] + room[use], 0xff, bytes - room[use]);
    room[use] = bytes;
  }
  return block[use];
}
/* the allocator takes all memory that is there when it is first asked, so it is asked before tensors are placed behind it */
void st_begin(void) {
  void *volatile block = malloc(1); /* volatile: the pair would be dropped */
  free(block);
}
int __cxa_thread_atexit(void (*f)(void *), void *object, void *library) { return 0; }
"""


@functools.cache
def _clang() -> str | None:
    """Return the newest clang++ that has the runtime library, the newest one where none has it."""
    versions = range(22, 18, -1)
    found = [tool for v in versions if (tool := shutil.which(f"clang++-{v}")) is not None]
    return next(filter(_has_builtins, found), found[0] if found else None)


@functools.cache
def _has_builtins(clang: str) -> bool:
    """Return whether the compiler finds what it calls for operations that the machine lacks: a package of its own."""
    asked = [clang, "--target=wasm32-wasi", "-rtlib=compiler-rt", "-print-libgcc-file-name"]
    return Path(run_tool(asked, cpu_s=10).stdout.strip()).is_file()


def emulator() -> Emulation | Availability:
    """Return how modules run here, or what is missing."""
    missing = []
    clang = _clang()
    if clang is None:
        missing.append("clang++ 19 or newer")
    elif not _has_builtins(clang):
        missing.append("libclang-rt for wasm32")
    if not _HEADERS.is_file():
        missing.append("wasi-libc")
    if importlib.util.find_spec("wasmtime") is None:
        missing.append("wasmtime")
    if missing:
        return Availability(ok=False, detail=f"no {', no '.join(missing)}", install=_INSTALL)
    # a module's memory is reserved as one range of addresses, most of it never touched
    return Emulation(loader="wasm.py.j2", session=(("address_space", False),))


def build(kernel: Kernel, folder: Path) -> Built:
    """Compile the kernel into `folder`/kernel.wasm, which exports its entry and its memory."""
    clang = _clang()
    if clang is None:
        return Built(ok=False, artifact=None, log=f"no C++ compiler for {ARCH}; {_INSTALL}")
    kernel.write(folder)
    (folder / "scratch.c").write_text(_SCRATCH, encoding="utf-8")
    tool = shlex.quote(clang)
    steps = (
        f"{tool} {shlex.join(FLAGS)} -c ./{shlex.quote(kernel.main)} -o kernel.o",
        f"{tool} -x c --target=wasm32-wasi -O2 -w -c scratch.c -o scratch.o",
        f"{tool} --target=wasm32-wasi -nostartfiles -Wl,--no-entry -Wl,--export=st_begin "
        f"-Wl,--export={shlex.quote(kernel.entry)} "
        "-o kernel.wasm kernel.o scratch.o -lm",
    )
    begun = time.monotonic()
    done = run_confined(["/bin/sh", "-c", " && ".join(steps)], folder, 120.0)
    made = folder / "kernel.wasm"
    ok = done.code == 0 and plain(made)
    return Built(
        ok=ok,
        artifact=made if ok else None,
        log=done.output.replace(f"{folder}/", ""),
        command=" ".join([Path(clang).name, *FLAGS, kernel.main, "-o", made.name]),
        seconds=time.monotonic() - begun,
        not_checked=done.not_enforced,
    )
