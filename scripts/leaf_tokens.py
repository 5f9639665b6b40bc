"""Print the table of docs/agents.md: distinct leaves and prompt tokens for all operators on a backend.

    python scripts/leaf_tokens.py [BACKEND] [--check]

--check exits 1 when a prompt is longer than the limit or docs/agents.md does not hold the printed table.
Tokens are estimates (septran.agent.chat.estimate_tokens); no model is asked.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from septran.agent.chat import messages_tokens
from septran.agent.config import load
from septran.agent.prompt import render_prompt
from septran.errors import SeptranError
from septran.kernel import LeafSpec
from septran.plan import catalog
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.trial.judge import distinct_specs

LIMIT = 9000
DOCS = Path(__file__).parents[1] / "docs" / "agents.md"


def specs_of(op: str, backend: str) -> tuple[LeafSpec, ...]:
    """Return the distinct leaves of an operator at its sample dims."""
    return distinct_specs(lower_plan(resolve(GenRequest(op=op, backend=backend))).program)


def table(backend_name: str) -> tuple[str, int]:
    """Return the Markdown table and the longest prompt."""
    from septran import backends

    backend = backends.get(backend_name)
    config = load(backend.docs)
    seen: dict[str, str] = {}
    rows, total, longest = [], 0, 0
    for entry in catalog.ops():
        op = str(entry["name"])
        try:
            specs = specs_of(op, backend_name)
        except SeptranError as e:
            rows.append(f"| {op} | - | - | {e.codes[0]} |")
            continue
        total += len(specs)
        tokens = [messages_tokens(render_prompt(s, backend, config)) for s in specs]
        longest = max(longest, *tokens)
        shared = sorted({seen[s.key] for s in specs if s.key in seen})
        for s in specs:
            seen.setdefault(s.key, op)
        rows.append(f"| {op} | {len(specs)} | {max(tokens)} | {', '.join(shared)} |")
    head = [
        "| operator | leaves | tokens of the longest first prompt | shared with |",
        "|---|---|---|---|",
    ]
    last = f"| all | {total}, {len(seen)} distinct | {longest} | |"
    return "\n".join([*head, *rows, last]) + "\n", longest


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description="tokens per leaf prompt")
    parser.add_argument("backend", nargs="?", default="cpp")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text, longest = table(options.backend)
    sys.stdout.write(text)
    if options.check:
        if longest >= LIMIT:
            sys.stderr.write(f"a prompt has {longest} tokens; the limit is {LIMIT}\n")
            return 1
        if options.backend == "cpp" and text not in DOCS.read_text(encoding="utf-8"):
            sys.stderr.write("docs/agents.md holds another table; paste this one\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
