"""Our own few faults of a model call; everything a client or a server does ends in one of them.

| kind      | what happened                                                    | what the loop does       |
|-----------|------------------------------------------------------------------|--------------------------|
| setup     | 401, 403, 404, 400 that is not about length, no key, no server   | stops the run (exit 3)   |
| context   | the prompt (or max_tokens) is too long for the model             | trims and asks again     |
| busy      | 429 or 5xx after all retries, or a Retry-After above the cap     | counts a failed attempt  |
| network   | connection refused, reset or dropped after all retries           | counts a failed attempt  |
| deadline  | the call took longer than its total deadline                     | counts a failed attempt  |
| malformed | HTML, broken JSON, no choices, a body above the size limit       | counts a failed attempt  |
"""

from __future__ import annotations

from typing import Literal

from septran.errors import EnvironmentProblem

FaultKind = Literal["setup", "context", "busy", "network", "deadline", "malformed"]

CODES: dict[str, str] = {
    "setup": "L502",
    "context": "L503",
    "busy": "L504",
    "network": "L505",
    "deadline": "L504",
    "malformed": "L506",
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

    def as_problem(self, where: str) -> EnvironmentProblem:
        """Return the error a person sees when this fault ends the run."""
        helps = {
            "setup": "check base_url, model and the key's variable with `septran config`",
            "network": "is the server running? `curl " + where.rstrip("/") + "/models` must answer",
        }
        problem = EnvironmentProblem.of(
            CODES[self.kind],
            f"the model at {where} cannot be used: {self.message}",
            help=helps.get(self.kind, "try again later, or use --writer library"),
        )
        assert isinstance(problem, EnvironmentProblem)
        return problem
