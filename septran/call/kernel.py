"""A kernel as a Python object: `kernel(a, b)` specialises, verifies, builds and runs."""

from __future__ import annotations

import itertools
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.backends.base import Backend
from septran.bind import ArgType
from septran.call.arguments import Bound, bind, by_name, one_or_all, wrong
from septran.call.callable import check_callable
from septran.call.dispatch import has_tangent, is_transformed, seen_by_torch
from septran.call.kept import passed_before, remember_passed, verdict_key
from septran.call.library import register
from septran.call.mapped import mapped
from septran.call.open_dims import OpenDims
from septran.call.operators import OUT, call_signature, read_parameters
from septran.call.plain import PlainCall
from septran.call.recorded import Recorder
from septran.call.sharing import apart
from septran.call.waiting import said_after
from septran.errors import ArgumentError, InputError, NotCorrect
from septran.machine import load_machine
from septran.mapping.schema import ExplicitMapping, Policy
from septran.plan.cores import cores
from septran.plan.specialize import Specialized, signature, specialize
from septran.tasklang.load import Logic
from septran.tasklang.operator import evaluate_dim
from septran.tasklang.tree import Task
from septran.toolchain.launch_type import call_directly
from septran.trial.place import place_of
from septran.verify.verdict import Verdict

if TYPE_CHECKING:
    import torch

_NUMBERS = itertools.count()
_QUICK = 8
"""Kinds of call, the latest first, that are tried before the values are met with the parameters in Python."""


