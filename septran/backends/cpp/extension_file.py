"""C++ files that are extensions by themselves (`#include <torch/extension.h>`): host functions on torch's tensors, for the processor.

Built, watched and restricted as the C++ of a `load_inline` is (`cpp/inline.py`); the entry is a function of the file.
"""

from __future__ import annotations

import re
from dataclasses import replace

from septran.backends.base import Host, HostCall, Unjudged
from septran.backends.cpp.foreign import FOREIGN as PLAIN
from septran.backends.cpp.foreign import readings
from septran.backends.cpp.inline import FOREIGN as INLINE
from septran.backends.cpp.inline import OWN_WORK, beyond
from septran.backends.judged.c_builds import elsewhere, threads
from septran.backends.judged.c_conditions import asks_its_judge
from septran.backends.judged.c_foreign import ENTRY, plain_kernel
from septran.backends.judged.c_sizes import sizes_asked
from septran.backends.judged.torch_text import call_text, entry, on_torch, torch_functions, uncalled
from septran.kernel import Kernel, KernelParam


def _hosts(text: str) -> tuple[Host, ...]:
    """Return the functions on tensors that no other such function calls."""
    return tuple(f.host() for f in uncalled(text))


def _host(text: str, name: str) -> Host | None:
    return next((f.host() for f in torch_functions(text) if f.name == name), None)


def _kernel(
    text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the file with the judge's entry after it.

    Raises:
        Unjudged: it has torch compute.
    """
    if names := beyond(text):
        place = re.search(rf"\b(?:torch|at|c10)::{names[0]}\b", text)
        line = 1 + text.count("\n", 0, place.start()) if place else call.host.line
        spelled = place[0] if place else names[0]
        raise Unjudged(line, f"{spelled} of torch's own library: {OWN_WORK}")
    run = call_text(call, params)
    judged = entry(ENTRY, params, run, returns=call.returns)
    return plain_kernel(text, judged, call, params, "cpp", arch, ".cpp"), ()


FOREIGN = replace(
    INLINE,
    suffixes=PLAIN.suffixes,
    marks=(),
    claims=on_torch,
    hosts=_hosts,
    host=_host,
    kernel=_kernel,
    readings=readings,
    threads=threads,
    elsewhere=elsewhere,
    sizes=sizes_asked,
    unsupported=asks_its_judge,
)
