"""Says what a kernel's comparisons compare, while inputs are sought that turn them. Runs in the sandboxed child only.

Lies beside a kernel as septran_triton_told.py; `told` is septran.verify.told.Told.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from septran_triton_interp import bf16_to_f32
from septran_triton_lockstep import Lockstep

_COMPARES: dict[Any, str] = {
    np.less: "<",
    np.less_equal: "<=",
    np.greater: ">",
    np.greater_equal: ">=",
    np.equal: "==",
    np.not_equal: "!=",
}
_CHOICES: dict[Any, str] = {np.maximum: ">", np.fmax: ">", np.minimum: "<", np.fmin: "<"}
_VANISH = (np.exp, np.exp2)
"""what is as good as 0 far enough below"""
_JOINS: dict[Any, str] = {np.bitwise_and: "&", np.bitwise_or: "|", np.bitwise_xor: "^"}
_MANY_FRAMES = 40
_stock: list[tuple[Any, str, Any]] = []


def tell(told: Any, file: str) -> None:
    """Tell `told` from now on what kernels of `file` compare; None: nobody."""
    import triton.runtime.interpreter as it

    while _stock:
        setattr(*_stock.pop())
    if told is None:
        return

    def put(owner: Any, name: str, function: Any) -> Any:
        stock = getattr(owner, name)
        _stock.append((owner, name, stock))
        setattr(owner, name, lambda *args, **more: function(stock, *args, **more))

    def binary_op(stock: Any, self: Any, a: Any, b: Any, op: Any) -> Any:
        made = stock(self, a, b, op)
        if op in _COMPARES:
            line, which = _place(file)
            if line:
                told.compared(line, which, _COMPARES[op], _values(a), _values(b), made.data)
        elif op in _CHOICES:
            tell_sides(_CHOICES[op], _values(a), _values(b))
        elif op in _JOINS and made.data.dtype == np.bool_:
            told.joined(*_place(file), _JOINS[op], a.data, b.data, made.data)
        elif op is np.multiply and told.known(a.data) and told.known(b.data):
            told.joined(*_place(file), "&", a.data, b.data, made.data)
        elif op is np.subtract and told.known(b.data) and (a.data == 1).all():
            told.turned(b.data, made.data)
        return made

    def tell_sides(op: str, x: Any, y: Any) -> None:
        """Tell what decides without a comparison of the text: the larger of two, a sign, whether an exponential vanishes."""
        line, which = _place(file)
        if line and x.dtype.kind in "fiu":
            with np.errstate(all="ignore"):
                found = np.asarray(x > y if op == ">" else x < y)
            told.compared(line, (which, op), op, x, y, found)

    def unary_op(stock: Any, self: Any, a: Any, op: Any) -> Any:
        if op in _VANISH:
            tell_sides(">", _values(a), np.float64(-1.0))
        return stock(self, a, op)

    def create_bitcast(stock: Any, self: Any, src: Any, dst_type: Any) -> Any:
        made = stock(self, src, dst_type)
        if _values(src).dtype.kind == "f" and made.data.dtype.kind in "iu":
            tell_sides(">", _values(src), np.float64(0.0))
        return made

    def ternary_op(stock: Any, self: Any, a: Any, b: Any, c: Any, op: Any) -> Any:
        made = stock(self, a, b, c, op)
        if op is np.where:
            told.chose(*_place(file), a.data, b.data, c.data, made.data)
        return made

    def cast_impl(stock: Any, self: Any, src: Any, dst_type: Any) -> Any:
        made = stock(self, src, dst_type)
        if src.data.dtype == np.bool_:  # a comparison's handle has the type of its sides
            told.same(src.data, made.data)
        return made

    def same(stock: Any, self: Any, values: Any) -> Any:
        found = stock(self, values)
        if values.dtype == np.bool_:
            told.decided(values, as_it_is=bool(found))
        return found

    def group(stock: Any, self: Any, *args: Any) -> None:
        told.back()
        stock(self, *args)

    builder = it.InterpreterBuilder
    put(builder, "binary_op", binary_op)
    put(builder, "ternary_op", ternary_op)
    put(builder, "unary_op", unary_op)
    put(builder, "create_bitcast", create_bitcast)
    put(builder, "cast_impl", cast_impl)
    put(Lockstep, "same", same)
    put(Lockstep, "_group", group)


def _values(h: Any) -> Any:
    brain = h.data.dtype == np.uint16 and str(h.dtype.scalar) == "bf16"
    return bf16_to_f32(h.data) if brain else h.data


def _place(file: str) -> tuple[int, object]:
    """Return the line of the kernel's text that runs, and which part of it; 0 for what the interpreter asks for itself."""
    frame = sys._getframe(3)
    for _ in range(_MANY_FRAMES):
        code = frame.f_code
        if code.co_name == "binary_op_sanitize_overflow_impl":
            break
        if code.co_filename.endswith(file) and code.co_filename[-len(file) - 1 :][:1] in ("/", ""):
            return frame.f_lineno, frame.f_lasti
        if frame.f_back is None:
            break
        frame = frame.f_back
    return 0, ""
