"""A built cpp kernel as a Python callable on torch CPU tensors, without copying.

The module is the object that was judged and a little glue (about eight seconds, for pybind11's templates). Building
it runs a compiler only; loading it puts generated machine code into this process, so load only what has been verified.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sysconfig
from collections.abc import Callable
from pathlib import Path

from septran.backends.base import Built
from septran.backends.cpp.emit import module_text, runtime_folder
from septran.backends.toolchain.compilers import cpp_compiler, flags_for
from septran.backends.toolchain.hosted import Glue, compile_hosted
from septran.backends.toolchain.torch_call import checked
from septran.kernel import Kernel

_GLUE_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden")


def build_module(kernel: Kernel, folder: Path) -> Built:
    """Link the kernel's object, the one that was judged, and a Python module's glue into `folder/<name>.so`."""
    import pybind11

    arch = kernel.arch or "native"
    compiler = cpp_compiler(arch)
    if compiler is None:
        return Built(ok=False, artifact=None, log="no C++ compiler on PATH")
    name = _module_name(kernel)
    includes = (f"-I{pybind11.get_include()}", f"-I{sysconfig.get_paths()['include']}")
    glue = Glue(
        text=module_text(kernel),
        flags=(*_GLUE_FLAGS, *includes, f"-DSEPTRAN_PYBIND={name}"),
        output=f"{name}.so",
        extra=pybind11.__version__,
    )
    return compile_hosted(
        kernel,
        folder,
        compiler=compiler,
        flags=flags_for(arch),
        support=runtime_folder() / "scratch.cpp",
        glue=glue,
    )


def load_module(built: Built, kernel: Kernel) -> Callable[..., None]:
    """Return `call(*tensors)`: tensors in `kernel.params` order, results written in place.

    Raises:
        InputError: K001 when a tensor's number, dtype, shape, device or layout is not the kernel's.
    """
    assert built.ok and built.artifact is not None, "load_module needs a kernel that was built"
    name = _module_name(kernel)
    loader = importlib.machinery.ExtensionFileLoader(name, str(built.artifact))
    spec = importlib.util.spec_from_file_location(name, built.artifact, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return checked(module.call, kernel)


def _module_name(kernel: Kernel) -> str:
    return f"septran_{kernel.sha}"
