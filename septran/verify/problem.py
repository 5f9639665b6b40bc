"""What a kernel is asked to compute: parameters, meaning, and the values its inputs may take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from septran.domain import Domain
from septran.kernel import KernelParam
from septran.reference import Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Where the inputs of a problem come from when a larger problem makes them.

    given: called as the larger problem's reference is; returns the inputs `names`, in order.
    """

    problem: Problem
    given: Callable[..., Sequence[Any]]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An operator at fixed dims and dtype.

    params: in the kernel's call order; privilege r = input, w = output, rw = both.
    device: where torch computes the reference ("cuda" only for sizes that a CPU takes minutes for).
    scalars: passed to `reference.fn` by name. domains: input -> allowed values (default: any real).
    samples: input -> the bytes of given values; when every input has some, they are one more case.
    unused: outputs that nobody reads afterwards (a leaf's temporaries): they may hold anything.
    sizes: inputs that tell the kernel a size (`septran.kernel.size_name`) -> the value; the reference takes them
        from its tensors.
    within: the larger problem that makes the inputs; None: they are drawn.
    made: case's name -> the inputs as arrays, where steps before have made them; None: they are drawn.
    points: numbers that the kernel's text holds, of which a branch may be made; one more case has values at and between them.
    declared: arithmetic whose rounding the mapping asked for although it is worse: a word of `math:`; "": none.
    truncates: a GPU's matrix units may compute it, which cut sums off instead of rounding them.
    flushes: the machine has no denormals: where bits must match, 0 is right for a number below the normal ones.
    """

    name: str
    params: tuple[KernelParam, ...]
    reference: Reference
    dims: Mapping[str, int] = field(default_factory=dict)
    scalars: Mapping[str, float | int] = field(default_factory=dict)
    domains: Mapping[str, Domain] = field(default_factory=dict)
    device: str = "cpu"
    samples: Mapping[str, bytes] = field(default_factory=dict)
    unused: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    points: tuple[float, ...] = ()
    declared: str = ""
    truncates: bool = False
    flushes: bool = False
    within: Within | None = None
    made: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def inputs(self) -> tuple[KernelParam, ...]:
        """Parameters the kernel may read."""
        return tuple(p for p in self.params if p.privilege != "w")

    @property
    def meant(self) -> tuple[KernelParam, ...]:
        """Inputs that the reference reads, too."""
        return tuple(p for p in self.inputs if p.name not in self.sizes)

    @property
    def outputs(self) -> tuple[KernelParam, ...]:
        """Parameters the kernel writes."""
        return tuple(p for p in self.params if p.privilege != "r")

    @property
    def accumulate(self) -> str:
        """Compute dtype: float64 when any tensor is, else float32 (also for half storage)."""
        return "float64" if any(p.dtype == "float64" for p in self.params) else "float32"

    def domain(self, name: str) -> Domain:
        """Return the domain of input `name`; integers without one are any small integer."""
        return self.domains.get(name, Domain())
