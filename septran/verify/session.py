"""One confined child that runs a kernel on secret inputs, one call at a time, at the parent's word.

The parent writes inputs, poisons outputs, says go, and copies the output bytes the moment the child says
done. Nothing else the child says counts in the kernel's favour.
"""

from __future__ import annotations

import json
import os
import re
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import assets
from septran.errors import SeptranError
from septran.gpu import Gpu
from septran.kernel import Kernel
from septran.preloaded import Preload
from septran.sandbox import patience
from septran.verify.arena import Arena, Held, Placement, slack_bytes, tensor_bytes
from septran.verify.cases import Case, draw
from septran.verify.figures import read_diagnostics, read_figures
from septran.verify.pipe import Line, Pipe
from septran.verify.problem import Problem
from septran.verify.sandbox import MIB, Confined, Limits, SandboxResult

if TYPE_CHECKING:
    import numpy as np

# a kernel's own threads get a moment after these calls, in which a late write would land
_SETTLE_S = 0.015
_SETTLE_AFTER = (2, 6)
# what outputs hold before a call, call by call
_HELD: tuple[Held, ...] = ("nan", "nan", "numbers", "nan", "nan", "zeros")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One planned call: which case, where in memory. repeat_of: index of the call it repeats exactly."""

    case: Case
    placement: Placement
    repeat_of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A call that returned: output bytes at that moment, seconds, and the child's claims.

    beside: outputs whose neighbouring bytes were written. changed: inputs that differ after the call
    (only seen where the kernel works on copies in device memory; elsewhere a write to an input faults).
    """

    call: Call
    outputs: Mapping[str, bytes]
    beside: tuple[str, ...]
    seconds: float
    claims: Mapping[str, Any]
    changed: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Transcript:
    """All that was observed. failure: "" or harness | crash | timeout | error | load | protocol | starved.

    harness: the child, or what it needs, broke before any of the kernel's own code could run.
    starved: the machine did not run the child for so long that nothing is known.
    hosted: the child was the static host, whose facts the parent has seen from outside.
    burst: calls that were repeated without a pause; unsteady: not all left the same bits.
    """

    ran: list[Ran] = field(default_factory=list)
    last: dict[Placement, Mapping[str, bytes]] = field(default_factory=dict)
    ready: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""
    message: str = ""
    failed_call: Call | None = None
    late: tuple[str, ...] = ()
    result: SandboxResult | None = None
    diagnostics: tuple[Mapping[str, object], ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    accesses: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    not_enforced: tuple[str, ...] = ()
    hosted: bool = False
    burst: int = 0
    unsteady: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """How children are run.

    loader: file under verify_templates/loaders/. threads: for the kernel. call_timeout_s: one call.
    load_timeout_s: start, imports and load. budget_s: stop planning further calls after this, more on a
    busy machine.
    gpu: the device that the loader runs kernels on. guard: bytes around each tensor in its memory.
    calls: system calls that it has although others do not.
    forks: the child may start processes (a DSL that compiles while it is loaded).
    emulator: the command that runs programs of the kernel's processor, when it is not this machine's.
    """

    loader: str = "c_abi.py.j2"
    threads: int = 2
    call_timeout_s: float = 30.0
    load_timeout_s: float = 60.0
    budget_s: float = 20.0
    minimum_calls: int = 6
    memory_bytes: int = 4096 * MIB
    address_space: bool = True
    ro_paths: tuple[Path, ...] = ()
    rw_paths: tuple[Path, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    alignment: int | None = None
    gpu: Gpu | None = None
    guard: int = 0
    forks: bool = False
    calls: tuple[str, ...] = ()
    emulator: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seek:
    """A search that a Python child makes for inputs (septran/verify/sought.py).

    library: of the search. seconds: processor time that it may take. found: called when it is over, returns the problem with the inputs
    it made, and the calls. transcript: of these calls, or why there are none.
    """

    library: Path
    seconds: float
    found: Callable[[], tuple[Problem, Sequence[Call]]]
    transcript: Transcript = field(default_factory=Transcript)


def loader_capabilities(loader: str) -> frozenset[str]:
    """Return the words after `capabilities:` in the loader's first line."""
    first = assets.read(f"verify_templates/loaders/{loader}").partition("\n")[0]
    found = re.search(r"capabilities:([\w ,]*)", first)
    return frozenset(re.findall(r"\w+", found.group(1))) if found else frozenset()


def loader_preload(loader: str, env: Mapping[str, str]) -> Preload | None:
    """Return what the words after `preloads:` in the loader's first line name, for children with the environment `env`."""
    first = assets.read(f"verify_templates/loaders/{loader}").partition("\n")[0]
    words = [w.strip(" #}") for w in first.partition("preloads:")[2].split(",") if w.strip()]
    own = dict(w.split("=", 1) for w in words if "=" in w)
    modules = tuple(w for w in words if "=" not in w)
    return Preload(modules, tuple(sorted({**env, **own}.items()))) if modules else None


def run_calls(
    kernel: Kernel,
    artifact: Path,
    problem: Problem,
    calls: Sequence[Call],
    *,
    settings: Sessions,
    work: Path,
    noise: np.random.Generator,
    seek: Seek | None = None,
) -> Transcript:
    """Return what happened when the kernel was called on `calls` in one child.

    `work` is the child's working folder; the rendered child and its diagnostics stay there.
    seek: what the child seeks further inputs with after these calls.
    """
    from jinja2 import TemplateError

    try:
        return _run_calls(kernel, artifact, problem, calls, settings, work, noise, seek)
    except (OSError, MemoryError, TemplateError, SeptranError) as error:
        # ours, whatever it is: the parent runs nothing of the kernel's
        text = str(error).partition("\n")[0]
        return Transcript(failure="harness", message=f"{type(error).__name__}: {text}")


def _run_calls(
    kernel: Kernel,
    artifact: Path,
    problem: Problem,
    calls: Sequence[Call],
    settings: Sessions,
    work: Path,
    noise: np.random.Generator,
    seek: Seek | None,
) -> Transcript:
    work.mkdir(parents=True, exist_ok=True)
    # what a kernel's copies need of a tensor's address, it needs of the secret placements too
    least = settings.alignment or kernel.alignment
    arena = Arena(problem.params, alignment=least, guard=settings.guard)
    go_read, go_write = os.pipe()
    done_read, done_write = os.pipe()
    script = work / "verify_child.py"
    transcript = Transcript(not_enforced=arena.not_enforced)
    try:
        seeks = None if seek is None else seek.library
        plan = write_plan(kernel, artifact, arena, settings, go_read, done_write, seeks)
        script.write_text(render(plan, settings.loader), encoding="utf-8")
        child = start_child(
            script, artifact, work, settings, (*arena.descriptors, go_read, done_write), seeks
        )
        os.close(go_read)
        os.close(done_write)
        go_read = done_write = -1
        pipe = Pipe(go_write, done_read, child)
        converse(pipe, arena, problem, calls, settings, noise, transcript)
        if not transcript.failure:
            settle()
            _fetch(pipe, transcript, settings)
        if seek is not None and not transcript.failure:
            note_late_writes(arena, transcript)
            _seek(pipe, arena, seek, settings, noise)
            transcript.last = {} if seek.transcript.failure else seek.transcript.last
        os.close(go_write)
        go_write = -1
        transcript.result = _finish(child)
        if seek is not None:
            seek.transcript.result = transcript.result
            if seek.transcript.failure:  # of no call that counts
                transcript.result = replace(transcript.result, why="", rc=0)
        note_late_writes(arena, transcript)
    finally:
        for fd in (go_read, go_write, done_read, done_write):
            if fd >= 0:
                os.close(fd)
        arena.close()
    transcript.diagnostics = read_diagnostics(work)
    transcript.figures = read_figures(work)
    return transcript


def _seek(
    pipe: Pipe,
    arena: Arena,
    seek: Seek,
    settings: Sessions,
    noise: np.random.Generator,
) -> None:
    """Have the child seek inputs, and call the kernel on those."""
    transcript = seek.transcript
    if not pipe.send(b"?"):
        _fail(pipe, transcript, "crash", "seek", None)
        return
    message = pipe.receive(seek.seconds)
    if not isinstance(message, dict) or "error" in message:
        _fail(pipe, transcript, message, "seek", None)
        return
    problem, calls = seek.found()
    make_calls(pipe, arena, problem, calls, settings, noise, transcript)


def write_plan(
    kernel: Kernel,
    artifact: Path,
    arena: Arena,
    settings: Sessions,
    go: int,
    done: int,
    seeks: Path | None = None,
) -> str:
    """Return the plan the child reads, as JSON text. seeks: the library that seeks inputs, where it is to."""
    import numpy as np

    inputs, outputs = arena.descriptors
    own = Path(assets.__file__).resolve().parents[1]
    # an environment that sees another one's packages has no numpy in its own folder
    places = (sysconfig.get_path("purelib"), str(Path(np.__file__).parents[1]), str(own))
    params = [asdict(p) for p in kernel.params]
    plan = {
        "artifact": str(artifact.resolve()),
        "params": params,
        "slots": {k: [asdict(s) for s in v] for k, v in arena.slots.items()},
        "files": {"inputs": inputs, "outputs": outputs},
        "pipes": {"go": go, "done": done},
        "paths": list(dict.fromkeys(places)),
        "meta": {
            "entry": kernel.entry,
            "params": params,
            "options": dict(kernel.options),
            "arch": kernel.arch,
            "backend": kernel.backend,
            "threads": settings.threads,
            "gpu": _gpu(settings.gpu),
        },
        **({} if seeks is None else {"seeks": str(seeks)}),
    }
    return json.dumps(plan, default=str)


def _gpu(found: Gpu | None) -> dict[str, object] | None:
    """What a device loader needs to know; four times the L2 cache is what it flushes between timed calls."""
    if found is None:
        return None
    flush = max(4 * found.l2, 128 * MIB)
    return {"vendor": found.vendor, "library": found.library, "flush": flush}


def render(plan: str, loader: str, name: str = "kernel_verify_template.j2") -> str:
    """Return the child's program."""
    template = assets.environment("verify_templates").get_template(name)
    announces = "announces" in loader_capabilities(loader)
    return template.render(plan=repr(plan), loader=loader, announces=announces)


def start_child(
    script: Path,
    artifact: Path,
    work: Path,
    settings: Sessions,
    fds: tuple[int, ...],
    seeks: Path | None = None,
) -> Confined:
    """Start the rendered child in the sandbox."""
    import sys

    threads = str(settings.threads)
    env = {
        "OMP_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        **dict(settings.env),
    }
    return Confined(
        [sys.executable, "-I", "-S", script],
        rw_dir=work,
        ro_paths=(artifact.resolve().parent, *settings.ro_paths, *([seeks] if seeks else [])),
        rw_paths=settings.rw_paths,
        limits=Limits(
            timeout_s=settings.load_timeout_s + 4 * settings.budget_s + settings.call_timeout_s,
            cpu_s=int(600 + settings.budget_s * 8),
            memory_bytes=settings.memory_bytes,
            file_bytes=256 * MIB,
            forks=settings.forks,
            calls=settings.calls,
            address_space=settings.address_space,
        ),
        env=env,
        pass_fds=fds,
        preload=loader_preload(settings.loader, env),
    )


def converse(
    pipe: Line,
    arena: Arena,
    problem: Problem,
    calls: Sequence[Call],
    settings: Sessions,
    noise: np.random.Generator,
    transcript: Transcript,
) -> None:
    """Make the planned calls one after the other and record what was seen in `transcript`."""
    begins = pipe.receive(settings.load_timeout_s)
    if not isinstance(begins, dict) or "begins" not in begins:
        _fail(pipe, transcript, begins, "load", None)
        why = (
            transcript.message if isinstance(begins, dict) else f"{begins} before the kernel began"
        )
        transcript.failure, transcript.message = "harness", why
        return
    first = pipe.receive(settings.load_timeout_s)
    if not isinstance(first, dict) or "error" in first:
        _fail(pipe, transcript, first, "load", None)
        return
    transcript.ready = first
    make_calls(pipe, arena, problem, calls, settings, noise, transcript)


def make_calls(
    pipe: Line,
    arena: Arena,
    problem: Problem,
    calls: Sequence[Call],
    settings: Sessions,
    noise: np.random.Generator,
    transcript: Transcript,
) -> None:
    """Make the planned calls of a child that is ready, and record what was seen in `transcript`."""
    start = time.monotonic()
    drawn: tuple[Case, dict[str, Any]] | None = None
    for index, call in enumerate(calls):
        spent = time.monotonic() - start
        if index >= settings.minimum_calls and spent > settings.budget_s * patience():
            transcript.skipped = tuple(dict.fromkeys(c.case.name for c in calls[index:]))
            return
        if drawn is None or drawn[0] != call.case:
            drawn = (call.case, draw(problem, call.case))
        if index in _SETTLE_AFTER:
            settle()
        if not _fetch(pipe, transcript, settings):
            return
        note_late_writes(arena, transcript)
        arena.fill(call.placement, drawn[1], noise, held=_HELD[index % len(_HELD)])
        before = arena.snapshot(call.placement)
        begun = time.perf_counter()
        if not pipe.send(call.placement[0].encode()):
            _fail(pipe, transcript, "crash", "call", call)
            return
        message = pipe.receive(settings.call_timeout_s)
        seconds = time.perf_counter() - begun
        pages = arena.snapshot(call.placement)
        if not isinstance(message, dict) or "error" in message:
            _fail(pipe, transcript, message, "call", call)
            return
        transcript.last[call.placement] = pages
        transcript.ran.append(_record(arena, problem, call, before, pages, seconds, message))


def settle() -> None:
    """Wait for threads that a call left to write what they still write; a busy machine comes to them later."""
    time.sleep(_SETTLE_S * patience())


def _fetch(pipe: Line, transcript: Transcript, settings: Sessions) -> bool:
    """Have the child copy what device memory holds now into the slots; on the host it is there already."""
    if settings.gpu is None:
        return True
    for placement in transcript.last:
        if not pipe.send(placement[0].upper().encode()):
            _fail(pipe, transcript, "crash", "call", transcript.ran[-1].call)
            return False
        message = pipe.receive(settings.call_timeout_s)
        if not isinstance(message, dict) or "error" in message:
            _fail(pipe, transcript, message, "call", transcript.ran[-1].call)
            return False
    return True


def _record(
    arena: Arena,
    problem: Problem,
    call: Call,
    before: Mapping[str, bytes],
    pages: Mapping[str, bytes],
    seconds: float,
    claims: Mapping[str, Any],
) -> Ran:
    slots = {slot.name: slot for slot in arena.slots[call.placement]}
    read_only = [p.name for p in problem.params if p.privilege == "r" and p.name in pages]
    return Ran(
        call=call,
        outputs={name: tensor_bytes(slots[name], raw) for name, raw in pages.items()},
        beside=tuple(
            name
            for name, raw in pages.items()
            if slack_bytes(slots[name], raw) != slack_bytes(slots[name], before[name])
        ),
        seconds=seconds,
        claims=claims,
        changed=tuple(
            name
            for name in read_only
            if tensor_bytes(slots[name], pages[name]) != tensor_bytes(slots[name], before[name])
        ),
    )


def _fail(
    pipe: Line,
    transcript: Transcript,
    message: dict[str, Any] | str,
    stage: str,
    call: Call | None,
) -> None:
    transcript.failed_call = call
    if isinstance(message, dict):
        transcript.failure = "load" if stage == "load" else "error"
        transcript.message = str(message.get("error", ""))[:2000]
        return
    transcript.failure = message
    transcript.message = stage
    if message != "crash":
        pipe.kill(message)


def _finish(child: Confined) -> SandboxResult:
    deadline = time.monotonic() + 2.0
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    if child.poll() is None:
        child.kill("did not end")
    return child.wait()


def note_late_writes(arena: Arena, transcript: Transcript) -> None:
    """Record outputs whose bytes changed since their call returned."""
    failed = transcript.failed_call
    for placement, pages in transcript.last.items():
        if failed is not None and failed.placement == placement:
            continue
        now = arena.snapshot(placement)
        late = tuple(name for name, raw in pages.items() if now[name] != raw)
        transcript.late = tuple(dict.fromkeys((*transcript.late, *late)))