class CompiledKernel:
    """A logic and a mapping, specialised to shapes and dtypes at the first call with them.

    `kernel(a, b)` takes the parameters that the kernel reads, in the entry task's order or by name,
    allocates the others and returns them (one tensor, or a tuple). Outputs given by name, as `out=`, or with all parameters
    in the entry task's order are written in place, and returned too; what it both reads and writes is an input, and not returned.

    With an operator (a shipped one, or the file's own) its shapes, types and scalars are used: sizes are
    read off the inputs, pointwise operators take any shape, scalars have defaults, numpy arrays are
    taken and returned, strided inputs are copied (a warning says so once), and the kernel is an
    operator of torch: torch.compile(fullgraph=True) keeps it.
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
        dynamic: Mapping[str, int | None] | None = None,
        again: tuple[Callable[..., Any], tuple[Any, ...]] | None = None,
        backward: Callable[..., Any] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """Use `septran.compile`."""
        self.logic = logic
        self.entry = entry
        self.mapping = mapping
        self.backend = backend
        self.arch = arch
        self.operator = next((o for o in logic.operators.values() if o.entry is entry), None)
        self.__name__ = entry.name
        self._verify = verify
        self._again = again
        self._recorder = recorder
        self._machine = load_machine(backend.machine(arch))
        self._open: OpenDims | None = None
        if dynamic:
            self._open = OpenDims(
                self.operator, logic, mapping, backend, arch, self._machine, dynamic
            )
        self._ready: dict[object, PlainCall] = {}
        self._special: dict[object, Specialized] = {}
        self._lock = threading.RLock()
        self._calls: dict[object, tuple[Callable[..., None], tuple[str, ...]]] = {}
        self._quick: tuple[Callable[..., Any], ...] = ()
        self._into: tuple[Callable[..., Any], ...] = ()
        self._known: set[object] = set()
        self._told: set[str] = set()
        self._backward = backward
        self._read: tuple[str, ...] = ()
        self._outputs: tuple[str, ...] = ()  # that a call need not be given: none that is also read
        self._spelled: tuple[tuple[str, ...], ...] = ()
        self._registered: Callable[..., Any] | None = None
        self.verdicts: dict[str, Verdict] = {}
        self._compiling: Callable[[], bool] = bool
        self._traced: Callable[[], bool] = bool
        if self.operator is not None:
            from torch.compiler import is_compiling, is_dynamo_compiling

            self._compiling = is_compiling
            # all else that compiles has a dispatch mode or tensors of its own, which launch.cpp leaves alone
            self._traced = is_dynamo_compiling
            self._read = read_parameters(self.operator)
            self._outputs = tuple(n for n in self.operator.outputs if n not in self._read)
            self._spelled = (self._outputs, (OUT,)) if len(self._outputs) == 1 else (self._outputs,)
            self.__name__ = self.operator.name
            self.__signature__ = call_signature(self.operator, self._read)
            if not set(self.operator.outputs) & set(self._read):
                self._registered = register(
                    self.operator,
                    self._read,
                    self._fresh,
                    unique=f"{logic.path} {backend.name} {arch} {next(_NUMBERS)}",
                    backward=backward,
                )

    @property
    def launched(self) -> tuple[Callable[..., None], tuple[str, ...]] | None:
        """The loaded kernel and its tensors' names in order, where calls of one kind were made and no other."""
        found = tuple(self._calls.values())
        return found[0] if len(found) == 1 and self._open is None else None

    def __repr__(self) -> str:
        target = f"{self.backend.name}.{self.arch}" if self.arch else self.backend.name
        return f"<septran kernel {self.__name__} for {target}, {len(self._ready) + len(self._calls)} specialised>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as the call of `compile`; the files are read again where it arrives."""
        if self._again is None:
            raise TypeError("a kernel that was not made by septran.compile cannot be pickled")
        return self._again

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Run the kernel.

        Raises:
            ArgumentError: C140 values that do not fit (a TypeError, too). InputError: C142 gradients are
                wanted and there is no backward. EnvironmentProblem: V111, the target is not here.
            NotCorrect: V2xx, the kernel failed verification. TaskLangError, MappingError.
        """
        # where the extension can, only what no quick call takes comes here (launch/objects.h); a tracer always does
        if self._quick and not self._traced():
            if not named:
                for quick in self._quick:
                    found = quick(*values)
                    if found is not NotImplemented:
                        return found
            elif tuple(named) in self._spelled:
                given = tuple(named.values())
                for quick in self._into:
                    if quick(*values, *given) is not NotImplemented:
                        return one_or_all(given)
        if self.operator is None:
            if named:
                raise ArgumentError.of(
                    "C140",
                    f"{self.entry.name} has no operator, so values have no names: {', '.join(named)}",
                    help="add a task.Operator to the logic file, or give the values in order",
                )
            return self._run_plain(values)
        import torch

        if self._compiling() and self._registered is not None:
            return self._dispatched(by_name(self.operator, self._read, values, named), {})
        bound = bind(self.operator, self._read, values, named)
        given = tuple(bound.tensors.values())
        if any(map(has_tangent, given)):
            raise self._no_derivative("an input carries a forward-mode derivative")
        if torch.is_grad_enabled() and any(t.requires_grad for t in given):
            if self._backward is None or self._registered is None:
                raise self._no_derivative("an input requires a gradient")
            if len(bound.outputs) < len(self.operator.outputs):
                raise self._no_derivative("an input requires a gradient, an output is given")
            if any(map(is_transformed, given)):  # torch knows no backward of an operator there
                raise self._no_derivative("torch.func differentiates an input")
            return self._dispatched({**bound.tensors, **bound.scalars}, bound.given)
        if self._registered is not None and seen_by_torch(given):
            return self._dispatched({**bound.tensors, **bound.scalars}, bound.given)
        return self._run(bound)

    def _no_derivative(self, why: str) -> InputError:
        return InputError.of(
            "C142",
            f"{self.entry.name}: {why}, and this kernel has no backward for that",
            help="septran.compile(..., backward=fn), or call it under torch.no_grad()",
        )

    def _dispatched(self, given: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
        """Call the kernel through torch's dispatcher; outputs that are given are copied into. arrays: those, as the caller has them."""
        assert self.operator is not None and self._registered is not None
        missing = [n for n in self._read if n not in given]
        if missing:
            raise wrong(self.operator, f"{missing[0]} is not given", self._read)
        scalars = [given.get(n) for n in self.operator.scalars]
        found = self._registered(*(given[n] for n in self._read), *scalars)
        outputs = self.operator.outputs
        made = []
        for name, value in zip(outputs, found if len(outputs) > 1 else (found,), strict=True):
            if name in given:
                given[name].copy_(value)
            made.append(arrays.get(name, given[name]) if name in given else value)
        return one_or_all(made)

    def _fresh(self, *values: Any) -> Any:
        """Run on tensors in order and scalars behind them (None or none: the default), as torch's operator; results are new."""
        assert self.operator is not None
        import torch

        scalars = zip(self.operator.scalars, values[len(self._read) :], strict=False)
        named = {n: v for n, v in scalars if v is not None}
        with torch.no_grad():
            return self._run(bind(self.operator, self._read, values[: len(self._read)], named))

    def _run(self, bound: Bound) -> Any:
        assert self.operator is not None
        import torch

        for name, tensor in bound.tensors.items():
            if self.backend.device is None and tensor.device.type != "cpu":
                said = f"{name} is on {tensor.device}, {self.backend.name} runs on the CPU"
                raise wrong(self.operator, said, self._read)
        held = {n: self._whole(n, t.detach()) for n, t in bound.tensors.items()}
        held, aside = apart(self.operator, self._read, bound, held)
        if bound.shape is not None:
            held = {n: t.view(-1) for n, t in held.items()}
        device = next((t.device for t in held.values()), "cuda" if self.backend.device else "cpu")
        for name in bound.outputs:
            kind = self.operator.types()[name].dtype
            dtype = getattr(torch, bound.dtype if kind == "T" else kind)
            shape = [evaluate_dim(d, bound.dims) for d in self.operator.types()[name].dims]
            held[name] = torch.empty(shape, dtype=dtype, device=device)
        if any(n == 0 for n in bound.dims.values()):
            self._empty(bound, held)
        else:
            run, order = self._prepared(bound, held)
            run(*(held[n] for n in order))
            self._keep_quick(bound, run, order)
        for name in self.operator.outputs:
            given = bound.tensors.get(name)
            if given is not None and (name in aside or given.is_neg() or not given.is_contiguous()):
                given.detach().copy_(held[name].view(given.shape))
        results = dict(bound.given)
        for name in bound.outputs:
            made = held[name] if bound.shape is None else held[name].reshape(bound.shape)
            results[name] = made.numpy() if bound.numpy else made
        return one_or_all([results[n] for n in self.operator.outputs if n in results])

    def _whole(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return `tensor` in row-major order; the first copy is said."""
        if tensor.is_neg():  # its memory holds the opposite of its values
            tensor = tensor.resolve_neg()
        if tensor.is_contiguous():
            return tensor
        if name not in self._told:
            self._told.add(name)
            warnings.warn(
                f"{self.entry.name}: {name} is strided and is copied at each call",
                stacklevel=4,
            )
        return tensor.contiguous()

    def _empty(self, bound: Bound, held: dict[str, torch.Tensor]) -> None:
        """Do without a kernel where a size is 0; sums over nothing are what torch says they are."""
        assert self.operator is not None
        wanted = [held[n] for n in self.operator.outputs]
        if all(t.numel() == 0 for t in wanted):
            return
        given = {n: held[n] for n in self._read}
        try:
            scalars = {**self.operator.scalar_values(bound.dims), **bound.scalars}
            found = self.operator.reference.fn(**given, **scalars)
        except (RuntimeError, IndexError, ZeroDivisionError) as e:
            raise wrong(self.operator, f"a size is 0, and torch says: {e}", self._read) from None
        for target, value in zip(
            wanted, found if isinstance(found, tuple) else (found,), strict=True
        ):
            if value.shape != target.shape:  # a convolution over no channels
                said = (
                    f"a size is 0, and torch gives {tuple(value.shape)} for {tuple(target.shape)}"
                )
                raise wrong(self.operator, said, self._read)
            target.copy_(value)

    def _prepared(
        self, bound: Bound, held: Mapping[str, torch.Tensor]
    ) -> tuple[Callable[..., None], tuple[str, ...]]:
        assert self.operator is not None
        dims, scalars = tuple(bound.dims.items()), tuple(bound.scalars.items())
        key = (dims, scalars, bound.dtype)
        found = self._calls.get(key)
        if found is None:
            with self._lock, said_after(1.0, f"septran: building and verifying {self!r}"):
                found = self._calls.get(key)
                if found is None:
                    found = self._calls[key] = self._made(bound)
        return found

    def _keep_quick(self, bound: Bound, run: Callable[..., None], order: tuple[str, ...]) -> None:
        """Let the next call of this kind go straight to the kernel, where its loader can.

        Only plain calls do: inputs in order, every output made or every one given, scalars at their defaults.
        """
        outputs = self._outputs
        key = (bound.shape, tuple(bound.dims.items()), bound.dtype)
        plain = (
            bound.outputs in (outputs, ())
            and not bound.scalars
            and tuple(n for n in order if n not in outputs) == self._read
            and tuple(n for n in order if n in outputs) == outputs
        )
        if not hasattr(run, "fresh") or bound.numpy or not plain or key in self._known:
            return
        flat = bound.shape is None or (len(bound.shape) == 1 and self._open is not None)
        if not flat and not hasattr(run, "shaped"):
            return  # sizes go along with tensors of the kernel's own rank alone
        call_directly(CompiledKernel, run)
        launch: Any = run if flat or bound.shape is None else run.shaped(bound.shape)  # type: ignore[attr-defined]
        into = launch.into if self._open is None else partial(launch.into, len(self._read))
        with self._lock:
            self._known.add(key)
            self._quick = (launch.fresh, *self._quick)[:_QUICK]
            if outputs:
                self._into = (into, *self._into)[:_QUICK]
        if self._recorder is not None:
            self._recorder.keep(run, [bound.tensors[n] for n in self._read], bound.shape)

    def _made(self, bound: Bound) -> tuple[Callable[..., None], tuple[str, ...]]:
        special = self._specialized(bound)
        if self._open is not None:
            return self._open.made(special, bound, self.accept)
        self.accept(special)
        names = tuple(p.name for p in special.kernel.params)
        return self._loaded(special), names

    def specialized(self, *values: Any, **named: Any) -> Specialized:
        """Return program, kernel source and problem for tensors like `values`; nothing is built or run."""
        if self.operator is not None:
            return self._specialized(bind(self.operator, self._read, values, named))
        key = _key(values)
        if key not in self._special:
            meant = signature(self.entry, values)
            self._special[key] = self._specialize(meant.given)
        return self._special[key]

    def _specialized(self, bound: Bound) -> Specialized:
        assert self.operator is not None
        if self._open is not None:
            return self._open.specialized(bound)
        given: dict[str, ArgType | int | float] = {}
        types = self.operator.types()
        for param in types:
            dtype = bound.dtype if types[param].dtype == "T" else types[param].dtype
            given[param] = ArgType(shape=self.operator.shape(param, bound.dims), dtype=dtype)
        given |= {**self.operator.scalar_values(bound.dims), **bound.scalars}
        ordered = {p: given[p] for p in self.entry.params}
        if bound.dtype not in self.backend.dtypes:
            have = ", ".join(self.backend.dtypes)
            raise wrong(self.operator, f"{self.backend.name} has no {bound.dtype}, only {have}")
        key = (tuple(bound.dims.items()), tuple(bound.scalars.items()), bound.dtype)
        if key not in self._special:
            self._special[key] = self._specialize(ordered, bound.dims)
        return self._special[key]

    def _specialize(
        self, given: Mapping[str, ArgType | int | float], dims: Mapping[str, int] | None = None
    ) -> Specialized:
        return specialize(
            self.logic,
            self.entry,
            self.mapping,
            self.backend,
            self.arch,
            self._machine,
            given,
            dims,
        )

    def source(self, *values: Any, **named: Any) -> str:
        """Return the kernel's source for tensors like `values`."""
        return self.specialized(*values, **named).kernel.source

    def verify(self, *values: Any, work: Path | None = None, **named: Any) -> Verdict:
        """Return the verdict on the kernel for tensors like `values` (emulated where there is no device)."""
        return self._judged(self.specialized(*values, **named), work, suspect=True)

    def _judged(
        self, found: Specialized, work: Path | None = None, *, suspect: bool = False
    ) -> Verdict:
        from septran.trial.judge import judge_at, judge_kernel  # a kernel in the cache needs none

        place = place_of(self.backend, self.arch, "auto", cores())
        with tempfile.TemporaryDirectory(prefix="septran-") as folder:
            at = work or Path(folder)
            judged = judge_kernel(place, found.kernel, found.problem, work=at, suspect=suspect)
            verdict = judged.verdict
            for number, other in enumerate(found.others):
                if verdict.passed:
                    verdict = judge_at(place, judged, other, work=at / f"size_{number}")
        self.verdicts[found.kernel.sha] = verdict
        return verdict

    def accept(self, found: Specialized, *, always: bool = False) -> None:
        """Raise unless the target is here and the kernel is right, now or in an earlier process.

        always: also where the user asked for kernels that are not verified.
        """
        self.callable_here()
        if not (self._verify or always):
            return
        key = verdict_key(found.kernel, found.problem, self.logic.sha, self.backend)
        if self.operator is not None and passed_before(key):
            return
        verdict = self._judged(found)
        if not verdict.passed:
            raise NotCorrect.of(verdict.code or "V202", verdict.message, help=verdict.hint)
        self.passed(found)

    def passed(self, found: Specialized) -> None:
        """Keep that this kernel is right."""
        remember_passed(verdict_key(found.kernel, found.problem, self.logic.sha, self.backend))

    def callable_here(self) -> None:
        """Raise EnvironmentProblem V111 where kernels of the target cannot be called from this process."""
        check_callable(self.backend, self.arch)

    def _loaded(self, found: Specialized) -> Callable[..., None]:
        run, library = mapped(self.backend, found.kernel)
        if self._recorder is not None and library is not None:
            self._recorder.loaded(run, found.kernel, library)
        return run

    def _run_plain(self, values: tuple[Any, ...]) -> Any:
        """Run a logic without an operator: outputs follow from the entry task's partitions."""
        import torch

        tensors = tuple(v for v in values if isinstance(v, torch.Tensor))
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            raise self._no_derivative("an input requires a gradient")
        if any(map(has_tangent, tensors)):
            raise self._no_derivative("an input carries a forward-mode derivative")
        if seen_by_torch(tensors):
            raise ArgumentError.of(
                "C140",
                f"{self.entry.name} has no operator, so torch knows no shapes of it: fake, meta or transformed tensors",
                help="add a task.Operator to the logic file",
            )
        key = _key(values)
        ready = self._ready.get(key)
        if ready is None:
            with self._lock, said_after(1.0, f"septran: building and verifying {self!r}"):
                ready = self._ready.get(key) or self._prepare(values)
                self._ready[key] = ready
        return ready(values, self._whole)

    def _prepare(self, values: tuple[Any, ...]) -> PlainCall:
        meant = signature(self.entry, values)
        found = self.specialized(*values)
        self.accept(found)
        names = [p for p in self.entry.params if p in meant.given and p not in meant.outputs]
        names += meant.outputs
        params = found.kernel.params
        return PlainCall(
            run=self._loaded(found),
            meant=meant,
            names=tuple(names),
            order=tuple(names.index(p.name) for p in params),
            written=frozenset(p.name for p in params if "w" in p.privilege),
        )


def _key(values: tuple[Any, ...]) -> object:
    return tuple((v.shape, v.dtype) if hasattr(v, "shape") else v for v in values)
