"""SepTran from Python: compile a logic to a kernel that takes and returns torch tensors."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import backends
from septran.backends.base import Backend
from septran.errors import EnvironmentProblem, InputError, MappingError, NotCorrect
from septran.gpu import Missing
from septran.machine import load_machine
from septran.mapping.load import load_mapping
from septran.mapping.schema import ExplicitMapping, Policy
from septran.plan.cores import cores
from septran.plan.resolve import for_backend, load_target_mapping
from septran.plan.specialize import Signature, Specialized, entry_task, signature, specialize
from septran.tasklang.load import Logic, load_logic
from septran.tasklang.tree import Task
from septran.trial.judge import judge_kernel
from septran.trial.place import device_for, place_of
from septran.verify.verdict import Verdict

if TYPE_CHECKING:
    import torch

__all__ = ["CompiledKernel", "compile", "jit"]


class CompiledKernel:
    """A logic and a mapping, specialised to shapes and dtypes at the first call with them.

    `kernel(a, b)` takes the parameters that are not write-only, in the entry task's order, allocates the
    others and returns them (one tensor, or a tuple). With all parameters given, the outputs are written
    in place and nothing is returned.
    """

    def __init__(
        self,
        logic: Logic,
        entry: Task,
        mapping: ExplicitMapping | Policy,
        backend: Backend,
        arch: str,
        *,
        verify: bool,
    ) -> None:
        """Use `septran.compile`."""
        self.logic = logic
        self.entry = entry
        self.mapping = mapping
        self.backend = backend
        self.arch = arch
        self._verify = verify
        self._machine = load_machine(backend.machine(arch))
        self._ready: dict[object, tuple[Callable[..., None], Signature, tuple[int, ...]]] = {}
        self._special: dict[object, Specialized] = {}
        self.verdicts: dict[str, Verdict] = {}

    def __call__(self, *values: Any) -> Any:
        """Run the kernel.

        Raises:
            InputError: C140 values that do not fit. EnvironmentProblem: V111, the target is not here.
            NotCorrect: V2xx, the kernel failed verification. TaskLangError, MappingError.
        """
        key = _key(values)
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready[key] = self._prepare(values)
        run, meant, order = ready
        if not meant.outputs:
            run(*(values[i] for i in order))
            return None
        made = [_empty(meant, name, values) for name in meant.outputs]
        everything = (*values, *made)
        run(*(everything[i] for i in order))
        return made[0] if len(made) == 1 else tuple(made)

    def specialized(self, *values: Any) -> Specialized:
        """Return program, kernel source and problem for tensors like `values`; nothing is built or run."""
        key = _key(values)
        if key not in self._special:
            meant = signature(self.entry, values)
            self._special[key] = specialize(
                self.logic,
                self.entry,
                self.mapping,
                self.backend,
                self.arch,
                self._machine,
                meant.given,
            )
        return self._special[key]

    def source(self, *values: Any) -> str:
        """Return the kernel's source for tensors like `values`."""
        return self.specialized(*values).kernel.source

    def verify(self, *values: Any, work: Path | None = None) -> Verdict:
        """Return the verdict on the kernel for tensors like `values` (emulated where there is no device)."""
        found = self.specialized(*values)
        with tempfile.TemporaryDirectory(prefix="septran-") as folder:
            judged = judge_kernel(
                place_of(self.backend, self.arch, "auto", cores()),
                found.kernel,
                found.problem,
                work=work or Path(folder),
            )
        self.verdicts[found.kernel.sha] = judged.verdict
        return judged.verdict

    def _prepare(
        self, values: tuple[Any, ...]
    ) -> tuple[Callable[..., None], Signature, tuple[int, ...]]:
        meant = signature(self.entry, values)
        found = self.specialized(*values)
        missing = device_for(self.backend, self.arch) if self.backend.device else None
        if self.backend.load is None or isinstance(missing, Missing):
            why = f": {missing.detail}" if isinstance(missing, Missing) else ""
            raise EnvironmentProblem.of(
                "V111",
                f"a {self.backend.name} kernel cannot be called from this process{why}",
                help="read kernel.source(...), check it with kernel.verify(...), or run "
                f"`septran gen --backend {self.backend.name}`",
            )
        if self._verify:
            verdict = self.verify(*values)
            if not verdict.passed:
                raise NotCorrect.of(verdict.code or "V202", verdict.message, help=verdict.hint)
        names = [p for p in self.entry.params if p in meant.given and p not in meant.outputs]
        at = {n: i for i, n in enumerate((*names, *meant.outputs))}
        order = tuple(at[p.name] for p in found.kernel.params)
        folder = Path(tempfile.mkdtemp(prefix="septran-module-"))
        return self.backend.load(found.kernel, folder), meant, order


