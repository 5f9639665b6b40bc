"""A module in steps, as a callable: what is prepared once, kernels, parts that torch computes, kernels after these."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.aten.graph import Graph, Ref
from septran.aten.once import PREFIX
from septran.backends.base import Backend
from septran.call.kept import passed_before, place_key, remember_passed
from septran.call.once import Once
from septran.call.translated import Translated, compiled_import, constants_of, order_of
from septran.errors import InputError, NotCorrect
from septran.frontend.partition import HostPart
from septran.kernel import content_hash
from septran.plan.cores import cores
from septran.plan.partitioned import Made, partitioned, prepared, run_part, told
from septran.plan.torch_module import Imported, load_imported
from septran.plan.workspace import Workspace
from septran.trial.judge import judge_kernel
from septran.trial.partitioned import Trial, judge_partitioned
from septran.trial.place import place_of
from septran.verify.verdict import Verdict

if TYPE_CHECKING:
    import torch


@dataclass(slots=True, kw_only=True)
class Split:
    """The steps of a module for one set of shapes. verify: judge all of it before it is first used.

    accepted: whether that was done. constants: tensors that the module makes itself. once: the tensors that are prepared of
    the module's own, where the first step prepares them.
    """

    graph: Graph
    steps: tuple[Made[Translated] | HostPart, ...]
    backend: Backend
    arch: str
    verify: bool
    constants: Mapping[str, torch.Tensor]
    accepted: bool = False
    open: None = None
    once: Once | None = None

    @property
    def kernels(self) -> tuple[Translated, ...]:
        """What became kernels."""
        return tuple(s.made for s in self.steps if isinstance(s, Made))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels in order of their launch."""
        return tuple(n for made in self.kernels for n in made.names)

    @property
    def order(self) -> tuple[str, ...]:
        """User inputs of the graph, as the flattened arguments that are tensors come."""
        return order_of(self.graph)

    @property
    def host_leaves(self) -> tuple[str, ...]:
        """What torch computes, and why."""
        parts = (s for s in self.steps if isinstance(s, HostPart) and not s.once)
        return tuple(told(s, self.graph.file) for s in parts)

    @property
    def logic(self) -> str:
        """The Task Lang texts of all that became kernels, and what torch computes between them."""
        return self._text(lambda made: made.logic)

    def draw(self) -> str:
        """Return each step in order: its graph and kernels, or what stays torch's."""
        return self._text(lambda made: made.draw())

    def _text(self, of: Callable[[Translated], str]) -> str:
        found = []
        for number, step in enumerate(self.steps, 1):
            if isinstance(step, HostPart):
                nodes = ", ".join(n.name for n in step.graph.nodes)
                who = "once" if step.once else "torch"
                found.append(
                    f"# step {number}, {who}: {nodes}\n#   {told(step, self.graph.file)}\n"
                )
            else:
                found.append(f"# step {number}, kernels\n{of(step.made)}")
        return "\n".join(found)

    def workspace(self) -> Workspace:
        """Return the memory between kernels, which each part has for itself."""
        each = [made.workspace() for made in self.kernels]
        return Workspace(
            bytes=sum(w.bytes for w in each),
            separate=sum(w.separate for w in each),
            rows=tuple(r for w in each for r in w.rows),
        )

    def run(
        self,
        users: Mapping[str, torch.Tensor],
        held: Mapping[str, torch.Tensor],
        dims: Mapping[str, int] | None = None,
    ) -> list[torch.Tensor]:
        """Return the module's results. users: inputs by name; held: the module's own tensors by their names in it.

        Raises:
            NotCorrect: V2xx, at the first call. EnvironmentProblem: V111.
        """
        self.accept()
        values: dict[str, Any] = {}
        for one in self.graph.inputs:
            place, name = (users, one.name) if one.kind == "user_input" else (held, one.target)
            if name in place:
                values[one.name] = place[name].detach()
        for step in self.steps:
            if isinstance(step, HostPart) and step.once:
                assert self.once is not None
                made = self.once.tensors(values)
                values |= made
                held = {**held, **{PREFIX + name: tensor for name, tensor in made.items()}}
                continue
            if isinstance(step, HostPart):
                values |= run_part(step, values)
                continue
            results = step.made.run(values, held)
            for name, found in zip(step.makes, results, strict=True):
                values[name] = found.reshape(self.graph.meta_of(name).shape)
        return [values[o.value.name] for o in self.graph.outputs if isinstance(o.value, Ref)]

    def forget(self) -> None:
        """Prepare constants anew at the next call."""
        if self.once is not None:
            self.once.forget()

    def verdict(self) -> Verdict:
        """Return the verdict on the whole: each kernel by itself first, and all steps against the module."""
        place = place_of(self.backend, self.arch, "auto", cores())
        with tempfile.TemporaryDirectory(prefix="septran-") as folder:
            trials: list[Trial | HostPart] = []
            for number, step in enumerate(self.steps):
                if isinstance(step, HostPart):
                    trials.append(step)
                    continue
                found, work = step.made.specialized(), Path(folder) / str(number)
                judged = judge_kernel(place, found.kernel, found.problem, work=work, suspect=True)
                step.made.kernel.verdicts[found.kernel.sha] = judged.verdict
                trials.append(Trial(imported=step.imported, problem=found.problem, judged=judged))
            return judge_partitioned(place, self.graph, trials, work=Path(folder) / "whole")

    @property
    def whole(self) -> Translated | None:
        """The kernels of each call where nothing but these is run then: the rest is prepared once; None where torch keeps a part."""
        return self.kernels[0] if len(self.steps) == 2 and self.once is not None else None

    def accept(self, *, always: bool = False) -> None:
        """Raise unless the target is here and the whole is right, now or in an earlier process.

        always: also where the user asked for kernels that are not verified.
        """
        if self.accepted and (self.verify or not always):
            return
        for made in self.kernels:
            made.kernel.callable_here()
        if self.verify or always:
            shas = [made.specialized().kernel.sha for made in self.kernels]
            parts = [s.graph.to_json() for s in self.steps if isinstance(s, HostPart)]
            asked = ["partitioned", shas, self.graph.to_json(), self.host_leaves, parts]
            key = content_hash([*asked, place_key(self.backend)])
            if not passed_before(key):
                verdict = self.verdict()
                if not verdict.passed:
                    raise NotCorrect.of(verdict.code or "V202", verdict.message, help=verdict.hint)
                for made in self.kernels:
                    made.kernel.passed(made.specialized())
                remember_passed(key)
        self.accepted = True


