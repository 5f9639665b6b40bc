"""place_buffers: no overlap while alive, sharing only when needed, M011 with the numbers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.errors import MappingError
from septran.ir.expr import Const
from septran.ir.nodes import Alloc, Buffer, For, Param, Prim, Program
from septran.passes.place_buffers import Bank, lifetimes, place_buffers
from tests.backends.dsa_programs import call, region

FILL = (Prim(name="fill", out="Y", attrs=(("value", 0.0),)),)


def use(buffer: Buffer):
    return call("touch", FILL, {"Y": (region(buffer), "w")})


def program(*body) -> Program:
    out = Buffer(name="Y", shape=(4,), dtype="float32", mem="GLOBAL")
    return Program(
        name="p",
        target="dsa_c",
        arch="",
        machine="dsa_c",
        params=(Param(buffer=out, privilege="w"),),
        body=tuple(body),
    )


def buf(name: str, words: int, versions: int = 1) -> Buffer:
    return Buffer(name=name, shape=(words,), dtype="float32", mem="SHARED", versions=versions)


def offsets(p: Program) -> dict[str, int | None]:
    return {life.buffer.name: life.buffer.offset for life in lifetimes(p)}


def banks(capacity: int, align: int = 64) -> dict[str, Bank]:
    return {"SHARED": Bank(name="SHARED", capacity=capacity, align=align)}


def test_own_space_while_it_fits() -> None:
    a, b = buf("a", 16), buf("b", 16)
    p = program(Alloc(buffer=a), use(a), Alloc(buffer=b), use(b))
    assert offsets(place_buffers(p, banks(128))) == {"a": 0, "b": 64}


def test_disjoint_lives_share_when_they_must() -> None:
    a, b = buf("a", 16), buf("b", 16)
    p = program(Alloc(buffer=a), use(a), Alloc(buffer=b), use(b))
    assert offsets(place_buffers(p, banks(64))) == {"a": 0, "b": 0}


def test_a_use_in_a_loop_lives_through_the_loop() -> None:
    a, b = buf("a", 16), buf("b", 16)
    loop = For(var="i", extent=Const(2), body=(use(a), Alloc(buffer=b), use(b)))
    p = program(Alloc(buffer=a), loop)
    with pytest.raises(MappingError, match="M011"):
        place_buffers(p, banks(64))
    assert offsets(place_buffers(p, banks(128))) == {"a": 0, "b": 64}


def test_versions_count_and_the_message_has_the_numbers() -> None:
    a, b = buf("a", 1024, versions=3), buf("b", 512)
    p = program(Alloc(buffer=a), Alloc(buffer=b), use(a), use(b), use(a))
    with pytest.raises(MappingError) as caught:
        place_buffers(p, banks(8192))
    text = str(caught.value)
    assert "SHARED needs 14336 bytes per CORE but the limit is 8192" in text
    assert "a[1024] float32 x3 stages = 12288, b[512] float32 = 2048" in text


def test_other_memories_are_left_alone() -> None:
    a = Buffer(name="a", shape=(16,), dtype="float32", mem="REGISTER")
    p = program(Alloc(buffer=a), use(a))
    assert place_buffers(p, banks(8192)) == p


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8
    ),
    st.sampled_from([16, 64]),
)
def test_no_two_live_buffers_overlap(shapes: list[tuple[int, int, int]], align: int) -> None:
    buffers = [buf(f"b{i}", words) for i, (words, _, _) in enumerate(shapes)]
    times = [(min(x, y), max(x, y)) for _, x, y in shapes]
    body = [Alloc(buffer=b) for b in buffers]
    for now in range(10):
        body += [
            use(b) for b, (first, last) in zip(buffers, times, strict=True) if now in (first, last)
        ]
    p = program(*body)
    need = sum(-(-b.nbytes // align) * align for b in buffers)
    for capacity in (need, 3 * need // 4, need // 2):
        try:
            placed = place_buffers(p, banks(capacity, align))
        except MappingError:
            assert capacity < need
            continue
        for x, y in itertools.combinations(lifetimes(placed), 2):
            assert x.buffer.offset is not None and y.buffer.offset is not None
            assert x.buffer.offset % align == 0
            together = x.first <= y.last and y.first <= x.last
            apart = (
                x.buffer.offset + x.buffer.nbytes <= y.buffer.offset
                or y.buffer.offset + y.buffer.nbytes <= x.buffer.offset
            )
            assert apart or not together
            assert x.buffer.offset + x.buffer.nbytes <= capacity
