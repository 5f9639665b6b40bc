"""A run as a signed bundle, and a bundle verified again: here, by this machine's torch and this SepTran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from septran.backends import get as get_backend
from septran.errors import InputError
from septran.kernel import Kernel
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run import store
from septran.run.prove import prove_lowered
from septran.run.require import exit_code
from septran.run.result import ABSENT, Result
from septran.run.stored import judge_again
from septran.settings import Settings
from septran.trial.place import place_in
from septran.trial.stored_leaves import judge_stored
from septran.verify.evidence import Bundle, bad_name, export_bundle, read_bundle

_ASKED = ("op", "backend", "arch", "dims", "dtype")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """A bundle to verify. logic: the user's own logic file, for a kernel of no known operator."""

    path: Path
    logic: Path | None = None
    require: tuple[str, ...] = ()


def export_run(
    run: store.Run, path: Path, *, settings: Settings, progress: Callable[[str], None]
) -> Path:
    """Verify a run's kernel again and write verdict and kernel as a signed bundle; return its path.

    What lies in the run's folder may have been written by anybody; only what is seen now is signed.

    Raises:
        ConfigError: C136, no kernel. InputError: V220, the verdict is not an accurate one.
    """
    again = judge_again(run, settings=settings, require=(), progress=progress)
    request, kernel = again.request, again.kernel
    asked = {name: getattr(again.result, name) for name in _ASKED} | {"op": request.op}
    if request.dynamic:
        asked["dynamic"] = list(request.dynamic)
    if request.math:
        asked["math"] = request.math
    plan = resolve(request)
    proof = prove_lowered(plan, lower_plan(plan), kernel=kernel).certificate
    return export_bundle(
        kernel, again.judged.verdict, path, request=asked, certificate=proof.to_json()
    )


def verify_bundle(
    recheck: Recheck, *, settings: Settings, progress: Callable[[str], None]
) -> Result:
    """Build the bundle's sources and verify them with new secret inputs; the result is a stored run.

    The reference is this installation's (or the given logic's): nothing in the bundle runs but the
    kernel, and that only in the sandbox.

    Raises:
        InputError: V221 not a bundle or one for an unknown operator, V222 it was changed.
    """
    bundle = read_bundle(recheck.path)
    request = _request(bundle, recheck)
    plan = resolve(request)
    lowered = lower_plan(plan)
    problem = problem_of(plan, lowered.program, plan.dims)
    kernel = _kernel(bundle, recheck.path, problem.params)
    run = store.create(
        {**bundle.request, "bundle": str(recheck.path)},
        label=("bundle", plan.operator.name, plan.backend.name),
        settings=settings,
    )
    progress(f"signed by {bundle.key[:16]}; verifying {kernel.main} in {run.dir}")
    judged = judge_stored(
        place_in(settings, get_backend(kernel.backend), kernel.arch),
        lowered,
        kernel,
        problem,
        work=run.dir / "verify",
        seed=settings.seed,
    )
    result = Result.of_plan(plan).with_verdict(judged.verdict)
    result = replace(
        result,
        backend=kernel.backend,
        arch=kernel.arch,
        mapping=ABSENT,
        policy=ABSENT,
        leaves=list(bundle.kernel.get("leaves") or ()),
        bundle={
            "file": str(recheck.path),
            "key": bundle.key,
            "level": str(bundle.verdict.level),
        },
        run=str(run.dir),
        exit_code=exit_code(judged.verdict, recheck.require),
    )
    data = result.to_json()
    run.write_sealed("result.json", data)
    summary = {"level": data["level"], "where": data["where"]}
    run.finish("finished", exit_code=result.code, summary=summary)
    return result


def _request(bundle: Bundle, recheck: Recheck) -> GenRequest:
    asked: Mapping[str, Any] = bundle.request
    op = None if recheck.logic else asked.get("op")
    if recheck.logic is None and not op:
        raise InputError.of(
            "V221",
            f"{recheck.path} is about an operator of its author's own",
            help="give the logic file it was made from: --logic FILE",
        )
    return GenRequest(
        op=op,
        logic=recheck.logic,
        backend=str(bundle.kernel["backend"]),
        arch=str(bundle.kernel["arch"]) or None,
        dims={str(name): int(size) for name, size in bundle.verdict.dims.items()},
        dtype=asked.get("dtype"),
        dynamic=tuple(map(str, asked.get("dynamic", ()))),
        math=str(asked.get("math") or ""),
    )


def _kernel(bundle: Bundle, path: Path, params: Any) -> Kernel:
    about = bundle.kernel
    wrong = bad_name(bundle.files, str(about["main"]), str(about["entry"]))
    if wrong:
        raise InputError.of("V221", f"{path}: {wrong}")
    kernel = Kernel(
        name=str(about["name"]),
        backend=str(about["backend"]),
        arch=str(about["arch"]),
        entry=str(about["entry"]),
        params=params,
        main=str(about["main"]),
        files=tuple(bundle.files.items()),
        leaves=(),
    )
    if kernel.sha != about["sha"]:
        raise InputError.of("V222", f"{path}: the sources are not those the verdict is about")
    return kernel
