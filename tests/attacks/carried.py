"""What carries an attack to a user who only reads a file: a signed bundle, and a mapping with leaves of its own.

Both are tried as their commands try them. An error with a code refuses the file before anything runs; any other exception fails the test.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran import settings
from septran.errors import SeptranError
from septran.kernel import Kernel
from septran.outcome import Level, Status
from septran.plan.floor import library_leaves
from septran.plan.problem import problem_of
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run.bundle import Recheck, verify_bundle
from septran.trial.judge import judge_kernel
from septran.trial.place import place_in
from septran.verify.evidence import kernel_json, signed
from septran.verify.verdict import Verdict
from tests.attacks.families import emitted

if TYPE_CHECKING:
    from tests.attacks.attack import Attack

TITLES = {
    "cpp bundle": "Signed bundle of a C++ kernel",
    "cuda bundle": "Signed bundle of a CUDA C++ kernel",
    "mapping": "Mapping file with leaves",
}
_BASES = {"cpp bundle": "compile", "cuda bundle": "cuda"}
_GEMM: dict[str, Any] = {"op": "gemm", "backend": "cpp", "dims": {"M": 40, "N": 24, "K": 33}}
_REFUSED = ("V210", "V217")


def tried(attack: Attack, folder: Path) -> tuple[str, str]:
    """Return the codes of what a run shows and of what refuses the file before."""
    try:
        if attack.language == "mapping":
            verdict = _mapped(attack, folder)
            code, message, passed = verdict.code, verdict.message, verdict.passed
        else:
            found = _bundle(attack, folder).to_json()
            passed = found["level"] in ("accurate", "attested")
            code, _, message = str(found.get("reason") or "").lstrip("[").partition("] ")
    except SeptranError as error:
        assert error.codes[0] not in ("V214", "V002"), error
        return "", f"{error} ({error.codes[0]})"
    if code in _REFUSED:
        return "", f"{message} ({code})"
    return ("" if passed else code), ""


def _bundle(attack: Attack, folder: Path) -> Any:
    """Sign what an attacker made of an emitted kernel and verify it as a user does who was sent it."""
    base, _, own = attack.language.partition(" ")
    kernel, problem = emitted(attack.source or _BASES[f"{base} {own}"])
    files = dict(kernel.files)
    for old, new in attack.edits:
        name = next((n for n, text in files.items() if old in text), "")
        assert name, f"no file of the emitted kernel holds {old!r}"
        files[name] = files[name].replace(old, new)
    kernel = replace(kernel, files=tuple({**files, **dict(attack.beside)}.items()), leaves=())
    text = signed(_merged(_claimed(kernel, dict(problem.dims)), json.loads(attack.fields)), folder)
    path = folder / "bundle.json"
    path.write_text(text + "\n", encoding="utf-8")
    found = settings.load(project=folder)
    return verify_bundle(Recheck(path=path), settings=found, progress=lambda _: None)


def _claimed(kernel: Kernel, dims: dict[str, int]) -> dict[str, Any]:
    verdict = replace(
        Verdict.of(kernel, where="emulated", dims=dims, seed=1),
        level=Level.ATTESTED,
        status=Status.PASSED,
    )
    return {
        "schema": "septran.evidence/1",
        "kernel": json.loads(json.dumps(kernel_json(kernel))),
        "verdict": verdict.to_json(),
        "request": {"op": kernel.name, "dtype": "float32"},
    }


def _merged(data: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return `data` with other fields; a value of null takes the field away."""
    found = dict(data)
    for name, value in changes.items():
        if value is None:
            found.pop(name)
        elif isinstance(value, dict) and isinstance(found.get(name), dict) and value:
            found[name] = _merged(found[name], value)
        else:
            found[name] = value
    return found


def _mapped(attack: Attack, folder: Path) -> Verdict:
    for name, text in attack.beside:
        (folder / name).write_bytes(text.encode("latin-1"))
    path = folder / "mapping.yaml"
    path.write_text(attack.source, encoding="utf-8")
    plan = resolve(GenRequest(**_GEMM, mapping=path))
    lowered = lower_plan(plan)
    kernel = plan.backend.emit(
        lowered.program, library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    )
    problem = problem_of(plan, lowered.program, plan.dims)
    place = place_in(settings.load(project=folder), plan.backend, plan.arch)
    return judge_kernel(place, kernel, problem, work=folder / "run").verdict
