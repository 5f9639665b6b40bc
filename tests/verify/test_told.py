"""What emulations say of comparisons, and the search that makes inputs of it, on kernels that are numpy here."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from septran.toolchain.sought import seeking_library
from septran.verify import told as telling
from septran.verify.told import Told, lines_of

ROWS, COLUMNS = 4, 32


class Recorded(Told):
    """Keeps what would be told, in place of a search."""

    def __init__(self) -> None:
        super().__init__("libm.so.6")
        self.said: list[tuple[int, tuple[np.ndarray, ...]]] = []

    def _told(self, place: int, parts: tuple[np.ndarray, ...]) -> None:
        self.said.append((place, parts))

    def _say(self, *args: Any) -> None:
        pass

    def twice(self, call: Callable[[np.ndarray], None], x: np.ndarray) -> None:
        """Make two calls on different inputs: what moves is known in the third."""
        for k in range(3):
            self.begin()
            self.said.clear()
            call(x + k)


def found(kernel: Callable[[Told, np.ndarray], None], folder: Path, seconds: float = 0.6) -> np.ndarray:  # fmt: skip
    """Return the inputs that a search brings for `kernel`, which tells what it compares of ROWS x COLUMNS float32."""
    library = seeking_library()
    if library.path is None:
        pytest.skip(library.missing)
    told, size = Told(str(library.path)), ROWS * COLUMNS * 4
    drawn = np.random.default_rng(5).standard_normal((4, ROWS, COLUMNS)).astype(np.float32)
    head = np.array([1, len(drawn), int(seconds * 1000), 32], np.uint64).tobytes()
    param = np.array([size, 1, 1], np.uint64).tobytes() + np.array([-1e3, 1e3]).tobytes()
    (folder / "plan").write_bytes(head + param + drawn.tobytes())

    def call(addresses: Any) -> None:
        told.begin()
        until = time.process_time() + 0.003  # as long as an emulated call takes
        while time.process_time() < until:
            pass
        raw = (ctypes.c_uint8 * size).from_address(addresses[0])
        kernel(told, np.frombuffer(raw, np.float32).reshape(ROWS, COLUMNS))

    told.seek(str(folder / "plan"), str(folder / "found"), call)
    return np.frombuffer((folder / "found").read_bytes(), np.float32).reshape(-1, ROWS, COLUMNS)


def compare(told: Told, line: int, op: str, a: Any, b: float) -> np.ndarray:
    made = {"<": np.less, ">": np.greater}[op](a, b)
    told.compared(line, op, op, np.asarray(a), np.full((1,), b), made)
    return np.asarray(made)


def joined(told: Told, line: int, op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    made = a & b if op == "&" else a | b
    told.joined(line, op, op, a, b, made)
    return made


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x[..., : COLUMNS // 2].sum(-1), x[..., COLUMNS // 2 :].sum(-1)


def test_sums_that_lie_in_bands_together_are_found(tmp_path: Path) -> None:
    def kernel(told: Told, x: np.ndarray) -> None:
        s, q = halves(x)
        one = joined(told, 7, "&", compare(told, 5, ">", s, 20.0), compare(told, 6, "<", s, 20.25))
        two = joined(told, 9, "&", compare(told, 8, ">", q, -20.25), compare(told, 9, "<", q, -20))
        joined(told, 10, "&", one, two)

    s, q = halves(found(kernel, tmp_path))
    assert ((s > 20) & (s < 20.25) & (q > -20.25) & (q < -20)).any()


def test_two_sums_are_found_that_a_kernel_brings_together_as_it_likes(tmp_path: Path) -> None:
    def kernel(told: Told, x: np.ndarray) -> None:
        s, q = halves(x)
        compare(told, 5, ">", s, 33.0)
        compare(told, 6, "<", q, -34.0)

    s, q = halves(found(kernel, tmp_path))
    assert ((s > 33) & (q < -34)).any()


def test_a_decision_behind_another_is_told_with_it() -> None:
    told = Recorded()

    def call(x: np.ndarray) -> None:
        told.decided(compare(told, 3, ">", x, 0.5))
        compare(told, 4, "<", x, 0.75)
        told.back()

    told.twice(call, np.zeros(3))
    joint = [parts for place, parts in told.said if lines_of([place])[place] == 4]
    assert any([p.tolist() for p in parts] == [[1.5] * 3, [-1.25] * 3] for parts in joint)


@pytest.mark.parametrize("op", ["&", "|"])
def test_a_mask_of_masks_is_above_zero_where_it_is_true(op: str) -> None:
    told, x = Recorded(), np.linspace(-2, 2, 9)

    def call(x: np.ndarray) -> None:
        wide = np.broadcast_to(compare(told, 3, ">", x, 0.5)[:, None], (9, 2)).T
        made = joined(told, 4, op, wide, np.broadcast_to(compare(told, 3, "<", x, 1.0), (2, 9)))
        told.compared(5, "", ">", x, np.zeros(1), x > 0)
        parts = told._parts(made)
        assert told._moving == [] or (parts is not None and ((telling._least(parts) > 0) == made).all())  # fmt: skip

    told.twice(call, x)
    assert len(told._moving) == 3


def test_a_choice_within_a_choice_is_taken_where_both_decide_so() -> None:
    told = Recorded()

    def call(x: np.ndarray) -> None:
        one, other = compare(told, 3, ">", x, 0.5), compare(told, 4, "<", x, 1.0)
        inner = np.where(other, x, 0)
        told.chose(5, "", other, x, x, inner)
        told.chose(6, "", one, inner, x, np.where(one, inner, x))

    told.twice(call, np.zeros(3))
    signs = {
        tuple(bool(p[0] > 0) for p in parts)
        for place, parts in told.said
        if lines_of([place])[place] == 6
    }
    assert signs == {(True, False), (True, True)}
