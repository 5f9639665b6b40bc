"""A worker of the environment: submissions in on stdin, one JSON line each; results in files, a word on stdout.

Started as `python -m septran.environment.worker` by `septran.batch.pool.Worker`, with which it shares the manners: the
result file is written whole before the word is said, and the worker dies with its parent.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from septran.batch.worker import answers
from septran.environment.bench import measure
from septran.environment.ledger import record
from septran.environment.step import Submission, step
from septran.errors import Failure, SeptranError
from septran.settings import load
from septran.verify.known import remembering

_REMEMBERED = 512 << 20
"""bytes of references that stay: a trainer's replies for one task and seed are judged by the same"""


def main() -> int:
    """Serve submissions until stdin ends."""
    with answers() as say, remembering(_REMEMBERED):
        for line in sys.stdin:
            job = json.loads(line)
            record(Path(job["ledger"]), job["id"], judged(job["submission"]))
            say(job["id"])
    return 0


def judged(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the septran.reward/1 or septran.measured/1 object of a submission, or the septran.error/1 object of why there is none."""
    sent = Submission.from_json(data)
    try:
        if sent.bench:
            return measure(sent, settings=load()).to_json()
        return step(sent, settings=load()).to_json()
    except SeptranError as e:
        return Failure.of(e).to_json()
    except Exception as e:  # a bug here must not cost the other submissions
        sys.stderr.write(traceback.format_exc())
        return Failure.said(4, "INTERNAL", f"{type(e).__name__}: {e}").to_json()


if __name__ == "__main__":
    sys.exit(main())
