"""Warp groups that do different work (T.ws), and the barriers in shared memory by which they meet.

Each group of 128 threads runs the kernel's text for itself and skips what is another's; exactly one runs at a time, in an
order that changes from launch to launch. A copy that a barrier counts (`T.tma_copy(.., barrier=)`) lands when the barrier's
phase is complete, not earlier. An mbarrier counts phases: a wait for parity p ends when a phase of that parity is over (PTX ISA, mbarrier).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from .buffers import Buffer, as_int
from .errors import SimError
from .forms import KernelScope
from .handover import Handover
from .machine import Core, Machine
from .tiles import begin, land, pair
from .values import narrow

GROUP = 128
"""Threads of a warp group."""
_MEETING = "the other warp groups, for work of all threads"
_SHARED = ("shared", "fragment")
"""memories of which all groups see one buffer; others are each thread's"""


class Barrier:
    """One mbarrier. arrivals: how many complete a phase."""

    def __init__(self, arrivals: int) -> None:
        self._arrivals = arrivals
        self._pending = arrivals
        self._phases = 0
        self._copies: list[tuple[Any, Any]] = []

    def arrive(self, threads: int) -> None:
        """Count arrivals; a complete phase lets its copies land."""
        if threads > self._pending:
            raise SimError(
                "race",
                f"{threads} threads arrive at a barrier whose phase {self._pending} more complete: the rest counts for the next one",
            )
        self._pending -= threads
        if self._pending == 0:
            self._pending = self._arrivals
            self._phases += 1
            for target, data in self._copies:
                land(target, data)
            self._copies = []

    def carries(self, target: Any, data: Any) -> None:
        """Let a copy land when the phase that is under way is over."""
        self._copies.append((target, data))

    def over(self, parity: int) -> bool:
        """Whether the last phase that is over has this parity."""
        return self._phases % 2 != parity


class Barriers:
    """T.alloc_barrier: one barrier, or as many as a list says."""

    def __init__(self, counts: list[int]) -> None:
        self._all = [Barrier(n) for n in counts]

    def only(self) -> Barrier | None:
        """Return the barrier where there is but one."""
        return self._all[0] if len(self._all) == 1 else None

    def __getitem__(self, index: object) -> Barrier:
        k = as_int(index, "a barrier's number")
        if not 0 <= k < len(self._all):
            raise SimError("bounds", f"barrier {k} of {len(self._all)}")
        return self._all[k]