def split(graph: Graph, backend: Backend, arch: str, *, verify: bool) -> Split:
    """Return the steps of a module; torch computes what has no form, and what the target refuses.

    Raises:
        ConfigError: C150, C152, nobody could judge what torch would have to compute.
    """
    steps = partitioned(graph, _maker(backend, arch, verify=verify))
    return _split(graph, steps, backend, arch, verify=verify)


def split_prepared(
    graph: Graph, backend: Backend, arch: str, *, verify: bool, fallback: bool
) -> Split | None:
    """Return a module whose constants are prepared once, None where it has none to prepare.

    fallback: torch computes what has no form, and what the target refuses.

    Raises:
        ConfigError: C150, C152. TaskLangError, MappingError, Unsupported: the target refuses the logic.
    """
    make = _maker(backend, arch, verify=verify)
    steps = prepared(graph, make, split=fallback, columns=backend.columns)
    return None if steps is None else _split(graph, steps, backend, arch, verify=verify)


def again_prepared(graph: Graph, backend: Backend, arch: str) -> tuple[Translated, str]:
    """Return the kernels of a saved module whose constants are prepared, and the preparation as JSON; all of it is judged.

    Raises:
        InputError: V222, its graph has nothing to prepare. NotCorrect: V2xx.
    """
    found = split_prepared(graph, backend, arch, verify=True, fallback=False)
    if found is None or found.once is None or found.whole is None:
        raise InputError.of("V222", "a saved module prepares tensors that its graph does not have")
    found.accept()
    return found.whole, prepared_json(found.once)


def prepared_json(once: Once) -> str:
    """Return what a preparation computes, as plain values."""
    return json.dumps(once.graph.to_json())


def _maker(backend: Backend, arch: str, *, verify: bool) -> Callable[[Imported], Translated]:

    def make(found: Imported) -> Translated:
        operator, logic = load_imported(found)
        made = compiled_import(found, operator, logic, backend, arch, verify=verify)
        made.specialized()  # what the target refuses is said here
        return made

    return make


def _split(
    graph: Graph,
    steps: tuple[Made[Translated] | HostPart, ...],
    backend: Backend,
    arch: str,
    *,
    verify: bool,
) -> Split:
    first = steps[0]
    return Split(
        graph=graph,
        steps=steps,
        once=Once(first.graph) if isinstance(first, HostPart) and first.once else None,
        backend=backend,
        arch=arch,
        verify=verify,
        constants=constants_of(graph),
    )