def _key(values: tuple[Any, ...]) -> object:
    return tuple((v.shape, v.dtype) if hasattr(v, "shape") else v for v in values)


def _empty(meant: Signature, name: str, values: tuple[Any, ...]) -> torch.Tensor:
    import torch

    kind: Any = meant.given[name]
    device = next((v.device for v in values if isinstance(v, torch.Tensor)), "cpu")
    return torch.empty(kind.shape, dtype=getattr(torch, kind.dtype), device=device)


def compile(
    logic_file: str | Path,
    mapping_file: str | Path | None = None,
    target: str | None = None,
    *,
    arch: str | None = None,
    entry: str | None = None,
    verify: bool = True,
) -> CompiledKernel:
    """Return the kernel of a logic file under a mapping file, or under a target's policy.

    At least one of `mapping_file` and `target` is given. target: a backend's name ("cpp"); without it
    the mapping's `target:`, else what its processors imply. entry: the task to start with, when the
    file leaves a choice. verify: check each specialisation against torch before it is used.

    Raises:
        TaskLangError, MappingError: mistakes in the files. InputError: C141 neither mapping nor target.
        ConfigError: C130, C131 unknown target or arch.
    """
    if mapping_file is None and target is None:
        raise InputError.of(
            "C141",
            "neither mapping_file nor target is given",
            help=f"targets are {', '.join(backends.names())}",
        )
    logic = load_logic(Path(logic_file))
    given = load_mapping(Path(mapping_file)) if mapping_file is not None else None
    name = target or (given.target if given is not None else None)
    if name is None:
        assert isinstance(given, ExplicitMapping)
        name = infer_target(given)
    backend = backends.get(name)
    chosen = backends.resolve_arch(backend, arch or (given.arch if given is not None else None))
    mapping = for_backend(given, backend) if given else load_target_mapping(backend, chosen, None)
    task = entry_task(logic, mapping if given is not None else None, entry)
    return CompiledKernel(logic, task, mapping, backend, chosen, verify=verify)


def infer_target(mapping: ExplicitMapping) -> str:
    """Return the only sensible target for a mapping that names none, from its processors.

    Raises:
        MappingError: M007, the processors leave no unique choice.
    """
    procs = {i.proc for i in mapping.instances.values()}
    mems = {m for i in mapping.instances.values() for m in i.mems.values()}
    found = backends.target_of(procs, mems)
    if found is None:
        raise MappingError.of(
            "M007",
            f"target cannot be inferred from processors {sorted(procs)}; add 'target:'",
            help=f"targets are {', '.join(backends.names())}",
        )
    return found


def jit(
    fn: Any = None,
    *,
    mapping_file: str | Path | None = None,
    target: str | None = None,
    **options: Any,
) -> Any:
    """Turn a Task defined in a file into a kernel: `@septran.jit(target="cpp")` above `@task.define`.

    Same call as `compile` on the file that defines the task. Without target and mapping_file the kernel
    is for the CPU.
    """

    def decorate(task: Task) -> CompiledKernel:
        assert task.span is not None
        from septran.tasklang.load import loading

        if loading():
            return task  # type: ignore[return-value]  # the file is being read by compile itself
        chosen = target or (None if mapping_file is not None else backends.HOST)
        return compile(task.span.file, mapping_file, chosen, entry=task.name, **options)

    return decorate if fn is None else decorate(fn)
