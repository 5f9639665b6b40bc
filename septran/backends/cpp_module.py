"""A built cpp kernel as a Python callable on torch CPU tensors, without copying.

The same file is compiled either with the mini pybind11 of cpp_runtime/ (a second; for trying) or with the
real pybind11 (about eight seconds; for the kernel that is kept). Building it runs a compiler only;
loading it puts generated machine code into this process, so load only what has been verified.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from septran.backends.base import Built
from septran.backends.cpp_emit import runtime_folder
from septran.backends.process import Run, run
from septran.backends.toolchains import compile_shared, cpp_compiler, flags_for
from septran.errors import InputError
from septran.kernel import Kernel


def build_module(kernel: Kernel, folder: Path, *, mini: bool = False, runner: Run = run) -> Built:
    """Compile the kernel as an extension module `folder/<name>.so`.

    mini: with the small header instead of the installed pybind11.
    """
    compiler = cpp_compiler(kernel.arch or "native")
    if compiler is None:
        return Built(ok=False, artifact=None, log="no C++ compiler on PATH")
    if mini:
        headers = runtime_folder() / "mini_pybind11"
        version = (headers / "pybind11" / "pybind11.h").read_text(encoding="utf-8")
    else:
        import pybind11

        headers, version = Path(pybind11.get_include()), pybind11.__version__
    includes = [f"-I{headers}", f"-I{sysconfig.get_paths()['include']}"]
    name = _module_name(kernel)
    return compile_shared(
        kernel.files,
        kernel.main,
        folder,
        compiler=compiler,
        flags=[*flags_for(kernel.arch or "native"), *includes, f"-DSEPTRAN_PYBIND={name}"],
        output=f"{name}.so",
        extra=version,
        runner=runner,
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


def checked(
    call: Callable[..., None], kernel: Kernel, *, device: str = "cpu"
) -> Callable[..., None]:
    """Return `call` with every argument checked first; the check costs well under 1 us per call.

    device: torch's word for where the tensors must be, "cpu" or "cuda".
    """
    import torch

    # One expression without loops: a loop over tuples would cost as much as the call itself.
    names = [f"t{at}" for at in range(len(kernel.params))]
    tests: list[str] = []
    scope: dict[str, Any] = {"call": call}
    for at, param in enumerate(kernel.params):
        scope[f"dtype{at}"] = getattr(torch, param.dtype)
        scope[f"shape{at}"] = torch.Size(param.shape)
        tests.append(
            f"t{at}.dtype is dtype{at} and t{at}.shape == shape{at} and t{at}.is_contiguous() "
            f"and t{at}.is_{device}"
        )

    def explain(*tensors: Any) -> InputError:
        return _explain(kernel, tensors, device)

    scope["explain"] = explain
    text = (
        f"def run(*tensors):\n"
        f"    try:\n"
        f"        {', '.join(names)}, = tensors\n"
        f"        good = {' and '.join(tests)}\n"
        f"    except (ValueError, AttributeError):\n"
        f"        good = False\n"
        f"    if not good:\n"
        f"        raise explain(*tensors)\n"
        f"    call({', '.join(names)})\n"
    )
    exec(compile(text, f"<septran:{kernel.name}>", "exec"), scope)
    made: Callable[..., None] = scope["run"]
    return made


def _explain(kernel: Kernel, tensors: tuple[Any, ...], device: str) -> InputError:
    import torch

    wanted = ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in kernel.params)
    found = f"kernel {kernel.name} takes {len(kernel.params)} tensors, got {len(tensors)}"
    if len(tensors) == len(kernel.params):
        for param, tensor in zip(kernel.params, tensors, strict=True):
            if not isinstance(tensor, torch.Tensor):
                found = f"{param.name} is a {type(tensor).__name__}, not a torch tensor"
                break
            if tensor.device.type != device:
                place = "the CPU" if device == "cpu" else "the GPU"
                found = f"{param.name} is on {tensor.device}, this kernel runs on {place}"
                break
            dtype = str(tensor.dtype).removeprefix("torch.")
            if dtype != param.dtype or tuple(tensor.shape) != param.shape:
                found = f"{param.name} is {dtype}{list(tensor.shape)}, not {param.dtype}{list(param.shape)}"
                break
            if not tensor.is_contiguous():
                found = f"{param.name} is not contiguous: strides {list(tensor.stride())}"
                break
    error = InputError.of("K001", found, notes=(f"the kernel was made for {wanted}",))
    assert isinstance(error, InputError)
    return error


def _module_name(kernel: Kernel) -> str:
    return f"septran_{kernel.sha}"
