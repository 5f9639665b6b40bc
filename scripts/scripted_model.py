"""A model that knows the answers: what `septran eval --command` measures with it is the loop and the judge, no model.

    septran tasks export --backend cpp --no-verify -o tasks.jsonl
    septran eval --command "python scripts/scripted_model.py tasks.jsonl" --backend cpp -o scripted

It replies with the library's leaf as the data set has it. For one leaf in three it stumbles once: the first reply calls what
is not there, and the message of the compiler is what makes the second reply right; which third it is, the seed decides. A
leaf that the data set lacks is answered with nothing of use.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

STUMBLE = "not_there"


def reply(prompt: str, tasks: dict[str, tuple[str, str]], seed: int = 0) -> str:
    """Return a reply to a prompt; tasks: key of a leaf -> language and body. seed: of the evaluation, from 0 on."""
    found = re.search(r"Leaf `\w+` \(task \w+, key (\w+)\)", prompt)
    if found is None or found[1] not in tasks:
        return "I do not know this leaf."
    language, body = tasks[found[1]]
    if (sum(found[1].encode()) + seed) % 3 == 0 and STUMBLE not in prompt:
        body = f"{STUMBLE}()" + (";" if language in ("cpp", "cuda", "c") else "") + "\n"
    return f"```{language}\n{body}```\n"


def known(path: Path) -> dict[str, tuple[str, str]]:
    """Return the solutions of a file of `septran tasks export` by their leaves' keys."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["solution"] is not None:
            found[row["spec"]] = (row["language"], row["solution"])
    return found


if __name__ == "__main__":
    # an evaluation's seeds are a thousand apart, a cell's calls one
    asked = int(os.environ.get("SEPTRAN_SEED", "0")) // 1000
    sys.stdout.write(reply(sys.stdin.read(), known(Path(sys.argv[1])), asked))
