"""What Python files of any target share that SepTran did not write: what they may say, how they become a Kernel."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from septran.backends.base import Built, Host, HostCall, HostParam, OnDevice, Reading, as_it_is
from septran.backends.judged.python_versions import other_versions
from septran.backends.text.python_host import (
    NO_STARS,
    Stars,
    any_function,
    autograd_class,
    changed_inside,
    module_class,
    needed,
)
from septran.backends.text.python_rules import Rules, objections
from septran.kernel import Kernel, KernelParam

MODULE = "ModelNew"
"""the class that benchmarks of modules ask for"""
_MAIN = "judged_kernel.py"
_APPLIED = "septran_applied"
"""what an autograd function that is judged itself is called through"""
_CHILD = Path(__file__).resolve().parent / "child"

IMPORTS = frozenset(
    """
    __future__ torch torch.nn torch.nn.functional torch.autograd torch.cuda math typing functools itertools dataclasses
    enum collections collections.abc operator contextlib warnings logging
    """.split()
)
NAMES = frozenset(
    """
    exec eval compile __import__ open input globals locals vars breakpoint memoryview __builtins__ __loader__
    __spec__ getattr setattr delattr exit quit id hash dir __file__ __name__ __debug__ __package__ __doc__
    """.split()
)
ATTRIBUTES = frozenset(
    """
    torch.__version__ triton.__version__ tilelang.__version__ torch.version.cuda torch.version.git_version torch.version.debug
    torch.backends torch.get_float32_matmul_precision torch.initial_seed torch.accelerator torch.is_autocast_enabled
    torch.is_autocast_cpu_enabled torch.get_autocast_dtype torch.get_autocast_gpu_dtype torch.compiler.is_compiling
    torch.compiler.is_dynamo_compiling torch.compiler.is_exporting torch.get_default_dtype torch.get_default_device
    torch.is_inference_mode_enabled is_inference torch.is_deterministic_algorithms_warn_only_enabled
    torch.seed torch.random torch.get_rng_state torch.get_num_threads torch.get_num_interop_threads torch.set_num_threads torch.set_num_interop_threads torch.cuda.memory_allocated
    torch.cuda.max_memory_allocated torch.cuda.memory_reserved torch.cuda.max_memory_reserved torch.cuda.mem_get_info
    torch.cuda.memory_stats torch.cuda.memory_summary torch.cuda.memory torch.cuda.is_initialized torch.cuda.device_count
    torch.cuda.get_arch_list torch.cuda.utilization torch.cuda.temperature torch.cuda.power_draw torch.cuda.clock_rate
    torch.cuda.get_rng_state torch.cuda.initial_seed torch.are_deterministic_algorithms_enabled triton.testing.do_bench
    elapsed_time is_pinned __code__
    torch.utils torch.overrides torch.library torch.ops torch.hub torch.multiprocessing torch.distributed torch.load
    torch.save torch.from_numpy torch.frombuffer torch.compile torch.jit torch.fx
    numpy from_blob storage untyped_storage f_globals f_locals f_back gi_frame cr_frame tb_frame
    """.split()
)
"""imports, names and attributes (see `text.python_host.Rules`) of host functions on torch, whatever launches"""
UNMODELLED = frozenset(
    "torch.compile torch.jit torch.fx torch.library torch.ops torch.distributed torch.utils".split()
)
"""of these attributes those that honest hosts use, too: what torch makes of a function, or knows by a name"""
_ASKS_DEVICE = re.compile(
    r"\b(?:get_device_(?:name|capability|properties)|get_current_target(?!\(\)\.backend\b)|multi_?processor_?count|get_num_sms|total_memory|max_shared_mem)\b"
)


def readings(text: str, archs: tuple[tuple[str, str], ...]) -> tuple[Reading, ...]:
    """Return a file once for each device when it asks which one it is on, and for each version that it may tell from what is installed.

    archs: (device, arch of the target), the card first.
    """
    plain = as_it_is(text)
    if _ASKS_DEVICE.search(text):
        plain = tuple(Reading(f"the device is {device}", text, arch) for device, arch in archs)
    versions = other_versions(text)
    if versions and not plain[0].devices:
        plain = (replace(plain[0], devices="packages are as installed"),)
    return (*plain, *versions)


def between_calls(text: str, entry: str) -> tuple[str, ...]:
    """Return the names at module level whose objects the entry's functions change."""
    return changed_inside(needed(text, entry)[0])


