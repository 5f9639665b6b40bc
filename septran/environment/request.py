"""What anybody may ask the environment for: the one place where a request's form and size are looked at, for every front."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran.environment.step import Submission
from septran.environment.tasks import Asked
from septran.errors import ConfigError
from septran.plan.resolve import GenRequest, operator_of

FIELDS = frozenset({"op", "backend", "arch", "dims", "dtype", "leaf", "reply", "seed"})
MOST_BYTES = 1 << 20
"""bytes of a reply, with all that is sent beside it"""
_TEXTS = ("op", "backend", "leaf", "reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one submission may take. elements: of the kernel's tensors together. seconds: of one try, by the clock.

    memory_mib: of the worker that judges it; a kernel's own process has a limit of its own.
    """

    elements: int = 1 << 22
    seconds: float = 900.0
    memory_mib: int = 4096

    def admit(self, asked: Asked) -> None:
        """Do nothing for a kernel whose tensors are small enough.

        Raises:
            ConfigError: C180, they are too large. InputError: there is no such operator, or it has no such dim.
        """
        operator, _ = operator_of(GenRequest(op=asked.op, backend=asked.backend))
        dims = operator.bind_dims(asked.dims)
        found = sum(math.prod(operator.shape(name, dims)) for name in operator.tensors)
        if found > self.elements:
            raise ConfigError.of(
                "C180",
                f"the tensors of {asked.op} have {found} elements at {_told(dims)}; a submission's have at most {self.elements}",
                help="ask for smaller sizes, or start the server with --elements",
            )


def read_submission(raw: bytes, *, bench: bool = False) -> Submission:
    """Return the submission that a request's body holds; raises as `submission_of`. bench: it is to be timed."""
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as e:
        raise _no_form(str(e)) from e
    return submission_of(data, bench=bench)


def submission_of(data: object, *, bench: bool = False) -> Submission:
    """Return the submission that plain values hold. bench: it is to be timed.

    Raises:
        ConfigError: C180, they are not of the form: a field is missing, unknown or of another type.
    """
    if not isinstance(data, dict) or set(data) - FIELDS:
        raise _no_form(f"fields are {', '.join(sorted(FIELDS))}")
    for name in _TEXTS:
        if not isinstance(data.get(name), str):
            raise _no_form(f"{name} is a text")
    if len(data["reply"]) > MOST_BYTES:
        raise _no_form(f"a reply has at most {MOST_BYTES} bytes")
    seed = data.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 62:
        raise _no_form("seed is a whole number from 0, below 2^62")
    kernel_of(data)
    return Submission.from_json({**data, "bench": bench})


def kernel_of(data: Mapping[str, Any]) -> Asked:
    """Return the kernel that plain values name; raises as `submission_of`."""
    dims = data.get("dims") or {}
    if not isinstance(dims, dict) or not all(is_size(size) for size in dims.values()):
        raise _no_form("dims is name -> size, a size is a whole number from 1, below 2^31")
    if any(not isinstance(data.get(name), str | None) for name in ("arch", "dtype")):
        raise _no_form("arch and dtype are texts")
    return Asked(
        op=data["op"],
        backend=data["backend"],
        arch=data.get("arch"),
        dims=dims,
        dtype=data.get("dtype"),
    )


def is_size(value: object) -> bool:
    """Return whether a value can be the size of a dim."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31


def _no_form(why: str) -> ConfigError:
    return ConfigError.of("C180", f"the submission is not of the form: {why[:200]}")


def _told(dims: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in dims.items())
