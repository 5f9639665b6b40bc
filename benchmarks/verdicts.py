"""How many verdicts `septran serve` gives, and whether a second run gives the same bits.

    python benchmarks/verdicts.py --count 10000 --minutes 8 --dir runs/verdicts

Submissions are few, seeds are not: submission k is reply k mod N with seed k. Each of two ledgers (DIR/first, DIR/second)
is filled by a server of its own; what a ledger has is not judged again, so the same command goes on after a kill or the end
of its minutes. The last line is a septran.verdicts/1 object; exit 1 when a reward differs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TASKS = (
    {"op": "transpose", "backend": "cpp", "dims": {"M": 33, "N": 18}},
    {"op": "relu", "backend": "cpp", "dims": {"N": 315}},
    {"op": "add", "backend": "cpp", "dims": {"N": 315}},
)
NOTHING = "```cpp\nlong i = 0;\n```"
HOSTILE = '```cpp\nsystem("id");\n```'


@contextmanager
def serving(folder: Path, workers: int, *, home: Path | None = None) -> Iterator[tuple[str, str]]:
    """Start a server with its ledger in `folder`, and a SEPTRAN_HOME of its own where asked; yield its address and token."""
    env = {**os.environ, **({"SEPTRAN_HOME": str(home)} if home else {})}
    command = [sys.executable, "-m", "septran", "serve", "--port", "0", "--dir", str(folder)]
    command += ["--workers", str(workers), "--queue", "64", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], (folder / "token").read_text().strip()
    finally:
        process.terminate()
        process.wait()


def ask(url: str, token: str, path: str, body: object = None) -> tuple[int, dict, int]:
    """Return status, answer and seconds to wait."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data=data)
    request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer), 0
    except urllib.error.HTTPError as e:
        return e.code, json.load(e), int(e.headers.get("Retry-After") or 0)


def submissions(count: int) -> list[dict]:
    """Return `count` different submissions: the library's leaf, one that does nothing, one that the gate refuses."""
    from septran.environment.tasks import Asked, leaf_tasks

    found = []
    for task in TASKS:
        asked = Asked(op=task["op"], backend=task["backend"], dims=task["dims"])
        for leaf in leaf_tasks(asked):
            solution = leaf.solution()
            right = [f"```cpp\n{solution}\n```"] if solution else []
            replies = (*right, NOTHING, HOSTILE)
            found += [{**task, "leaf": leaf.spec.task, "reply": reply} for reply in replies]
    return [{**found[k % len(found)], "seed": k} for k in range(count)]


def fill(folder: Path, wanted: list[dict], workers: int, until: float) -> dict[int, str]:
    """Submit what `folder` lacks until the clock says `until`; return seed -> sha of the reward."""
    done: dict[int, str] = {}
    with serving(folder, workers) as (url, token):
        open_: dict[str, int] = {}
        todo = list(reversed(wanted))
        while (todo or open_) and time.time() < until:
            while todo and len(open_) < 16 * workers:
                status, found, _ = ask(url, token, "/v1/submissions", todo[-1])
                if status == 429:
                    break
                open_[found["id"]] = todo.pop()["seed"]
            for name in list(open_)[:workers]:
                _, found, _ = ask(url, token, f"/v1/submissions/{name}?wait=5")
                if found["state"] == "unavailable":
                    raise SystemExit(f"{name} could not be judged: {found['result']}")
                if found["state"] == "done":
                    done[open_.pop(name)] = json.dumps(found["result"], sort_keys=True)
    return done


def main() -> int:
    """Fill both ledgers and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=9)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--dir", type=Path, default=Path("runs/verdicts"))
    args = parser.parse_args()
    # ends as sys.exit does, so that the server that was started ends, too
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    wanted = submissions(args.count)
    seconds, found = 0.0, []
    for name in ("first", "second"):
        folder = args.dir / name
        folder.mkdir(parents=True, exist_ok=True)
        before = len(list(folder.glob("done/*.json")))
        start = time.time()
        found.append(fill(folder, wanted, args.workers, start + 30 * args.minutes))
        spent = time.time() - start
        made = len(list(folder.glob("done/*.json"))) - before
        seconds += spent
        sys.stderr.write(f"{name}: {made} verdicts in {spent:.0f} s\n")
    both = found[0].keys() & found[1].keys()
    differ = sorted(k for k in both if found[0][k] != found[1][k])
    rungs = Counter(json.loads(found[0][k]).get("rung", "error") for k in both)
    print(
        json.dumps(
            {
                "schema": "septran.verdicts/1",
                "asked": args.count,
                "verdicts": len(found[0]),
                "compared": len(both),
                "differ": differ,
                "rungs": dict(sorted(rungs.items())),
                "seconds": round(seconds, 1),
            }
        )
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
