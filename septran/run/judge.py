"""Judge a kernel that SepTran did not write: a user's file against a torch reference.

The file's host function is called as its author calls it; everything of it runs in a confined child. What is
established, and by what, is the same as for SepTran's own kernels (docs/verification.md).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran import backends
from septran.backends.base import (
    Backend,
    Compiled,
    Foreign,
    Host,
    HostCall,
    Reading,
    Unjudged,
)
from septran.errors import ConfigError, Span
from septran.kernel import Kernel, KernelParam, content_hash
from septran.plan.wanted import Wanted, load_wanted, read_source
from septran.prove.foreign.launch import Proof
from septran.run.finding import finding_of, told, with_place_hint
from septran.run.host_call import Numbers
from septran.run.host_numbers import Guess
from septran.run.judge_call import called
from septran.run.judge_device import OnGpu, on_device, with_compiler, with_device
from septran.run.judge_includes import Whole, text_of, whole_of
from septran.run.judge_numbers import with_other_numbers
from septran.run.judge_proof import prove, unexplained, with_proof
from septran.run.judge_sizes import Sized, with_other_sizes
from septran.run.judge_states import with_states
from septran.run.judge_steps import AFTER, BITS, built_and_ran, ran, refused, with_unset
from septran.run.judge_target import candidates, entry_of, target_of
from septran.run.judge_torch import Computed, computed, with_torch
from septran.run.judgement import Judgement, JudgeRequest
from septran.settings import Settings
from septran.trial.place import Place, device_place, place_in
from septran.verify.aligned import with_alignment
from septran.verify.moved import with_other_surroundings
from septran.verify.noted import with_noted_accesses
from septran.verify.points import points
from septran.verify.races import watch
from septran.verify.sought import search_for, with_sought_inputs
from septran.verify.verdict import Verdict, write_evidence
from septran.verify.verify import Request
from septran.verify.warp_accesses import with_files

Progress = Callable[[str], None]
INLINE_COPY = "kernel.py"
"""what messages call a Python file whose CUDA is written inside it"""


def judge(
    request: JudgeRequest,
    *,
    settings: Settings,
    work: Path | None = None,
    progress: Progress = lambda text: None,
) -> Judgement:
    """Return what was found out about the kernel in `request.file`.

    work: folder for the evidence (verdict.json, child.log, the reduced file); None: it is thrown away. progress: called with each
    step that begins.

    Raises:
        ConfigError: C134, C151, C171 the reference; C170 the file or its entry; C172 the entry's parameters
            do not fit the reference; C173 it uses what cannot be judged here.
        EnvironmentProblem: V110, V214.
    """
    target = target_of(request.file, request.backend, text_of(request.file))
    with _told_where(request.file):
        whole = whole_of(request.file, target[1])

    def judged(asked: JudgeRequest, folder: Path | None) -> Judgement:
        try:
            return _judged_whole(asked, settings, whole, target, folder, progress)
        except ConfigError as e:
            raise whole.in_files(e, request.file) from e

    def again(guess: Guess) -> Judgement:
        progress(f"taking {', '.join(f'{name} = {number}' for name, number in guess)}")
        asked = replace(request, numbers={**request.numbers, **dict(guess)})
        return judged(asked, None if work is None else work / "other_numbers")

    return with_other_numbers(judged(request, work), again)


def _judged_whole(
    request: JudgeRequest,
    settings: Settings,
    whole: Whole,
    target: tuple[Backend, Foreign],
    work: Path | None,
    progress: Progress,
) -> Judgement:
    """Return the judgement of a file with what it imports or includes, over all its readings."""
    text, (backend, foreign) = whole.text, target
    device = _device(request, settings, backend, foreign)
    with _told_where(request.file):
        readings = foreign.readings(text)
    with tempfile.TemporaryDirectory(prefix="septran-judge-") as name:
        folder = (work or Path(name)).absolute()  # children run in folders of their own
        found: list[Judgement] = []
        done: list[Reading] = []
        for number, read in enumerate(readings):
            own = folder / f"reading{number}" if number else folder
            there = None if number else device
            last = _judged(request, settings, backend, foreign, read, own, whole, there, progress)
            last = _with_lines(last, whole)
            if number and read.flags and last.verdict.code == "V201":
                continue  # nobody has such a build; it is not among those that the card names
            if read.versions and last.code and last.verdict.code not in (*BITS, "V216"):
                continue  # what raises with another version, or is not there in this one, accuses nobody
            found.append(last)
            done.append(read)
            if last.code:
                return _for_devices(last, read.devices)
    names = foreign.elsewhere(text) if foreign.elsewhere is not None else ()
    return _on_all(found[0], done, names)


def _device(
    request: JudgeRequest, settings: Settings, backend: Backend, foreign: Foreign
) -> Place | None:
    """Return the place of a GPU that the file is also run on, None for none; raises EnvironmentProblem V113 when one was asked for."""
    if request.where == "emulated" or foreign.device is None:
        return None
    place = device_place(settings, backend, foreign.device, backends.resolve_arch(backend, None))
    if request.where == "device":
        place.require()
    return None if place.trouble else place


def _with_lines(found: Judgement, whole: Whole) -> Judgement:
    """Return a judgement whose lines are those of the files, not of the text that they make together."""
    name, verdict = found.request.file.name, found.verdict
    if not whole.files:
        return found
    verdict = replace(
        verdict,
        message=whole.said(verdict.message, name),
        hint=whole.said(verdict.hint, name),
        log=whole.said(verdict.log, name),
        not_checked=tuple(whole.said(text, name) for text in verdict.not_checked),
    )
    proof = replace(found.proof, not_proven=whole.said_all(found.proof.not_proven, name))
    return replace(found, verdict=verdict, proof=proof)


def _on_all(found: Judgement, readings: list[Reading], names: tuple[str, ...]) -> Judgement:
    """Return a judgement that holds where `readings` say, and nowhere else. names: what the text asks besides."""
    verdict, told = found.verdict, []
    if len(readings) > 1:
        what = "builds" if any(r.flags or r.threads for r in readings) else "devices"
        what = "versions" if any(r.versions for r in readings) else what
        told.append(
            f"other {what}: it tells them apart, and was judged where {', where '.join(r.devices for r in readings)}"
        )
    if names:
        told.append(f"code for other compilers, machines and sizes: it asks {', '.join(names)}")
    return replace(found, verdict=verdict.without(*told))


def _for_devices(found: Judgement, devices: str) -> Judgement:
    """Return what was found, saying for which devices when the text is another for others."""
    if not devices or found.verdict.code == "V210":  # of the text, which is the same for all
        return found
    message = f"where {devices}: {found.verdict.message}"
    return replace(found, verdict=replace(found.verdict, message=message))


def _judged(
    request: JudgeRequest,
    settings: Settings,
    backend: Backend,
    foreign: Foreign,
    read: Reading,
    folder: Path,
    whole: Whole,
    device: Place | None,
    progress: Progress,
) -> Judgement:
    """Return what was found out about one reading of a file, and on a device; the evidence goes into `folder`."""
    text = read.text
    with _told_where(request.file):
        hosts = candidates(request.file, request.entry, foreign, text)
        if not request.entry:  # what a file beside it holds is called by the file's own functions
            hosts = tuple(h for h in hosts if not whole.file_of(h.line)) or hosts
        used = foreign.unsupported(text) if foreign.unsupported is not None else ()
    if used:
        raise ConfigError.of(
            "C173",
            f"{request.file}: it uses {', '.join(used)}, which cannot be judged without a device",
            Span(str(request.file), hosts[0].line),
        )
    wanted = load_wanted(request.reference, specials=request.specials)
    files = (request.file, request.reference)

    def fits(one: Host) -> bool:
        try:
            called(
                files, foreign, one, wanted, request.numbers, request.allow_torch, request.in_place
            )
        except ConfigError:
            return False
        return True

    with _told_where(request.file):
        host = entry_of(request.file, hosts, fits)

    def call_of(other: Wanted, numbers: Numbers) -> HostCall:
        return called(files, foreign, host, other, numbers, request.allow_torch, request.in_place)

    call = call_of(wanted, request.numbers)
    arch = backends.resolve_arch(backend, read.arch)
    with _told_where(request.file):
        foreign, kernel, left_out = _kernel(foreign, text, call, wanted.problem.params, arch)
    count = read.threads or (foreign.threads(text) if foreign.threads is not None else 0)
    options: tuple[tuple[str, Any], ...] = (("flags", read.flags),) if read.flags else ()
    options += (("threads", count),) if count else ()
    options += (("versions", read.versions),) if read.versions else ()
    kernel = replace(kernel, options=(*kernel.options, *options))

    problem = replace(wanted.problem, points=points(text))
    place = replace(place_in(settings, backend, arch, "emulated"), build=foreign.build)
    place.require()
    sessions = replace(
        place.sessions,
        loader=foreign.loader,
        **dict(foreign.session),  # type: ignore[arg-type]
    )
    proof, beside = Proof(), Computed()
    search = None if foreign.sought is not None else search_for(kernel, sessions)
    objections = foreign.objections(text, host.name) if foreign.objections else ()
    if objections:
        verdict = refused(
            request.file, request.seed, kernel.sha, backend.name, place.where, objections
        )
    else:
        progress(f"building {request.file.name}")
        (folder / "build").mkdir(parents=True, exist_ok=True)
        with _told_where(request.file):
            built = place.build(kernel, folder / "build")
        asked = Request(
            where=place.where,
            language="",
            seed=request.seed,
            sessions=sessions,
            gate=False,
            unordered=foreign.unordered(text),
            search=search,
        )
        progress("running it on secret inputs")
        verdict = ran(kernel, built, problem, folder, asked)
        if verdict.passed:
            progress("looking for what few inputs, sizes and machines show")
        if foreign.noted is not None:
            at = folder / "noted"
            verdict = with_noted_accesses(verdict, kernel, problem, foreign.noted, at, sessions)
        if foreign.watched is not None:
            at = folder / "watched"
            verdict = watch(verdict, kernel, built, wanted.problem, foreign.watched, at)
        if foreign.aligned is not None:
            at = folder / "aligned"
            verdict = with_alignment(verdict, kernel, wanted.problem, foreign.aligned, at)
        # after the threads: a race changes results in any build, whatever its variables hold
        if verdict.passed and foreign.unset is not None:
            verdict = with_unset(verdict, kernel, foreign.unset, problem, folder, asked)
        how = foreign.sought or search
        placed = foreign.placed(text) if foreign.placed is not None else frozenset()
        verdict = with_sought_inputs(verdict, kernel, built, problem, how, folder / "sought", sessions, placed)  # fmt: skip
        verdict = with_other_surroundings(verdict, kernel, built, problem, sessions)
        if foreign.sizes is not None and not (read.flags or read.threads):
            sized = Sized(
                asked=foreign.sizes(text),
                call=call_of,
                kernel=lambda c, w: foreign.kernel(text, c, w.problem.params, arch)[0],
                judged=lambda k, p, at: built_and_ran(place, k, p, at, replace(asked, search=None)),
                numbers=request.numbers,
                native=place.where == "native",
                given=request.sizes == "given",
            )
            verdict = with_other_sizes(verdict, sized, request.reference, wanted, folder / "sizes")
        if kernel.main.endswith(".py"):
            verdict = with_states(verdict, folder, kernel.source)
        if call.allow_torch:
            beside = computed(folder)
            verdict = with_torch(verdict, beside, wanted.operators)
        if verdict.passed or unexplained(verdict):
            progress("proving what holds for all of them")
            params = wanted.problem.params
            proof = prove(foreign, text, str(request.file), call, params, folder)
            verdict = with_proof(verdict, proof)
    shown = OnGpu()
    if verdict.passed and device is not None:
        progress("running it on the GPU")
        at = folder / "device"
        found, shown = on_device(foreign, whole.text, call, device, problem, at, seed=request.seed)
        verdict = with_device(verdict, found, shown, kernel.sha)
    skipped: tuple[str, ...] = (
        () if request.specials else ("NaN, infinities, denormals: ask with --specials",)
    )
    kept = foreign.between_calls(text, host.name) if foreign.between_calls is not None else ()
    if kept:
        skipped += (AFTER.format(", ".join(kept)),)
    verdict = _in_the_users_file(with_place_hint(told(verdict)), kernel, request.file)
    unseen = [text for text in foreign.unchecked if not shown.settles(text)]
    made = Compiled()
    if verdict.passed and not shown.calls and foreign.compiled is not None:
        progress("asking its compiler")
        made = foreign.compiled(kernel, folder / "compiler")
        unseen = with_compiler(unseen, made)
    missing = (*verdict.not_checked, *unseen, *skipped)
    verdict = replace(verdict, not_checked=tuple(dict.fromkeys(missing)))
    write_evidence(verdict, folder, files={})
    own = (whole.text, read_source(request.reference, "C134"))
    return Judgement(
        request=request,
        backend=backend.name,
        entry=host.name,
        verdict=verdict,
        finding=finding_of(verdict),
        left_out=left_out,
        proof=proof,
        by_torch=beside.told(),
        device=shown,
        compiler=made.done,
        guesses=call.taken,
        taken=dict(call.taken[0]) if call.taken else {},
        sha=content_hash([*own, host.name, backend.name]),
    )


def _kernel(
    foreign: Foreign, text: str, call: HostCall, params: tuple[KernelParam, ...], arch: str
) -> tuple[Foreign, Kernel, tuple[str, ...]]:
    """Return who judges the file, the kernel, and what of the file was left out.

    Raises:
        Unjudged: nobody does.
    """
    other = foreign.otherwise
    if other is None or not call.allow_torch:
        try:
            return (foreign, *foreign.kernel(text, call, params, arch))
        except Unjudged:
            if other is None:
                raise
    return (other, *other.kernel(text, call, params, arch))


def _in_the_users_file(verdict: Verdict, kernel: Kernel, file: Path) -> Verdict:
    """Return the verdict with the file's own name for that of the copy that was built, whose lines are the file's.

    What was generated around the CUDA text of a Python file keeps its name: its lines are nobody's.
    """
    python = (Path(kernel.main).with_suffix(".py").name, INLINE_COPY)
    names = python if file.suffix == ".py" else (kernel.main,)
    copies = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")

    def said(text: str) -> str:
        return copies.sub(lambda _: file.name, text)

    texts: Any = {name: said(getattr(verdict, name)) for name in ("message", "hint", "log")}
    return replace(verdict, **texts, accesses=with_files(verdict.accesses, said))


@contextmanager
def _told_where(file: Path) -> Iterator[None]:
    """Give what a file says that cannot be judged its place: C173."""
    try:
        yield
    except Unjudged as e:
        raise ConfigError.of("C173", f"{file}: {e.what}", Span(str(file), e.line)) from e