class Crew:
    """The warp groups of one block."""

    def __init__(self, machine: Machine, block: int, count: int, launch: int) -> None:
        self.machine = machine
        self.count = count
        self._block = block
        self._launch = launch
        self._handover = Handover(machine)
        self._inside = [0] * count
        """how deep each group is in work of its own"""
        self._made: list[object] = []
        self._asked = [0] * count
        self._met: dict[int, int] = {}
        self._meetings = [0] * count
        self._done: set[int] = set()
        self._named: dict[int, int] = {}

    def run(self, body: Callable[[], None]) -> None:
        """Run the block's text once for each group."""
        self.machine.crew = self
        order = list(range(self.count))
        if self._launch % 2:
            order.reverse()
        try:
            parts = [(Core(block=self._block), body) for _ in range(self.count)]
            self._handover.run(parts, order)
        except SimError as e:
            if (
                e.kind == "deadlock" and _MEETING in e.message
            ):  # on a device nobody might wait there
                raise NotImplementedError(f"work of all threads between waits: {e.message}") from e
            raise
        finally:
            self.machine.crew = None

    @property
    def group(self) -> int:
        """Which group runs."""
        return self._handover.now

    def wait(self, ready: Callable[[], bool], what: str) -> None:
        """Hand over until something is ready."""
        self._handover.wait(ready, what)

    def shared(self, make: Callable[[], Any]) -> Any:
        """Return what all groups allocate together: the first that comes makes it."""
        if self._inside[self.group]:
            return make()
        number = self._asked[self.group]
        self._asked[self.group] += 1
        if number == len(self._made):
            self._made.append(make())
        return self._made[number]

    def work(self, numbers: set[int], body: Callable[[], None]) -> None:
        """Run work of some groups, if the one that runs is one of them."""
        if self.group not in numbers:
            return
        self._inside[self.group] += 1
        try:
            body()
        finally:
            self._inside[self.group] -= 1

    def meet(self, number: int, groups: int) -> None:
        """Wait until so many groups have come to a named barrier (bar.sync)."""
        came = self._named[number] = self._named.get(number, 0) + 1
        through = -(-came // groups) * groups
        self.wait(lambda: self._named[number] >= through, f"named barrier {number}")

    def statement(self, stmt: ast.stmt, run: Callable[[], None], names: dict[str, Any]) -> None:
        """Run a statement: what all groups do to memory they share is done once, when all have come to it.

        Filling is done by the first that comes: nobody has to wait for it.
        """
        if self._inside[self.group] or not _together(stmt, names):
            run()
            return
        me = self.group
        number = self._meetings[me]
        self._meetings[me] += 1
        if _fills(stmt):
            if number not in self._done:
                self._done.add(number)
                self._alone(run)
            return
        self._met[number] = self._met.get(number, 0) + 1
        if self._met[number] == self.count:
            self._alone(run)
            self._done.add(number)
            return
        self.wait(lambda: number in self._done, _MEETING)

    def _alone(self, run: Callable[[], None]) -> None:
        me = self.group
        self._inside[me] += 1
        try:
            run()
        finally:
            self._inside[me] -= 1


def _together(stmt: ast.stmt, names: dict[str, Any]) -> bool:
    """Whether a statement is work of all groups on what they share: not one that binds names, nor one that tells groups apart."""
    words = {n.attr for n in ast.walk(stmt) if isinstance(n, ast.Attribute)}
    if "ws" in words or words & set(_WAITS):
        return False
    match stmt:
        case ast.Expr(ast.Call()) | ast.For():
            return True
        case ast.Assign([ast.Subscript(ast.Name(name))]) | ast.AugAssign(
            ast.Subscript(ast.Name(name))
        ):
            held = names.get(name)
            return isinstance(held, Buffer) and held.scope in (*_SHARED, "global")
    return False


def _fills(stmt: ast.stmt) -> bool:
    match stmt:
        case ast.Expr(ast.Call(func=ast.Attribute(attr=word))):
            return word in ("clear", "fill")
    return False


_WAITS = (
    *(
        "barrier_wait",
        "mbarrier_wait_parity",
        "barrier_arrive",
        "mbarrier_arrive",
        "ptx_arrive_barrier",
    ),
    *("ptx_wait_barrier", "sync_threads", "set_max_nreg", "dec_max_nreg", "inc_max_nreg"),
)


class GroupScope(KernelScope):
    """T.ws(k, ...): work of warp group k."""

    def __init__(self, machine: Machine, numbers: tuple[object, ...]) -> None:
        self.machine = machine
        self.numbers = {as_int(n, "a warp group") for n in numbers}

    def run(self, body: Callable[[object], None]) -> None:
        """Run the body in the groups that it is for."""
        crew = self.machine.crew
        if crew is None:
            raise NotImplementedError(
                "T.ws outside of a kernel whose threads are whole warp groups"
            )
        if not self.numbers or max(self.numbers) >= crew.count:
            raise SimError(
                "launch", f"T.ws({sorted(self.numbers)}) of a block with {crew.count} warp groups"
            )
        crew.work(self.numbers, lambda: body(None))


def group_names(machine: Machine) -> dict[str, Any]:
    """Return what warp groups call."""

    def alloc_barrier(arrive_count: object) -> Barriers:
        several = isinstance(arrive_count, list | tuple)
        listed = list(arrive_count) if several else [arrive_count]  # type: ignore[call-overload]
        numbers = [as_int(n, "an arrive count") for n in listed]
        if machine.crew is None:
            return Barriers(numbers)
        found: Barriers = machine.crew.shared(lambda: Barriers(numbers))
        return found

    def barrier_of(x: object) -> Barrier:
        found = x.only() if isinstance(x, Barriers) else x
        if not isinstance(found, Barrier):
            raise SimError("type", f"{type(x).__name__} is no barrier")
        return found

    def crew() -> Any:
        if machine.crew is None:
            raise NotImplementedError(
                "barriers of a kernel that does not tell its warp groups apart with T.ws"
            )
        return machine.crew

    def wait(mbarrier: object, parity: object = 0) -> None:
        found, wanted = barrier_of(mbarrier), as_int(parity, "a parity")
        if wanted not in (0, 1):
            raise SimError("type", f"a barrier's parity is 0 or 1, not {wanted}")
        crew().wait(lambda: found.over(wanted), f"a phase of parity {wanted} of a barrier")

    def arrive(mbarrier: object, *_: object, **__: object) -> None:
        crew()
        barrier_of(mbarrier).arrive(GROUP)

    def tma_copy(src: object, dst: object, *, barrier: object = None, **hints: object) -> None:
        if hints.get("cluster_mask") is not None:
            raise NotImplementedError("T.tma_copy to several blocks")
        source, target = pair(src, dst)
        if (source.buffer.scope, target.buffer.scope) == ("shared", "global"):
            target.write(narrow(source.read().reshape(target.extent), target.dtype))
            return
        if (source.buffer.scope, target.buffer.scope) != ("global", "shared"):
            raise SimError("memory", "T.tma_copy copies between global and shared memory")
        if barrier is None:
            raise SimError("type", "T.tma_copy into shared memory needs barrier=")
        barrier_of(barrier).carries(target, begin(source, target))

    def sync_threads(barrier_id: object = None, arrive_count: object = None) -> None:
        if machine.crew is None:
            return
        threads = (
            GROUP * machine.crew.count if arrive_count is None else as_int(arrive_count, "a count")
        )
        if threads % GROUP:
            raise NotImplementedError(f"a barrier of {threads} threads, which are no warp groups")
        machine.crew.meet(as_int(barrier_id or 0, "a barrier's number"), threads // GROUP)

    nothing = (
        *(
            "set_max_nreg",
            "no_set_max_nreg",
            "disable_warp_group_reg_alloc",
            "annotate_producer_reg_dealloc",
        ),
        *("annotate_consumer_reg_alloc", "inc_max_nreg", "dec_max_nreg", "fence_proxy_async"),
        *("tma_store_arrive", "tma_store_wait", "sync_warp", "pdl_sync", "pdl_trigger"),
    )
    return {
        **dict.fromkeys(nothing, lambda *_, **__: None),
        "ws": lambda *numbers: GroupScope(machine, numbers),
        "alloc_barrier": alloc_barrier,
        "barrier_wait": wait,
        "mbarrier_wait_parity": wait,
        "barrier_arrive": arrive,
        "mbarrier_arrive": arrive,
        "tma_copy": tma_copy,
        "sync_threads": sync_threads,
    }
