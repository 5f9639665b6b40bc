"""One built kernel that is called with many sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from septran.backends.base import Backend
from septran.call.arguments import Bound, wrong
from septran.call.open_build import OpenBuild
from septran.errors import InputError
from septran.kernel import kernel_params
from septran.machine import Machine
from septran.mapping.schema import ExplicitMapping, Policy
from septran.plan.dynamic import beyond, specialize_open
from septran.plan.resolve import Plan
from septran.plan.specialize import Specialized
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator


def open_sizes(
    operator: Operator | None, backend: Backend, asked: Mapping[str, int | None]
) -> dict[str, int]:
    """Return the dims that stay open, with the sizes that their tiles are chosen for.

    Raises:
        InputError: C110 no such dim, C111 a size below 1, C162 the kernel cannot have open dims.
    """
    names = ", ".join(asked)
    if operator is None:
        raise InputError.of(
            "C162",
            f"{names} cannot stay open: the logic has no operator that names dims",
            help="add a task.Operator to the logic file",
        )
    if backend.launch is None:
        raise InputError.of(
            "C162",
            f"{names} cannot stay open: {backend.name} kernels have their sizes in their text",
        )
    sizes = operator.bind_dims({name: 1 if n is None else n for name, n in asked.items()})
    return {name: operator.dims[name] if n is None else sizes[name] for name, n in asked.items()}


class OpenDims:
    """The kernels of one operator with some dims open: one for each set of the other dims, scalars and dtype."""

    def __init__(
        self,
        operator: Operator | None,
        logic: Logic,
        mapping: ExplicitMapping | Policy,
        backend: Backend,
        arch: str,
        machine: Machine,
        asked: Mapping[str, int | None],
    ) -> None:
        """Raise InputError as `open_sizes`."""
        self._sizes = open_sizes(operator, backend, asked)
        assert operator is not None
        self._plan = Plan(
            operator=operator,
            logic=logic,
            backend=backend,
            arch=arch,
            machine=machine,
            mapping=mapping,
            dims={},
            dtype="",
            dynamic=tuple(self._sizes),
        )
        self._special: dict[object, Specialized] = {}
        self._built: dict[str, OpenBuild] = {}

    def specialized(self, bound: Bound) -> Specialized:
        """Return the kernel that serves a call, and all that differ from it in the open dims alone."""
        dims = {**bound.dims, **self._sizes}
        key = (tuple(dims.items()), tuple(bound.scalars.items()), bound.dtype)
        if key not in self._special:
            scalars = {**self._plan.operator.scalars, **bound.scalars}
            operator = replace(self._plan.operator, scalars=scalars)
            plan = replace(self._plan, operator=operator, dims=dims, dtype=bound.dtype)
            self._special[key] = specialize_open(plan)
        return self._special[key]

    def made(
        self, special: Specialized, bound: Bound, accept: Callable[[Specialized], None]
    ) -> tuple[Callable[..., None], tuple[str, ...]]:
        """Return a kernel as `OpenBuild.at` does; accept: raises unless it is right, asked before it is built.

        Raises:
            ArgumentError: C140, the kernel is not for these sizes.
        """
        outside = beyond(special.program.dims, bound.dims)
        if outside:
            raise wrong(self._plan.operator, f"this kernel is not for them: {outside}")
        sha = special.kernel.sha
        if sha not in self._built:
            accept(special)
            self._built[sha] = OpenBuild(self._plan.backend, special.kernel)
        program = special.program
        run = self._built[sha].at(
            kernel_params(program, bound.dims), [bound.dims[d.name] for d in program.dims]
        )
        return run, tuple(p.buffer.name for p in program.params)
