"""The judge's corpus on the GPU of this machine: what honest files do there, and which planted mistakes a GPU alone shows.

    python benchmarks/judged_gpu.py --minutes 4 --rows judged_gpu.jsonl

Each file (tests/judge/corpus.toml) goes through the device step of `septran judge --where device` and nothing else: the emulation, which is
asked first for users, is left out, so that a row says what a GPU by itself would have told. Every row is on disk before the next begins.
Exit 0: every honest file is right; 1: not all; 3: no GPU here.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from septran import backends, settings  # noqa: E402
from septran.backends.base import Host  # noqa: E402
from septran.errors import SeptranError  # noqa: E402
from septran.kernel import content_hash  # noqa: E402
from septran.plan.wanted import load_wanted  # noqa: E402
from septran.run.judge_call import called  # noqa: E402
from septran.run.judge_device import on_device  # noqa: E402
from septran.run.judge_target import candidates, entry_of, target_of  # noqa: E402
from septran.trial.place import Place, device_place  # noqa: E402
from tests.judge.corpus import BUGS, HONEST, REFERENCES, Honest  # noqa: E402

Row = dict[str, Any]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a part of the name")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no file after")
    parser.add_argument("--jobs", type=int, default=12, help="files side by side")
    parser.add_argument("--call-s", type=float, default=30.0, help="seconds that a call may take")
    parser.add_argument("--rows", type=Path, default=ROOT / "benchmarks/results/judged_gpu.jsonl")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    end = time.monotonic() + 60 * args.minutes
    rows = _known(args.rows)
    todo = [work for work in _works(args.only) if work[2] not in rows]
    place = _place_for("x.cu", "", args.call_s)
    if place is None or place.trouble is not None:
        sys.stderr.write(f"nothing was run: {place and place.trouble}\n")
        return 3
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        waiting = {pool.submit(_judged, args.call_s, end, *work): work for work in todo}
        for done in concurrent.futures.as_completed(waiting):
            row = done.result()
            if row is not None:
                rows[row["key"]] = row
                with args.rows.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(row) + "\n")
                sys.stdout.write(f"{row['name']} {row['bug']}: {row['said'][:160]}\n")
                sys.stdout.flush()
    honest = [r for r in rows.values() if not r["bug"]]
    planted = [r for r in rows.values() if r["bug"]]
    right, shown = sum(r["ok"] for r in honest), sum(not r["ok"] and r["seen"] for r in planted)
    sys.stdout.write(f"honest {right} of {len(honest)} right; planted {shown} of {len(planted)} shown\n")  # fmt: skip
    return 0 if right == len(honest) else 1


def _known(path: Path) -> dict[str, Row]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def _works(only: str) -> Iterator[tuple[Honest, str, str, str]]:
    """Yield honest files first: file, the mistake's name, key, text."""
    for honest, bug, text in (
        *((h, "", h.text()) for h in HONEST),
        *((b.honest, b.name, b.text()) for b in BUGS),
    ):
        if only in f"{honest.name} {bug}" and not honest.file.endswith(".cpp"):
            yield honest, bug, content_hash([honest.name, bug, text]), text


def _place_for(name: str, text: str, call_s: float) -> Place | None:
    backend, foreign = target_of(Path(name), "", text)
    if foreign.device is None:
        return None
    own = replace(settings.load(), run_timeout_s=call_s)
    return device_place(own, backend, foreign.device, backends.resolve_arch(backend, None))


def _judged(call_s: float, end: float, honest: Honest, bug: str, key: str, text: str) -> Row | None:
    """Return what the GPU said of one file, None where it is for no GPU or there was no time."""
    if time.monotonic() > end:
        return None
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="septran-judged-gpu-") as folder:
        file = Path(folder) / honest.file
        file.write_text(text, encoding="utf-8")
        place = _place_for(str(file), text, call_s)
        if place is None:
            return None
        row: Row = {
            "key": key,
            "name": honest.name,
            "bug": bug,
            "gpu": str(place.sessions.gpu),
            "backend": place.backend.name,
        }
        try:
            found, shown = _on_device(file, text, honest, place, Path(folder))
        except SeptranError as e:
            return {**row, "ok": False, "seen": False, "said": _without_paths(str(e), folder)}
    row |= {"ok": bool(found and found.passed), "seen": found is not None}
    row["said"] = _without_paths(shown.why or (found.message if found else ""), folder)
    row |= {"code": found.code if found else ""}
    row |= {"us": round(1e6 * shown.seconds, 1), "wall_s": round(time.monotonic() - begun, 1)}
    return row


def _without_paths(said: str, folder: str) -> str:
    """Return what was said with files named from here, not from the root of this machine."""
    return said.replace(f"{folder}/", "").replace(f"{ROOT}/", "")


def _on_device(file: Path, text: str, honest: Honest, place: Place, folder: Path) -> Any:
    _, foreign = target_of(file, "", text)
    reference = REFERENCES / honest.reference
    wanted, files = load_wanted(reference), (file, reference)

    def fits(one: Host) -> bool:
        try:
            called(files, foreign, one, wanted, honest.numbers, ())
        except SeptranError:
            return False
        return True

    host = entry_of(file, candidates(file, honest.entry, foreign, text), fits)
    call = called(files, foreign, host, wanted, honest.numbers, ())
    at = folder / "device"
    return on_device(foreign, text, call, place, wanted.problem, at, seed=None, budget_s=0.2)


if __name__ == "__main__":
    raise SystemExit(main())
