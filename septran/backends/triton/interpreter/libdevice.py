"""The CUDA math library in Triton's interpreter, which has none: functions of floats, computed in float64 and rounded once.

Lies beside a judged kernel as septran_triton_libdevice.py. What is not here raises NotImplementedError: such a kernel is not judged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

_UNARY = {
    "abs": torch.abs, "acos": torch.acos, "acosh": torch.acosh, "asin": torch.asin, "asinh": torch.asinh, "atan": torch.atan,
    "atanh": torch.atanh, "ceil": torch.ceil, "cos": torch.cos, "cosh": torch.cosh, "erf": torch.erf, "erfc": torch.erfc,
    "erfinv": torch.erfinv, "erfcx": torch.special.erfcx, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1,
    "floor": torch.floor, "lgamma": torch.lgamma, "log": torch.log, "log10": torch.log10, "log1p": torch.log1p, "log2": torch.log2,
    "nearbyint": torch.round, "rint": torch.round, "rsqrt": torch.rsqrt, "sin": torch.sin, "sinh": torch.sinh, "sqrt": torch.sqrt,
    "tan": torch.tan, "tanh": torch.tanh, "trunc": torch.trunc, "normcdf": torch.special.ndtr, "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1, "cyl_bessel_i0": torch.special.i0, "cyl_bessel_i1": torch.special.i1,
}  # fmt: skip
_MORE: dict[str, Callable[..., torch.Tensor]] = {
    "exp10": lambda x: torch.pow(torch.tensor(10.0, dtype=torch.float64), x),
    "cbrt": lambda x: torch.sign(x) * torch.pow(torch.abs(x), 1 / 3),
    "rcbrt": lambda x: torch.sign(x) * torch.pow(torch.abs(x), -1 / 3),
    "round": lambda x: torch.sign(x) * torch.floor(torch.abs(x) + 0.5),
    "saturatef": lambda x: torch.nan_to_num(torch.clamp(x, 0, 1), nan=0.0),
    "cospi": lambda x: torch.cos(math.pi * torch.fmod(x, 2)),
    "sinpi": lambda x: torch.sin(math.pi * torch.fmod(x, 2)),
    "tgamma": lambda x: torch.where(x > 0, torch.exp(torch.lgamma(x)), torch.nan),
    "atan2": torch.atan2,
    "copysign": torch.copysign,
    "fdim": lambda x, y: torch.clamp(x - y, min=0),
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "pow": torch.pow,
    "fma": lambda x, y, z: x * y + z,
    "norm3d": lambda x, y, z: torch.sqrt(x * x + y * y + z * z),
}
_ROUNDED = {
    "add_rn": torch.add,
    "sub_rn": torch.sub,
    "mul_rn": torch.mul,
    "div_rn": torch.div,
    "fma_rn": _MORE["fma"],
    "sqrt_rn": torch.sqrt,
    "rcp_rn": torch.reciprocal,
    "rsqrt_rn": torch.rsqrt,
}
_FAST = {
    "fast_dividef": torch.div,
    "fast_expf": torch.exp,
    "fast_exp10f": _MORE["exp10"],
    "fast_logf": torch.log,
    "fast_log2f": torch.log2,
    "fast_log10f": torch.log10,
    "fast_powf": torch.pow,
    "fast_sinf": torch.sin,
    "fast_cosf": torch.cos,
    "fast_tanf": torch.tan,
}
_ASKS = {
    "isnan": torch.isnan,
    "isinf": torch.isinf,
    "finitef": torch.isfinite,
    "isfinited": torch.isfinite,
    "signbit": torch.signbit,
}
FUNCTIONS = {**_UNARY, **_MORE, **_ROUNDED, **_FAST}


def install_libdevice(tl: Any, it: Any) -> None:
    """Put the functions into the modules that kernels import them from."""
    from torch.utils._python_dispatch import _disable_current_modes as disable_modes
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as cuda

    def apply(
        name: str, function: Callable[..., torch.Tensor], asks: bool, *args: Any, **_: Any
    ) -> Any:
        given = [a for a in args if isinstance(a, tl.tensor)]
        if not given or any(a.dtype.scalar not in (tl.float32, tl.float64) for a in given):
            raise NotImplementedError(f"libdevice.{name} of other values than float32 and float64")
        kind = max((a.dtype.scalar for a in given), key=lambda t: int(t.primitive_bitwidth))
        values = [
            a.handle.data if isinstance(a, tl.tensor) else np.float64(getattr(a, "value", a))
            for a in args
        ]
        # whoever watches what a host calls does not mean the interpreter's own arithmetic
        with disable_modes(), torch._C.DisableTorchFunction(), np.errstate(all="ignore"):
            wide = torch.broadcast_tensors(
                *(torch.from_numpy(np.asarray(v, np.float64)) for v in values)
            )
            found = function(*wide).numpy()
        kind, found = (tl.int1, found) if asks else (kind, found.astype(it._get_np_dtype(kind)))
        shapes = [list(a.shape) for a in given]
        shape = (
            [max(dims) for dims in zip(*shapes, strict=True)]
            if len({len(s) for s in shapes}) == 1
            else max(shapes, key=len)
        )
        return tl.tensor(
            it.TensorHandle(found, kind), tl.block_type(kind, shape) if shape else kind
        )

    def lacking(name: str, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"libdevice.{name} is not in this emulator")

    for module in (libdevice, cuda):
        for name, held in list(vars(module).items()):
            if name.startswith("_") or not callable(held) or isinstance(held, type):
                continue
            if name in _ASKS:
                made = functools.partial(apply, name, _ASKS[name], True)
            elif name in FUNCTIONS:
                made = functools.partial(apply, name, FUNCTIONS[name], False)
            else:
                made = functools.partial(lacking, name)
            setattr(module, name, made)