def host_params(found: tuple[tuple[str, bool], ...]) -> tuple[HostParam, ...]:
    """Return parameters as `text.python_host` finds them."""
    return tuple(
        HostParam(
            name=name.lstrip("="),
            default=default,
            many=name.startswith("*"),
            keyword=name.startswith("="),
        )
        for name, default in found
    )


def host(text: str, name: str) -> Host | None:
    """Return the module or function `name`, None when the file has none at module level."""
    applied = autograd_class(text, name)
    module = None if applied else module_class(text, name)
    found = applied or module or any_function(text, name)
    if found is None:
        return None
    params = host_params(found.params)
    return Host(
        name=name, line=found.line, params=params, module=module is not None, gives=found.gives
    )


def as_kernel(
    text: str,
    call: HostCall,
    params: tuple[KernelParam, ...],
    arch: str,
    *,
    backend: str,
    stars: Stars = NO_STARS,
    made: Callable[[str, Host], str] = lambda text, host: "",
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file as a Kernel, reduced to what its host function needs, and the lines that were left out.

    made: how what is called comes from the entry: "factory", it is called with numbers first; "eager", with both at once; "" it is called.
    """
    kept, left = needed(text, call.host.name, stars)
    entry = call.host.name
    if autograd_class(text, entry) is not None:
        kept, entry = f"{kept}{_APPLIED} = {entry}.apply\n", _APPLIED
    found = Kernel(
        name=call.host.name,
        backend=backend,
        arch=arch,
        entry=entry,
        params=params,
        main=_MAIN,
        files=(),
        leaves=(),
    )
    return called_from_python(found, kept, call, made(text, call.host)), left


def called_from_python(kernel: Kernel, python: str, call: HostCall, made: str = "") -> Kernel:
    """Return a kernel whose entry is one of the text `python`; files that it has besides stay. made: as of `as_kernel`."""
    plan = {
        "args": [asdict(a) for a in call.args],
        "returns": call.returns,
        "made_with": [asdict(a) for a in call.made_with],
        "state": call.state,
        "allow_torch": call.allow_torch,
        "made": made,
    }
    return replace(
        kernel,
        main=_MAIN,
        files=((_MAIN, python), *kernel.files),
        options=(("call", json.dumps(plan)),),
    )


def refusals(text: str, entry: str, *, rules: Rules) -> tuple[tuple[str, str, int], ...]:
    """Return what the part of the file that would run may not say."""
    return objections(needed(text, entry, rules.stars)[0], rules)


def lay_torch_host(folder: Path, *more: str) -> None:
    """Write torch's side of a host function into `folder`, from which its child imports it; more: what else lies beside it."""
    for name in (
        "torch_host",
        "torch_card",
        "torch_lasting",
        "torch_left",
        "torch_mixed",
        "torch_states",
        "versions",
        *more,
    ):
        shutil.copyfile(_CHILD / f"{name}.py", folder / f"septran_{name}.py")


def write_for_device(kernel: Kernel, folder: Path) -> Built:
    """Write the file and what calls it on a GPU; the DSL compiles it there, when it is called."""
    main = kernel.write(folder)
    lay_torch_host(folder, "device_host")
    return Built(ok=True, artifact=main, command=f"{kernel.main} on the GPU")


ON_DEVICE = OnDevice(
    vendor="nvidia",
    build=write_for_device,
    loader="python_device.py.j2",
    # compilers are started when a kernel is first called
    session=(("forks", True),),
)
"""how Python files run on a GPU, whatever launches"""
