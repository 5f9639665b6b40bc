"""Build the static host: its own object once per machine, then one link per kernel.

The kernel's object is compiled once; the shared library that users load and the host that judges it are linked
from that same object. All names of it but the entry become local, its allocations go to the host's.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from septran.errors import EnvironmentProblem
from septran.intact import intact, seal
from septran.own_tool import run_tool

_HERE = Path(__file__).resolve().parent
_FLAGS = ("-std=gnu11", "-O3", "-fopenmp", "-fpie", "-Wall")
_STATIC = ("-static", "-no-pie", "-fopenmp", "-Wl,-z,noexecstack", "-Wl,-z,relro,-z,now")
_MOVABLE = ("-static-pie", *_STATIC[2:])
# what asks for memory; `x` becomes the host's `st_x`
_REDIRECTED = (
    *("malloc", "free", "calloc", "realloc", "aligned_alloc", "posix_memalign"),
    *("_Znwm", "_Znam", "_ZnwmSt11align_val_t", "_ZnamSt11align_val_t"),
    *("_ZdlPv", "_ZdlPvm", "_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t"),
    *("_ZdaPv", "_ZdaPvm", "_ZdaPvSt11align_val_t", "_ZdaPvmSt11align_val_t"),
)
# of a file that SepTran did not write: what prints
SILENCED = (
    *("printf", "__printf_chk", "fprintf", "__fprintf_chk", "puts", "putchar"),
    *("fputs", "fputc", "fwrite", "fflush"),
)
NAME = re.compile(r"[A-Za-z_]\w*")
_CPU_S = 120
_OWN_HEADER = re.compile(r'^#include "([\w.]+)"', re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostObject:
    """The compiled host, or why there is none here."""

    path: Path | None
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a kernel of this target calls, as C or C++: a simulator of its machine.

    files: names and texts. units: those that are compiled. calls: the names that a kernel may use; hooks: those that
    the host calls.
    """

    files: tuple[tuple[str, str], ...]
    units: tuple[str, ...]
    calls: frozenset[str]
    flags: tuple[str, ...]
    hooks: frozenset[str] = frozenset()


def host_object(
    compiler: str,
    cache: Path,
    machine_features: str,
    *,
    objcopy: str = "objcopy",
    emulated: bool = False,
) -> HostObject:
    """Return the host's object for this machine, compiled into `cache` on first use.

    compiler: the C++ compiler whose C brother compiles it. machine_features: what `-march=native` depends on.
    emulated: for another processor, of which `compiler` and `objcopy` are. Its emulator is confined in its place.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return HostObject(path=None, missing=f"none for {platform.system()} {platform.machine()}")
    if shutil.which(objcopy) is None:
        return HostObject(path=None, missing=f"no {objcopy} here")
    headers = [
        (_HERE / name).read_text(encoding="utf-8") for name in ("host.h", "settings.h", "moved.h")
    ]
    header = "".join(headers) + machine_features
    flags = ("-x", "c", *_FLAGS, "-DST_EMULATED" if emulated else "-march=native")
    return trusted_object(compiler, _HERE / "host.c", flags, cache, extra=header)


def trusted_object(
    compiler: str,
    source: Path,
    flags: Sequence[str],
    cache: Path,
    *,
    extra: str = "",
    shared: bool = False,
) -> HostObject:
    """Return SepTran's own `source` compiled, from `cache` where it is there.

    extra: what else it depends on. shared: linked as a library, in place of an object.
    """
    digest = hashlib.sha256(source.read_bytes())
    for header in _OWN_HEADER.findall(source.read_text(encoding="utf-8")):
        digest.update((source.parent / header).read_bytes())
    for part in (compiler, *flags, extra):
        digest.update(part.encode() + b"\0")
    kept = cache / f"{source.stem}-{digest.hexdigest()[:32]}{'.so' if shared else '.o'}"
    step = "-shared" if shared else "-c"
    return _compiled([compiler, *flags, step, str(source)], kept, {})


def trusted_library(compiler: str, runtime: Runtime, cache: Path, *, extra: str = "") -> HostObject:
    """Return SepTran's own `runtime` as one object whose only names are its calls, from `cache` where it is there."""
    digest = hashlib.sha256()
    texts = [part for pair in runtime.files for part in pair]
    names = sorted(runtime.calls | runtime.hooks)
    for part in (compiler, *runtime.flags, extra, *texts, *runtime.units, *names):
        digest.update(part.encode() + b"\0")
    kept = cache / f"runtime-{digest.hexdigest()[:32]}.o"
    keep = " ".join(f"--keep-global-symbol={name}" for name in names)
    # without groups: a kernel's copy of an inline function may not stand in for the runtime's
    whole = ["-r", "-nostdlib", "-Wl,--force-group-allocation"]
    step = f"{shlex.join([compiler, *runtime.flags, *whole, *runtime.units])} -o all.o"
    return _compiled(
        ["/bin/sh", "-c", f'{step} && objcopy {keep} all.o "$2"', "sh"], kept, dict(runtime.files)
    )


