"""C++ and CUDA C++ whose host functions take torch's tensors (`#include <torch/extension.h>`): its functions, and the judge's entry."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from septran.backends.base import Host, HostCall, HostParam, Passed
from septran.backends.judged.c_host import blank, heads, literal
from septran.backends.judged.c_hosts import COPY, in_place
from septran.ir.brackets import split_top
from septran.kernel import KernelParam

INCLUDE = Path(__file__).resolve().parent / "include"
"""What stands for torch's tensors on every target; a target's own `torch/extension.h` says what memory is."""
MARKS = ("torch/extension.h", "torch::Tensor", "at::Tensor", "torch/torch.h", "ATen/ATen.h")
_TENSOR = re.compile(r"\b(?:torch|at)::Tensor(?:List)?\b")
_NAMED = re.compile(r"\b(?:torch|at|c10)::(?!cuda\b|detail\b)(\w+)")
_BINDING = re.compile(r"\.def\(\s*\"(\w+)\"\s*,\s*&?\s*(?:\w+::)*(\w+)")
_KINDS = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int32": "Int",
    "int64": "Long",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}
_KNOWN = frozenset(
    """
    Tensor TensorList TensorOptions ScalarType Device DeviceType IntArrayRef ArrayRef Half BFloat16 optional nullopt Layout MemoryFormat
    empty full zeros ones empty_like zeros_like ones_like full_like dtype device toString elementSize CppTypeToScalarType
    kFloat kFloat32 kDouble kFloat64 kHalf kFloat16 kBFloat16 kInt kInt32 kLong kInt64 kShort kChar kInt8 kByte kUInt8 kBool
    kCUDA kCPU kStrided PackedTensorAccessor32 PackedTensorAccessor64 RestrictPtrTraits DefaultPtrTraits
    """.split()
)
"""what include/tensors offers of torch's namespaces"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFunction:
    """A host function on tensors. params: (name, has a default). body: its text, comments made empty."""

    name: str
    line: int
    params: tuple[tuple[str, bool], ...]
    body: str

    def host(self) -> Host:
        """Return it as `Foreign.hosts` gives it."""
        params = tuple(HostParam(name=n, default=d) for n, d in self.params)
        return Host(name=self.name, line=self.line, params=params)


def on_torch(text: str) -> bool:
    """Whether the text's host functions are written against torch."""
    return any(mark in text for mark in MARKS)


def torch_functions(text: str) -> tuple[TorchFunction, ...]:
    """Return the functions at file level that take or return a tensor."""
    found = []
    for head in heads(text):
        device = "__global__" in head.before or "__device__" in head.before
        if device or not _TENSOR.search(f"{head.before} {head.params}"):
            continue
        params = tuple(_param(p) for p in split_top(head.params, "<") if p.strip())
        found.append(TorchFunction(name=head.name, line=head.line, params=params, body=head.body))
    return tuple(found)


def uncalled(text: str) -> tuple[TorchFunction, ...]:
    """Return the functions on tensors that no other such function calls."""
    found = {f.name: f for f in torch_functions(text)}  # a declaration may come before
    called = {g for g in found for f in found.values() if f.name != g and _calls(f, g)}
    return tuple(f for f in found.values() if f.name not in called)


def _calls(function: TorchFunction, name: str) -> bool:
    return re.search(rf"\b{name}\s*\(", function.body) is not None


def launching(text: str) -> tuple[TorchFunction, ...]:
    """Return the functions on tensors that launch, also through others, and that no other such function calls."""
    found = torch_functions(text)
    bodies = {h.name: h.body for h in heads(text)}
    reached = {n for n, body in bodies.items() if "<<<" in body}
    grew = True
    while grew:
        more = {n for n, b in bodies.items() if any(re.search(rf"\b{r}\b", b) for r in reached)}
        grew = bool(more - reached)
        reached |= more
    hosts = [f for f in found if f.name in reached]
    inner = {g.name for f in hosts for g in hosts if g is not f and _calls(f, g.name)}
    return tuple(f for f in hosts if f.name not in inner)


def bindings(text: str) -> dict[str, str]:
    """Return Python name -> function of a `PYBIND11_MODULE`."""
    return dict(_BINDING.findall(text))


def computes_with_torch(text: str) -> tuple[str, ...]:
    """Return the names of torch that are no allocation, view or check: what they do no kernel of the file does."""
    return tuple(f"torch::{name} of torch's own library" for name in of_torch(text))


def of_torch(text: str, known: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the names in torch's namespaces that are none of those every target has, nor of `known`."""
    names = (n for n in _NAMED.findall(blank(text)) if n not in _KNOWN and n not in known)
    return tuple(dict.fromkeys(names))


def entry(
    name: str,
    params: tuple[KernelParam, ...],
    run: str,
    *,
    returns: bool,
    more: str = "",
) -> str:
    """Return the judge's `extern "C"` function, which wraps its addresses as tensors and takes results back.

    run: the expression that is evaluated, on a device in every order of threads, of `tensor_word`s. more: text before the function.
    """
    written = ", ".join(
        f"{{args[{i}], {_bytes(p)}}}" for i, p in enumerate(params) if p.privilege != "r"
    )
    wanted = ", ".join(
        f'{{"{p.name}", args[{i}], {_kind(p)}, {_sizes(p)}}}'
        for i, p in enumerate(params)
        if p.privilege != "r"
    )
    call = f"septran_tensors::give({run}, std::vector<septran_tensors::Wanted>{{{wanted}}})"
    return (
        f'\n#include "tensors/results.h"\n{more}'
        f'extern "C" __attribute__((visibility("default"))) void {name}(void* const* args) {{\n'
        f"    septran_tensors::judged({{{written}}}, [&] {{ {call if returns else run}; }});\n}}\n"
    )


def tensor_word(name: str, params: tuple[KernelParam, ...]) -> str:
    """Return the C++ expression of a tensor of the problem."""
    i, p = next((i, p) for i, p in enumerate(params) if p.name == name)
    return f"at::Tensor(static_cast<char*>(args[{i}]), {_kind(p)}, std::vector<int64_t>{_sizes(p)})"


def call_text(call: HostCall, params: tuple[KernelParam, ...], copy: str = COPY) -> str:
    """Return the call of a host function on tensors, an expression. copy: as `c_hosts.in_place`."""
    called = f"{call.host.name}({', '.join(argument(a, params) for a in call.args)})"
    before = in_place(call, params, copy)
    return f"({before}{called})" if before else called


def argument(passed: Passed, params: tuple[KernelParam, ...]) -> str:
    """Return an argument as a C++ expression."""
    if passed.many:
        words = [argument(one, params) for one in passed.items]
        kinds = {type(one.value) for one in passed.items if not one.param}
        whole = kinds <= {int, bool} and kinds
        kind = "double" if kinds and not whole else "int64_t" if kinds else "at::Tensor"
        return f"std::vector<{kind}>{{{', '.join(words)}}}"
    return tensor_word(passed.param, params) if passed.param else literal(passed.value)


def _bytes(p: KernelParam) -> str:
    return f"{math.prod(p.shape)} * c10::elementSize({_kind(p)})"


def _kind(p: KernelParam) -> str:
    return f"c10::ScalarType::{_KINDS[p.dtype]}"


def _sizes(p: KernelParam) -> str:
    return f"{{{', '.join(map(str, p.shape))}}}"


def _param(text: str) -> tuple[str, bool]:
    before, equals, _ = text.partition("=")
    words = re.findall(r"\w+", before)
    return (words[-1] if words else "", bool(equals))
