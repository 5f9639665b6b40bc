"""The entry of a Python file with `load_inline`, of any target, and its sources as one file that the judge calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from septran.backends.base import Host, HostCall, Unjudged
from septran.backends.judged.c_foreign import ENTRY, plain_kernel
from septran.backends.judged.c_hosts import COPY
from septran.backends.judged.inline_forward import Forward
from septran.backends.judged.inline_text import Extension
from septran.backends.judged.python_file import MODULE, host_params
from septran.backends.judged.torch_text import TorchFunction, call_text, entry, torch_functions
from septran.backends.text.python_host import any_function, module_class
from septran.kernel import Kernel, KernelParam


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineHosts:
    """How such files are read for one target. read: the text of a file -> its sources. entries: of their text.

    backend, suffix: of the kernel that they become. flags: of its own build, which no card needs to name. copy: as `c_hosts.in_place`.
    """

    read: Callable[[str], Extension]
    entries: Callable[[str], tuple[TorchFunction, ...]]
    backend: str
    suffix: str
    flags: tuple[str, ...] = ()
    copy: str = COPY

    def hosts(self, text: str) -> tuple[Host, ...]:
        """Return the class `ModelNew`, else the functions on tensors that may be entries and that the extension offers."""
        if (found := self.host(text, MODULE)) is not None:
            return (found,)
        read = self.read(text)
        offered = set(read.offered.values())
        return tuple(f.host() for f in self.entries(read.text) if not offered or f.name in offered)

    def host(self, text: str, name: str) -> Host | None:
        """Return the module class, the C++ function or the Python function `name`."""
        if (made := module_class(text, name)) is not None:
            return Host(name=name, line=made.line, params=host_params(made.params), module=True)
        for function in torch_functions(self.read(text).text):
            if function.name == name:
                return function.host()
        if (found := any_function(text, name)) is not None:
            return Host(name=name, line=found.line, params=host_params(found.params))
        return None

    def kernel(
        self, text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
    ) -> tuple[Kernel, tuple[str, ...]]:
        """Return the sources as one file with the judge's entry after it.

        Raises:
            Unjudged: the entry's Python does more than call the extension.
        """
        read = self.read(text)
        more, run = "", ""
        if call.host.module:
            forward = Forward(text, read.offered, call, params)
            more, run = forward.function(), forward.call(self.copy)
        elif any(f.name == call.host.name for f in torch_functions(read.text)):
            run = call_text(call, params, self.copy)
        else:
            raise Unjudged(
                call.host.line, f"{call.host.name}, which is no function of the extension"
            )
        last = entry(ENTRY, params, run, returns=call.returns, more=more)
        found = plain_kernel(read.text, last, call, params, self.backend, arch, self.suffix)
        return found, ("all of its Python, which was read and not run", *self.told(read))

    def told(self, read: Extension) -> tuple[str, ...]:
        """Return what is told of flags that the judge did not give."""
        flags = tuple(f for f in read.flags if f.strip() not in self.flags)
        return (f"flags of its build, {' '.join(flags)}: judged without them",) if flags else ()
