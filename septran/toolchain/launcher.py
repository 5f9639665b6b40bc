"""A C kernel's library as a Python callable on torch CPU tensors, without a build of its own.

One small extension (launch/launch.cpp), built once per machine and Python in under a second, checks the arguments of
any kernel and calls it. Where it cannot be built (no Python headers, a torch without the exchange API) a call goes
through ctypes and is checked in Python: the same errors, some microseconds more.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran.host.link import trusted_object
from septran.kernel import Kernel, KernelParam
from septran.toolchain.compilers import cache_folder, cpp_compiler
from septran.toolchain.launch_type import launch_type, threads_end_at_forks
from septran.toolchain.torch_call import checked, explain

_SOURCE = Path(__file__).with_name("launch") / "launch.cpp"
_HEADERS = tuple(_SOURCE.with_name(name) for name in ("direct.h", "objects.h"))
_NOTHING = _SOURCE.with_name("nothing.c")
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
"""DLPack's codes of types."""
_KINDS = {"r": 0, "w": 1, "rw": 2}


def launchable(kernel: Kernel, library: Path) -> Callable[..., None]:
    """Return `call(*tensors)` for a library that exports the kernel's entry; results are written in place.

    Tensors come in `kernel.params` order. The library is mapped and stays mapped. Where the extension is here, the
    result also has `fresh(*inputs)`, which makes the outputs, and `shaped(shape)` (launch.cpp says more).

    Raises:
        InputError: K001 when a tensor's number, dtype, shape, device or layout is not the kernel's.
    """
    threads_end_at_forks()
    kind = extension()
    params = tuple(map(spec, kernel.params))
    if kind is not None:
        with contextlib.suppress(ValueError):  # more tensors or dims than it has room for
            made: Callable[..., None] = kind(
                str(library), kernel.entry, params, functools.partial(explain, kernel)
            )
            return made
    return checked(_by_ctypes(library, kernel.entry), kernel)


def stand_in(kernel: Kernel) -> Callable[..., None]:
    """Return what `launchable` makes of a kernel like `kernel` that does nothing: what a call itself costs."""
    compiler = cpp_compiler("native")
    if compiler is not None:
        flags = ("-x", "c", "-O2", "-fPIC")
        built = trusted_object(
            compiler.path,
            _NOTHING,
            flags,
            cache_folder() / "host",
            extra=compiler.version,
            shared=True,
        )
        if built.path is not None:
            return launchable(replace(kernel, entry="st_nothing"), built.path)
    return checked(_take_addresses, kernel)


def _take_addresses(*tensors: Any) -> None:
    for tensor in tensors:
        tensor.data_ptr()


@functools.cache
def extension() -> Any:
    """Return the extension's type Launch, None where it cannot be built or torch lacks the exchange API."""
    path = extension_file()
    return None if path is None else launch_type(path)


def extension_file() -> Path | None:
    """Return the extension, built on first use; None where it cannot be."""
    compiler = cpp_compiler("native")
    headers = Path(sysconfig.get_paths()["include"])
    if compiler is None or not (headers / "Python.h").is_file():
        return None
    return trusted_object(
        compiler.path,
        _SOURCE,
        (*_FLAGS, f"-I{headers}"),
        cache_folder() / "host",
        extra=" ".join(
            [
                compiler.version,
                sys.version,
                str(sysconfig.get_config_var("SOABI")),
                *(h.read_text("utf-8") for h in _HEADERS),
            ]
        ),
        shared=True,
    ).path


def spec(param: KernelParam) -> tuple[int, int, tuple[int, ...], int]:
    """Return what the extension is told of a tensor: DLPack's type code, bits, shape, whether it is an input (0), an output (1) or both (2)."""
    found = re.fullmatch(r"([a-z]+)(\d*)", param.dtype)
    assert found is not None, param.dtype
    return _CODES[found[1]], int(found[2] or 8), tuple(param.shape), _KINDS[param.privilege]


def _by_ctypes(library: Path, entry: str) -> Callable[..., None]:
    function = ctypes.CDLL(str(library))[entry]
    function.restype = None

    def call(*tensors: Any) -> None:
        function((ctypes.c_void_p * len(tensors))(*(t.data_ptr() for t in tensors)))

    return call
