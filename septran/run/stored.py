"""A stored run's kernel: read back, and verified again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from septran.errors import ConfigError, InputError
from septran.kernel import Kernel
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run import store
from septran.run.require import with_exit_code
from septran.run.result import Result
from septran.settings import Settings
from septran.trial.place import place_in
from septran.trial.stored_leaves import judge_stored
from septran.verify.evidence import bad_name


def verify_again(
    run: store.Run,
    *,
    settings: Settings,
    require: tuple[str, ...],
    progress: Callable[[str], None],
    where: str = "auto",
) -> Result:
    """Verify a stored run's kernel with new secret inputs; the result goes beside the old one.

    Raises:
        ConfigError: C136, the run holds no kernel.
    """
    request, kernel, data = stored_kernel(run)
    plan = resolve(request)
    lowered = lower_plan(plan)
    problem = problem_of(plan, lowered.program, plan.dims)
    progress(f"verifying {kernel.main} of {run.id}")
    number = len([p for p in run.dir.glob("verify*") if p.is_dir()])
    start = time.perf_counter()
    judged = judge_stored(
        place_in(settings, plan.backend, kernel.arch, where),
        lowered,
        kernel,
        problem,
        work=run.dir / f"verify{number + 1}",
        seed=settings.seed,
    )
    result = replace(
        data.with_verdict(judged.verdict),
        seconds={
            "compile": round(judged.built.seconds, 3),
            "verify": round(time.perf_counter() - start - judged.built.seconds, 3),
        },
    )
    result = with_exit_code(result, judged, require)
    run.event("verified again", level=result.level, exit_code=result.code)
    return result


def _plain_text(path: Path) -> str:
    if path.is_symlink():
        raise ValueError(f"{path.name} is a link")
    return path.read_text(encoding="utf-8")


def stored_kernel(run: store.Run) -> tuple[GenRequest, Kernel, Result]:
    """Return a finished run's request, kernel and result.

    Raises:
        ConfigError: C136, the run holds no kernel. InputError: V220, torch computes a part of it.
    """
    if left := _by_torch(run):
        raise InputError.of(
            "V220",
            f"torch computes a part of run {run.id}: {left}",
            help="only what is a kernel altogether is verified again, bundled or attested; repeat the run with `septran gen`",
        )
    try:
        about = json.loads((run.dir / "kernel.json").read_text(encoding="utf-8"))
        text = (run.dir / "result.json").read_text(encoding="utf-8")
        data = Result.from_json(json.loads(text))
        wrong = bad_name(about["files"], about["main"], about["entry"])
        if wrong:
            raise ValueError(wrong)
        files = tuple((name, _plain_text(run.dir / name)) for name in about["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ConfigError.of(
            "C136",
            f"run {run.id} holds no finished kernel: {e}",
            help="`septran runs` lists the runs",
        ) from e
    asked = dict(run.info().get("request", {}))
    for name in ("task_file", "logic", "mapping", "config", "output"):
        if asked.get(name):
            asked[name] = Path(asked[name])
    asked["require"] = tuple(asked.get("require") or ())
    known = set(GenRequest.__slots__)
    request = GenRequest(**{k: v for k, v in asked.items() if k in known})
    plan = resolve(request)
    params = problem_of(plan, lower_plan(plan).program, plan.dims).params
    kernel = Kernel(
        name=about["name"],
        backend=about["backend"],
        arch=about["arch"],
        entry=about["entry"],
        params=params,
        main=about["main"],
        files=files,
        leaves=(),
    )
    return request, kernel, data


def _by_torch(run: store.Run) -> str:
    """Return what torch computes of a run, "" for nothing."""
    try:
        data = json.loads((run.dir / "result.json").read_text(encoding="utf-8"))
        return ", ".join(str(one["operators"]) for one in data.get("host_leaves") or ())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
