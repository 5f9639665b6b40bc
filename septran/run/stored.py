"""A stored run's kernel: read back, and verified again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from septran.document import plain_text
from septran.errors import ConfigError, InputError
from septran.kernel import Kernel
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run import store
from septran.run.require import with_exit_code
from septran.run.result import Result
from septran.seal import seal_file
from septran.settings import Settings
from septran.trial.judge import Judged
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
    return judge_again(
        run, settings=settings, require=require, progress=progress, where=where
    ).result


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A stored kernel as it was read, and what was found of that: files that change meanwhile are another kernel's."""

    request: GenRequest
    kernel: Kernel
    judged: Judged
    result: Result


def judge_again(
    run: store.Run,
    *,
    settings: Settings,
    require: tuple[str, ...],
    progress: Callable[[str], None],
    where: str = "auto",
) -> Again:
    """Return a stored run's kernel verified with new secret inputs; raises as `verify_again`.

    Of a run whose files were edited only what is found now is told: nothing of its speed, its writers or its proofs.
    """
    request, kernel, data = stored_kernel(run)
    edited = [n for n in ("run.json", "result.json") if not run.is_sealed(n)]
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
    seal_file(run.dir, f"verify{number + 1}/verdict.json")
    if edited:
        progress(
            f"{' and '.join(edited)} of {run.id} was edited, or written in another SEPTRAN_HOME: only what is verified now is told"
        )
        known = Result.of_plan(plan)
        data = replace(known, kernel=str(run.dir / kernel.main), leaves=[], run=str(run.dir))
    result = replace(
        data.with_verdict(judged.verdict),
        seconds={
            "compile": round(judged.built.seconds, 3),
            "verify": round(time.perf_counter() - start - judged.built.seconds, 3),
        },
    )
    result = with_exit_code(result, judged, require)
    run.event("verified again", level=result.level, exit_code=result.code)
    return Again(request=request, kernel=kernel, judged=judged, result=result)


_READ: dict[str, Any] = {
    "str": str,
    "str | None": str,
    "Path | None": str,
    "bool": bool,
    "int | None": int,
    "float | None": (int, float),
    "tuple[str, ...]": (list, tuple),
    "Mapping[str, int]": dict,
}
"""what a field of a request is in JSON, by its annotation"""


def _asked(words: dict[str, Any]) -> GenRequest:
    """Return the request that run.json says; TypeError where it says something else."""
    known = {f.name: str(f.type) for f in fields(GenRequest)}
    found: dict[str, Any] = {}
    for name in known.keys() & words.keys():
        value, kind = words[name], known[name]
        if value is None and kind != "str":
            continue  # as nobody asked
        if (
            not isinstance(value, _READ[kind])
            or (kind.endswith("[str, ...]") and not all(isinstance(one, str) for one in value))
            or (kind.startswith("Mapping") and not all(type(one) is int for one in value.values()))
        ):
            raise TypeError(f"run.json asks for {name}={str(value)[:80]!r}")
        str(value).encode()  # a lone surrogate is no text
        if kind.startswith("tuple"):
            value = tuple(value)
        found[name] = Path(value) if kind.startswith("Path") else value
    if not any(found.get(name) for name in ("op", "task_file", "logic")):
        raise TypeError("run.json asks for no operator")
    return GenRequest(**{"op": None, **found})


def _plain_text(path: Path) -> str:
    if path.is_symlink():
        raise ValueError(f"{path.name} is a link")
    return plain_text(path)


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
        about = json.loads(plain_text(run.dir / "kernel.json"))
        text = plain_text(run.dir / "result.json")
        data = Result.from_json(json.loads(text))
        wrong = bad_name(about["files"], about["main"], about["entry"])
        if wrong:
            raise ValueError(wrong)
        files = tuple((name, _plain_text(run.dir / name)) for name in about["files"])
        request = _asked(dict(run.info().get("request", {})))
        named = [str(about[n]) for n in ("name", "backend", "arch", "entry", "main")]
        if named != [about[n] for n in ("name", "backend", "arch", "entry", "main")]:
            raise TypeError("kernel.json does not name its kernel")
    except FileNotFoundError as e:
        raise ConfigError.of(
            "C136",
            f"run {run.id} holds no finished kernel: it has no {Path(e.filename).name}",
            help=f"`septran gen --resume {store.reference(run)}` goes on with it",
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise ConfigError.of(
            "C136",
            f"run {run.id} holds no finished kernel: {e}",
            help="`septran runs` lists the runs",
        ) from e
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
        data = json.loads(plain_text(run.dir / "result.json"))
        return ", ".join(str(one["operators"]) for one in data.get("host_leaves") or ())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
