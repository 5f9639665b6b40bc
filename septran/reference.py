"""What an operator means in torch, and how far a correct kernel may be from it.

Pure data; torch is imported only by those who call `fn`. `torch` and `F` here are stand-ins that import
the real modules at the first use of an attribute, so that listing operators does not wait for torch.
"""

from __future__ import annotations

import functools
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from septran.errors import Span
from septran.rounding import Rounding
from septran.stopwatch import Slot

ReferenceKind = Literal["exact", "elementwise", "reduction", "gemm", "softmax", "chain"]


class Later:
    """A module that is imported when one of its attributes is first used."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real(), name)

    def real(self) -> Any:
        """Import and return the module."""
        return sys.modules.get(self._module) or importlib.import_module(self._module)


def bound(fn: Callable[..., Any], *given: Any) -> Callable[[], Any]:
    """Return a call of `fn` that costs no more than the call itself, as `Reference.best` wants one."""
    return functools.partial(fn, *given)


class Remote(ABC):
    """A function of a user's file; it is called in the process that the file lives in.

    about: what to call it in an error. span: where it is defined.
    """

    about: str
    span: Span | None

    @abstractmethod
    def __call__(self, **given: Any) -> Any:
        """Return what the function gives for CPU tensors and numbers: a tensor or a tuple of them.

        Raises:
            TaskLangError: E150, E153, E154; the function is at fault.
        """

    @abstractmethod
    def on(self, device: str) -> Callable[..., Any]:
        """Return the function computing on torch device `device`, with CPU tensors in and out."""

    @abstractmethod
    def slot(
        self, given: Mapping[str, Any], *, gpu_l2: int | None = None, processor_time: bool = False
    ) -> Slot:
        """Return a stopwatch of the function over there; see `septran.stopwatch`."""

    @abstractmethod
    def slot_in_place(
        self, given: Mapping[str, Any], replaced: Mapping[int, str], *, processor_time: bool = False
    ) -> Slot | None:
        """Return a stopwatch of it where results replace arguments, None where that cannot be seen; see `septran.in_place`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A decision between computed values that an output shows.

    output: the parameter that shows it. about: for people. values: called as `Reference.fn` is; returns the values that are
    decided between. allows: the arguments, those values, how far each may be off, the output -> whether it is one that
    values so close decide. stored: nothing but whether the output is read as it is stored, or before it was rounded.
    """

    output: str
    about: str
    stored: bool = False
    values: Callable[..., Any]
    allows: Callable[[Mapping[str, Any], Any, Any, Any], bool]


torch = Later("torch")
F = Later("torch.nn.functional")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An operator's meaning and its error model.

    fn: called with the tensors the kernel reads as keyword arguments by parameter name (float64, or
        the integer/bool dtype of the parameter) and the operator's scalars by name; returns the output
        tensor, or a tuple in output order. It must also work on float32 tensors.
    kind: which error budget applies (docs/verification.md):
        exact        copies, transposes, max, relu: every bit of the rounded result
        elementwise  a few ulp of the result, and of its conditioning in the inputs
        reduction    a sum of n terms; like gemm
        gemm         8 u sum|a||b| for zero-mean inputs, 2 sqrt(K) u sum|a||b| otherwise
        softmax      (16 + 4 |x - max| + 2 sqrt(N)) u |r|
        chain        anything fused (norms, attention, losses): conditioning probes times
                     (8 + 2 sqrt(n)), plus 8 x the error of torch in the compute dtype
        choice       the judge's own, of values that are decided between: as chain, each element by itself
    magnitude: same arguments as fn -> per output element the sum of absolute terms. Default for gemm
        and reduction: fn on absolute values (right when fn is multilinear; give it for fused ones,
        e.g. `lambda A, B, bias: A.abs() @ B.abs() + bias.abs()`). For elementwise and chain it is an
        additional absolute scale: `ulps * u * magnitude` is granted (gelu: `lambda X: X.abs()`).
    reduction: dims -> number of terms accumulated per output element.
    best: the same function as a user of torch would write it for speed, where `fn` is not that: called once
        with the same arguments, returns a call without arguments whose result has fn's elements in fn's
        order (what can be prepared once, like a weight's layout, is prepared). Only timed, never judged with.
    ulps: last places of the compute dtype granted on top.
    lipschitz: bound on the slope of what follows the accumulation (1.13 for gelu after a gemm).
    storage_roundings: intermediate tensors the logic itself holds in the storage dtype; each may
        round once (attention's probabilities in bfloat16), relative to `magnitude` when it is given.
    integer_exact: small integers in give a result that is exact in the accumulate dtype, so the
        bit-exact case applies. None = yes for exact, gemm and reduction.
    rounded: `fn` with each intermediate result changed: what rounding it does to the result. Without it only changes of
        inputs are measured. summed: the same where results of sums are changed by their terms (`Rounding.of_terms`).
    choices: decisions that outputs show. chosen: outputs by name -> the reference with these decisions made as they say.
    operands: task of an opaque leaf -> what its operands are, in order, for the arguments of `fn`.
    squares: same arguments as fn -> per output element the largest root of the sum of squared terms of all elements that it may
        be computed with, each tap as large as the largest. Only of a 3x3 convolution: what `math: winograd` is judged by.
    defined: called as fn; whether there is a value for these arguments (a singular matrix has no inverse). None: always.
    """

    fn: Callable[..., Any]
    kind: ReferenceKind | Literal["choice"] = "chain"
    magnitude: Callable[..., Any] | None = None
    reduction: Callable[[Mapping[str, int]], int] | None = None
    best: Callable[..., Callable[[], Any]] | None = None
    ulps: float = 8.0
    lipschitz: float = 1.0
    storage_roundings: int = 0
    integer_exact: bool | None = None
    rounded: Callable[[Rounding], Callable[..., Any]] | None = None
    summed: Callable[[Rounding], Callable[..., Any]] | None = None
    choices: tuple[Choice, ...] = ()
    chosen: Callable[[Mapping[str, Any]], Reference] | None = None
    operands: Mapping[str, Callable[..., tuple[Any, ...]]] = field(default_factory=dict)
    squares: Callable[..., Any] | None = None
    defined: Callable[..., bool] | None = None

    def settled(self) -> Reference:
        """Return this reference with the modules in place of their stand-ins, as timing wants it.

        All functions of a logic file share its names, so the stand-ins are replaced where they are.
        """
        todo: list[Any] = [self.fn, *([self.best] if self.best else [])]
        while todo:
            fn = todo.pop()
            names = getattr(fn, "__globals__", {})
            names.update({k: v.real() for k, v in names.items() if isinstance(v, Later)})
            inner = (cell.cell_contents for cell in getattr(fn, "__closure__", None) or ())
            todo.extend(found for found in inner if hasattr(found, "__globals__"))
        return self
