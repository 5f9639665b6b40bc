"""What the judge's entry hands to a host function in C++ or CUDA C++: addresses, numbers, vectors and spans; and what it takes back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from septran.backends.base import HostCall, Passed
from septran.backends.judged.c_host import CFunction, CParam, literal
from septran.kernel import KernelParam

HEADER = (Path(__file__).resolve().parent / "include" / "vectors.h").read_text(encoding="utf-8")
"""what entries with vectors stand behind"""
_GROWS = r"\b{name}\s*\.\s*(?:push_back|emplace_back|insert|emplace)\s*\(|_inserter\s*\(\s*{name}\b"
_CHANGES = r"\b{name}\s*\.\s*(?:resize|assign|reserve|swap|clear|pop_back|erase)\s*\(|\b{name}\s*=[^=]|(?:swap|move)\s*\([^;]*\b{name}\b"


def argument(param: CParam, passed: Passed, place: Mapping[str, int]) -> str:
    """Return an argument that is an address or a number as a C++ expression. place: of each tensor among the entry's."""
    if param.kind == "stream":
        return "0"
    if passed.param:
        return f"static_cast<{param.type}>(args[{place[passed.param]}])"
    return f"static_cast<{param.type}>({literal(passed.value)})"


def held_call(
    function: CFunction, call: HostCall, params: Sequence[KernelParam], before: str
) -> str:
    """Return the statements that make vectors and spans, call the function and take back what is in them. before: an expression that ends with a comma, or ""."""
    place = {p.name: i for i, p in enumerate(params)}
    size = {p.name: math.prod(p.shape) for p in params}
    results = [p.name for p in params if p.privilege != "r"]
    made, words, taken = [f"{before}(void)0;"], [], []
    for k, (param, passed) in enumerate(zip(function.params, call.args, strict=True)):
        if not param.holder:
            words.append(argument(param, passed, place))
            continue
        at, n, own = f"args[{place[passed.param]}]", size[passed.param], f"septran_{k}"
        if param.holder == "span":
            words.append(f"{{static_cast<{param.type}*>({at}), std::size_t({n})}}")
            continue
        grows = re.search(_GROWS.format(name=param.name), function.body) is not None
        empty = "true" if grows and passed.param in results else "false"
        made.append(f"septran_vectors::Held<{param.type}> {own}({at}, {n}, {k}, {empty});")
        words.append(f"{own}.own")
        if not grows and not re.search(_CHANGES.format(name=param.name), function.body):
            taken.append(f'{own}.intact("{param.name}");')
        if passed.param in results:
            taken.append(f'septran_vectors::give({own}.own, {at}, {n}, "{param.name}");')
    called = f"{function.scope}{function.name}({', '.join(words)})"
    if call.returns and function.result is not None:
        (out,) = results
        if function.result.holder:
            taken.append(
                f'septran_vectors::give(septran_result, args[{place[out]}], {size[out]}, "{function.name}\'s result");'
            )
        else:
            taken.append(f"*static_cast<{_element(params[place[out]])}*>(args[{place[out]}]) = septran_result;")  # fmt: skip
        called = f"auto septran_result = {called}"
    return f"{{ {' '.join(made)} {called}; {' '.join(taken)} }}"


_ELEMENTS = {
    "float32": "float",
    "float64": "double",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
    "float16": "_Float16",
    "bfloat16": "__bf16",
}


def _element(param: KernelParam) -> str:
    return _ELEMENTS[param.dtype]
