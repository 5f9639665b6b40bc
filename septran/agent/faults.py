"""Our own few faults of a model call; everything a client or a server does ends in one of them.

| kind      | what happened                                                    | what the loop does            |
|-----------|------------------------------------------------------------------|-------------------------------|
| setup     | other 4xx, a 429 for a spent quota, no key, no server            | stops the run (L502, exit 3)  |
| refused   | 400, 403 or 422 of a content filter                              | counts as a reply that refuses|
| context   | the prompt (or max_tokens) is too long for the model             | trims and asks again          |
| busy      | 429 or 5xx after all retries, or a Retry-After above the cap     | stops the run when it happens |
| network   | connection refused, reset or dropped after all retries           | to two calls in a row, or to  |
| deadline  | the call took longer than its total deadline                     | the last call (L505, exit 3)  |
| malformed | HTML, broken JSON, no choices, a body above the size limit       |                               |

`on_unreachable: library` goes on with the library's leaf instead of stopping.
"""

from __future__ import annotations

from typing import Literal

from septran.errors import EnvironmentProblem

FaultKind = Literal["setup", "refused", "context", "busy", "network", "deadline", "malformed"]

CODES: dict[str, str] = {
    "setup": "L502",
    "refused": "L502",
    "context": "L503",
    "busy": "L505",
    "network": "L505",
    "deadline": "L505",
    "malformed": "L505",
}


class Fault(Exception):
    """A model call that gave no reply. `retry_after` is what the server asked for, in seconds."""

    def __init__(
        self,
        kind: FaultKind,
        message: str,
        *,
        retry: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.retry = retry
        self.retry_after = retry_after
        self.status = status

    def as_problem(self, where: str, *, command: bool = False) -> EnvironmentProblem:
        """Return the error a person sees when this fault ends the run. where: the endpoint, or the program of a `command`."""
        helps = {
            "setup": "check base_url, model and the key's variable with `septran config`",
            "network": "is the server running? `curl " + where.rstrip("/") + "/models` must answer",
            "malformed": "does base_url end in the API's root (mostly /v1)? A proxy or a login page may answer",
        }
        if command:
            helps["setup"] = f"does {where} run in this shell, and end with 0?"
        problem = EnvironmentProblem.of(
            CODES[self.kind],
            f"the model {'behind --command' if command else 'at'} {where} cannot be used: {self.message}",
            help=helps.get(self.kind, "continue with --resume, or use --writer library"),
        )
        assert isinstance(problem, EnvironmentProblem)
        return problem