def _compiled(command: Sequence[str], kept: Path, files: Mapping[str, str]) -> HostObject:
    """Run `command -o OBJECT` among `files` and keep the object."""
    if intact(kept):
        return HostObject(path=kept)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            for name, text in files.items():
                Path(folder, name).write_text(text, encoding="utf-8")
            made = Path(folder) / "made.o"
            done = run_tool([*command, "-o", str(made)], cpu_s=_CPU_S, cwd=Path(folder))
            if done.returncode:
                why = done.stderr.strip().splitlines() or ["no output"]
                return HostObject(path=None, missing=f"it does not compile here: {why[-1][:200]}")
            made.replace(kept)
            seal(kept)
    except OSError as error:
        return HostObject(path=None, missing=str(error)[:200])
    return HostObject(path=kept)


def link_commands(
    compiler: str,
    kernel: str,
    entry: str,
    host: Path,
    output: str,
    runtime: str = "",
    *,
    objcopy: str = "objcopy",
    foreign: bool = False,
) -> str:
    """Return the shell text that links object `kernel`, and object `runtime`, with the host into `output`.

    foreign: SepTran did not write it: what it prints goes nowhere, and what it would run when it is loaded the host runs.
    """
    assert NAME.fullmatch(entry), entry
    words = " ".join(f"--redefine-sym {name}=st_{name}" for name in _REDIRECTED)
    quoted = shlex.quote(compiler)
    more = marked = ""
    if foreign:
        marked = "-Wl,--defsym,st_foreign=1 "
        more = " ".join(f"--redefine-sym {name}=st_{name}" for name in SILENCED)
        more += " --rename-section .init_array=st_init"
    steps = []
    if foreign:
        # without groups: its copies of the C++ library's inline functions are local, and may not stand in for the library's own
        steps.append(f"{quoted} -r -nostdlib -Wl,--force-group-allocation {kernel} -o host_whole.o")
        kernel = "host_whole.o"
    steps.append(f"{objcopy} --keep-global-symbol={entry} {words} {more} {kernel} host_kernel.o")
    objects = "host_kernel.o"
    if runtime:
        steps.append(f"{objcopy} {words} {runtime} host_runtime.o")
        objects += " host_runtime.o"
    tail = f"{marked}-Wl,--defsym,st_entry={entry} {shlex.quote(str(host))} {objects} -o {output} -lm 2>/dev/null"
    link = f"{quoted} {' '.join(_STATIC)} {tail}"
    if foreign and not runtime:
        # at addresses like a library's, which tell it nothing; where the toolchain has no such programs, at fixed ones
        link = f"{{ {quoted} {' '.join(_MOVABLE)} {tail} || {link}; }}"
    steps.append(link)
    return f"{' && '.join(steps)}; rm -f {objects} host_whole.o"


def null_program(compiler: str, host: HostObject, cache: Path) -> Path | None:
    """Return a host with an entry that returns at once, linked into `cache` on first use."""
    if host.path is None:
        return None
    kept = cache / f"null-{host.path.stem}"
    if intact(kept):
        return kept
    text = "void st_entry(void *const *args) { (void)args; }\n"
    try:
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "null"
            unit = made.with_suffix(".o")
            for step in (
                ["-x", "c", "-O2", "-fno-pie", "-c", "-", "-o", str(unit)],
                [*_STATIC, str(host.path), str(unit), "-o", str(made), "-lm"],
            ):
                if run_tool([compiler, *step], cpu_s=_CPU_S, given=text).returncode:
                    return None
            made.replace(kept)
            seal(kept)
    except (OSError, EnvironmentProblem):
        return None
    return kept
