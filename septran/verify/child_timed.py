"""A verified kernel in its Python child, timed on calls whose inputs nobody knew before.

For what has no static host: Python languages, and GPUs. An order is some calls, each on inputs of its own: windows into secret regions that
are new for each order, outputs poisoned before it. Which call is an order's last nobody knows either; what it leaves is kept of the
fastest order and of one drawn at random, and judged afterwards. A kernel that remembers its answers has none to remember.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from septran.backends.base import Built
from septran.host.control import STEP
from septran.kernel import Kernel
from septran.verify.arena import Arena, tensor_bytes
from septran.verify.cases import Case
from septran.verify.pipe import Pipe
from septran.verify.problem import Problem
from septran.verify.regions import ROUND, SHIFTS, Regions, array_of, source
from septran.verify.session import Sessions, render, start_child, write_plan
from septran.verify.slots import wrong_outputs
from septran.verify.verify import as_run

_MOST = 1000  # calls of one order: as many inputs are laid out before it
_LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class _Order:
    """An order's last call: seconds of each call, where its inputs were, what it left. before: of in/out tensors."""

    count: int
    seconds: float
    shift: int
    windows: tuple[int, ...]
    before: dict[str, bytes]
    left: dict[str, bytes]


class ChildTimed:
    """A kernel ready to be timed; `slot(count)` is seconds, `wrong` says whether they count."""

    most = 10_000
    native = False
    by_processor_time = False
    waited = 0.0

    def __init__(
        self, kernel: Kernel, built: Built, problem: Problem, *, work: Path, settings: Sessions
    ) -> None:
        """Draw the secret regions and start the child."""
        import numpy as np

        assert built.artifact is not None
        work.mkdir(parents=True, exist_ok=True)
        self._problem, self._settings = as_run(problem, settings), settings
        seed = secrets.randbits(60)
        self._on_device = settings.gpu is not None
        self._regions = Regions(problem, Case(name="timing", family="normal", seed=seed))
        places = self._regions.params(apart=self._on_device)
        self._arena = Arena(places, alignment=64, guard=settings.guard)
        self._arena.fill("start", {}, np.random.default_rng(seed))
        self._poison = {
            p.name: np.frombuffer(raw, np.uint8)
            for p in problem.params
            if p.privilege == "w"
            for raw in self._held([p.name]).values()
        }
        self._windows = [self._regions.windows(p) for p in problem.params]
        self._idle, self._full = 0.0, 0
        self._fastest: _Order | None = None
        self._drawn: _Order | None = None
        self._orders = 0
        go_read, go_write = os.pipe()
        done_read, done_write = os.pipe()
        self._ends = (go_write, done_read)
        text = write_plan(kernel, built.artifact, self._arena, settings, go_read, done_write)
        plan = {**json.loads(text), **self._laid_out()}
        script = work / "timing_child.py"
        script.write_text(render(json.dumps(plan), settings.loader, "kernel_timing_template.j2"))
        fds = (*self._arena.descriptors, go_read, done_write)
        self._child = start_child(script, built.artifact, work, settings, fds)
        os.close(go_read)
        os.close(done_write)
        self._pipe = Pipe(go_write, done_read, self._child)

    def _laid_out(self) -> dict[str, object]:
        names = [slot.name for slot in self._arena.slots["start"]]
        sources = [
            names.index(source(p.name)) if source(p.name) in names else None
            for p in self._problem.params
        ]
        return {"windows": self._windows, "step": STEP, "sources": sources}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill("done")
        self._child.wait()
        for fd in self._ends:
            os.close(fd)
        self._arena.close()

    @property
    def input_sets(self) -> list[dict[str, Any]]:
        """Inputs for torch, like the kernel's."""
        return self._regions.sets()

    def wait_ready(self) -> None:
        """Wait until the kernel is loaded; TimeoutError says why it is not."""
        ready = self._pipe.receive(self._settings.load_timeout_s)
        if not isinstance(ready, dict):
            raise TimeoutError(f"the timing child did not start: {ready}")
        if not self._on_device:
            self._ask({"ready": 0, "seed": 0})
            self._idle = min(self._wall(0) for _ in range(5))

    def slot(self, count: int) -> float:
        """Return the seconds of `count` calls.

        Raises:
            TimeoutError: the kernel stopped answering.
        """
        most = ROUND if self._regions.both and not self._on_device else _MOST
        orders = -(-count // most)
        return sum(self._order(count // orders + (k < count % orders)) for k in range(orders))

    def _order(self, wanted: int) -> float:
        """Return the seconds of `wanted` calls: up to an eighth fewer are made, so that none is known to be the last."""
        count = wanted - secrets.randbelow(wanted // 8 + 1)
        shift, seed = secrets.randbelow(SHIFTS), secrets.randbits(60)
        draw = random.Random(seed)
        windows: tuple[int, ...] = ()
        for _ in range(count):
            windows = tuple(draw.randrange(n) for n in self._windows)
        first = self._fill(shift)
        self._ask({"ready": count, "seed": seed})
        before: dict[str, bytes] = {}
        if self._on_device:
            used = float(self._ask({"go": count}).get("seconds", "nan"))
        elif self._regions.both:
            used = self._seconds(count - 1) if count > 1 else 0.0
            before = self._held(self._regions.both) if count > 1 else first
            used += self._seconds(1)
        else:
            used = self._seconds(count)
        found = _Order(wanted, used / count, shift, windows, before, {})
        self._keep(found)
        return found.seconds * wanted

    def _keep(self, found: _Order) -> None:
        """Keep what the order's last call left, if it is the fastest or is drawn."""
        wanted = found.count
        if 2 * wanted < self._full:
            return
        if wanted > 2 * self._full:  # those before were too short to count
            self._fastest = self._drawn = None
            self._orders = 0
        self._full = max(self._full, wanted)
        self._orders += 1
        fastest = self._fastest is None or found.seconds < self._fastest.seconds
        drawn = secrets.randbelow(self._orders) == 0
        if not (fastest or drawn):
            return
        if self._on_device:
            self._ask({"fetch": True})
        found = replace(found, left=self._held([p.name for p in self._problem.outputs]))
        self._fastest = found if fastest else self._fastest
        self._drawn = found if drawn else self._drawn

    def wrong(self, per_call: float = 0.0, *, sample: bool = False) -> str:
        """Return what is wrong with the timed calls, "" when they were right. sample: judge one call."""
        orders = [o for o in (self._fastest, self._drawn) if o is not None]
        for order in orders[: 1 if sample else 2]:
            inputs = self._regions.inputs(self._regions.at(order.shift), order.windows)
            params = [p for p in self._problem.params if p.name in order.before]
            inputs |= {p.name: array_of(order.before[p.name], p) for p in params}
            if params and not self._regions.ordinary(inputs):
                continue
            why = wrong_outputs(self._problem, inputs, order.left)
            if why:
                return f"{why} in a timed call"
        return ""

    # ---- the child

    def _ask(self, words: dict[str, object]) -> dict[str, Any]:
        self._pipe.send(json.dumps(words).encode() + b"\n")
        answer = self._pipe.receive(self._settings.call_timeout_s)
        if not isinstance(answer, dict) or "error" in answer:
            raise TimeoutError(str(answer))
        return answer

    def _wall(self, count: int) -> float:
        begun = time.perf_counter()
        self._ask({"go": count})
        return time.perf_counter() - begun

    def _seconds(self, count: int) -> float:
        """Return the seconds of the next calls, by the clock of this process."""
        wall = self._wall(count)
        return max(wall - self._idle, _LEAST_SHARE * wall)

    def _fill(self, shift: int) -> dict[str, bytes]:
        """Lay out new contents and poison outputs; return what in/out tensors hold."""
        import numpy as np

        regions = self._regions.at(shift)
        start = self._regions.inputs(regions, [secrets.randbelow(n) for n in self._windows])
        held = {source(name): region for name, region in regions.items()} | self._poison
        if not self._on_device:  # there all tensors are filled from their regions
            held |= regions | {name: start[name] for name in self._regions.both}
        for slot in self._arena.slots["start"]:
            if slot.name in held:
                body = self._arena.bytes_of(slot)[slot.lead : slot.lead + slot.nbytes]
                body[:] = held[slot.name].reshape(-1).view(np.uint8)
        return {name: start[name].tobytes() for name in self._regions.both}

    def _held(self, names: Iterable[str]) -> dict[str, bytes]:
        slots = {slot.name: slot for slot in self._arena.slots["start"]}
        pages = {n: self._arena.bytes_of(slots[n]).tobytes() for n in names}
        return {n: tensor_bytes(slots[n], pages[n]) for n in names}
