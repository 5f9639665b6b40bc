"""A worker of a batch: cells in on stdin, one JSON line each; results in files, a word on stdout.

Started as `python -m septran.batch.worker`. The result file is written whole before the word is said,
so a cell counts exactly when its file exists. The worker dies with its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from septran.batch.same_text import keep, ran_as, taken_over, text_of
from septran.errors import InputError, SeptranError, Unsupported
from septran.run.gen import GenRequest, Result, gen
from septran.seal import write_sealed
from septran.settings import load
from septran.surroundings import as_problem

_PR_SET_PDEATHSIG = 1
_REFUSED = (("C162",), ("C122",))
"""A target without kernels with open dims; a vendor without a call, a type or a form that a kernel needs."""
_PATHS = ("task_file", "logic", "mapping", "config")


def main() -> int:
    """Serve cells until stdin ends."""
    with answers() as say:
        for line in sys.stdin:
            job = json.loads(line)
            folders = {"into": Path(job["runs"]), "texts": Path(job["texts"])}
            data = run_cell(job["cell"], **folders, timed=job["time"])
            keep_result(Path(job["result"]), data)
            say(job["cell"]["key"])
    return 0


def keep_result(path: Path, data: Mapping[str, Any]) -> None:
    """Write the result of a cell, <run>/cells/KEY.json."""
    name = f"{path.parent.name}/{path.name}"
    write_sealed(path.parent.parent, name, json.dumps(data, default=str) + "\n")


@contextmanager
def answers() -> Iterator[Callable[[str], None]]:
    """Give the function that tells the parent that a job has ended; the process dies with its parent.

    Raises:
        SystemExit: the parent has gone already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:  # the parent went before the line above
        raise SystemExit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints to stdout must not look like an answer

    def say(key: str) -> None:
        stream.write(json.dumps({"key": key}) + "\n")
        stream.flush()

    yield say


def run_cell(
    cell: Mapping[str, Any], *, into: Path, timed: bool, texts: Path | None = None
) -> dict[str, Any]:
    """Return the septran.gen/1 object of a cell; whatever goes wrong is in it.

    texts: folder of what cells with the same text found out when they ran; None: every cell runs.
    """
    words = dict(cell["request"])
    for name in _PATHS:
        if words.get(name):
            words[name] = Path(words[name])
    for name in ("require", "dynamic"):
        words[name] = tuple(words.get(name) or ())
    words.setdefault("op", None)
    compiled = bool(words.pop("torch_compile", False)) and timed
    request = GenRequest(**words)
    head = Result.of_cell(cell)
    try:
        result = _run(request, into, timed, texts)
        if compiled:
            result = _beside_compile(request, result)
        found = replace(result, exit_code=result.code, cell=cell["id"], key=cell["key"])
    except Exception as e:  # a bug here must not cost the other cells
        problem = as_problem(e)
        if problem is None:
            found = replace(head, level="failed", exit_code=4, traceback=traceback.format_exc())
            return replace(found, reason=f"{type(e).__name__}: {e}").to_json()
        away = isinstance(problem, Unsupported) or not isinstance(problem, InputError)
        away = away or problem.codes in _REFUSED
        found = replace(head, level="unavailable" if away else "failed")
        found = replace(found, exit_code=3 if away else problem.exit_code)
        found = replace(found, reason=_first(problem), errors=problem.to_json())
    return found.to_json()


def _run(request: GenRequest, into: Path, timed: bool, texts: Path | None) -> Result:
    """Return `gen` of a cell, or, where its text ran for another arch, that verdict and this arch's own compiler's word."""
    settings = load()
    text = None if texts is None else text_of(request, settings)
    ran = None if text is None or texts is None else ran_as(text, texts)
    if ran is not None:
        only_built = replace(request, stop_after="compile")
        result = gen(only_built, settings=settings, progress=_silent, into=into, timed=False)
        return taken_over(result, ran) if result.level == "compiled" else result
    result = gen(request, settings=settings, progress=_silent, into=into, timed=timed)
    if text is not None and texts is not None:
        keep(text, result, texts)
    return result


def _beside_compile(request: GenRequest, result: Result) -> Result:
    """Return the result of a timed kernel with its speed against torch.compile."""
    from septran.run.bench import against_compile

    data = result.to_json()
    speed = dict(data.get("speedup") or {})
    if not (data.get("timing") or {}).get("kernel_s"):
        return result
    return replace(
        result, speedup={**speed, "torch_compile": against_compile(request, data, load())}
    )


def _first(e: SeptranError) -> str:
    first = e.diagnostics[0]
    return f"[{first.code}] {first.message}"


def _silent(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
