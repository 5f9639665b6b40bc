"""What a run has used and may still use: calls, tokens, money, minutes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from septran.agent.chat import Reply
from septran.agent.writer import Budget, Usage


class Ledger:
    """Shared by all leaves of a run and by threads; `prices` per million tokens."""

    def __init__(
        self, prices: Mapping[str, Any] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start the clock."""
        self._prices = prices or {}
        self._clock = clock
        self._start = clock()
        self._lock = threading.Lock()
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return self._usage

    def price(self, prompt: int, completion: int) -> float:
        """Return the cost of that many tokens."""
        return (
            prompt * float(self._prices.get("prompt_per_million", 0.0))
            + completion * float(self._prices.get("completion_per_million", 0.0))
        ) / 1e6

    def add(self, reply: Reply) -> Usage:
        """Count a reply, its failed tries included; return the total."""
        used = Usage(
            calls=1 + reply.retries,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            cost=self.price(reply.prompt_tokens, reply.completion_tokens),
            seconds=reply.seconds,
            estimated=reply.estimated,
        )
        with self._lock:
            self._usage = self._usage + used
            return self._usage

    def failed(self) -> None:
        """Count a call that gave no reply."""
        with self._lock:
            self._usage = self._usage + Usage(calls=1)

    def over(self, budget: Budget) -> str:
        """Return why nothing more may be asked, "" while there is room."""
        used = self._usage
        if budget.tokens is not None and used.tokens >= budget.tokens:
            return f"the budget of {budget.tokens} tokens is used"
        if budget.cost is not None and used.cost >= budget.cost > 0:
            return f"the budget of {budget.cost:g} is used"
        if budget.minutes is not None and self._clock() - self._start >= budget.minutes * 60:
            return f"the budget of {budget.minutes:g} minutes is used"
        return ""

    def room(self, budget: Budget, prompt: int, wanted: int) -> int:
        """Return how many completion tokens a call may ask for: at most `wanted`, 0 = do not ask.

        The call's prompt is reserved at its estimate, so that the token budget is not exceeded by a call that
        was already known to be too long.
        """
        room = wanted
        if budget.tokens is not None:
            room = min(room, budget.tokens - self._usage.tokens - prompt)
        if budget.cost is not None and self.price(0, 1) > 0:
            left = budget.cost - self._usage.cost - self.price(prompt, 0)
            room = min(room, int(left / self.price(0, 1)))
        return room if room >= min(wanted, 256) else 0
