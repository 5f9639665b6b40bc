"""Programs as text: what is printed parses back to an equal Program."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septran.ir.expr import Bin, Const, Var
from septran.ir.nodes import (
    Alloc,
    Await,
    Buffer,
    Copy,
    For,
    LeafArg,
    LeafCall,
    Param,
    Post,
    Prim,
    Program,
    Region,
    Sync,
    When,
)
from septran.ir.text import parse_program, print_program

TEXT = """\
program gemm target=t arch=- machine=m
options {"threads": 128}
param w C: GLOBAL float32[100, 77]
param r A: GLOBAL float16[100, 345]
  for i0 in 7 on BLOCK parallel
    alloc C_r: REGISTER float32[16, 77]
    leaf zero <auto>
    | w C = C_r[0:+min(16, (100 - (i0 * 16)))<=16, 0:+77]
    | prim {"name": "fill", "out": "C", "ins": [], "named": {}, "attrs": {"value": {"float": "-inf"}}}
    for k0 in 11 pipeline=3 warpspecialize
      alloc A_s: SHARED float16[16, 32] layout=panel_m:14 x3 @1024
      copy A_s@(k0 % 3)[0:+16, 0:+32] <- A[(i0 * 16):+16, (k0 * 32):+32::2] guard
      post e [(k0 % 3)] dma
      await e [(k0 % 3)] mma
      when 0 <= (k0 - 1) < 11
        leaf f <gemm_leaf_simd>
        | rw C = C_r[0:+16, 0:+77] -> SHARED
        | scalar n = (k0 + 1)
        | scalar s = float 0.125
        | prim {"name": "map", "out": "C", "ins": [], "named": {"c": "C", "n": "n"}, "attrs": {"expr": "c * n"}}
        | prim {"name": "transpose", "out": "C", "ins": ["C"], "named": {}, "attrs": {"perm": {"tuple": [1, 0]}}}
    copy C[(i0 * 16):+16, 0:+77] <- C_r[0:+16, 0:+77]
    sync BLOCK
"""


def test_every_statement_survives_printing():
    program = parse_program(TEXT)
    assert print_program(program) == TEXT
    assert parse_program(print_program(program)) == program
    loop = program.body[0]
    assert isinstance(loop, For) and (loop.proc, loop.parallel) == ("BLOCK", True)
    inner = loop.body[2]
    assert isinstance(inner, For) and (inner.pipeline, inner.warpspecialize) == (3, True)
    assert inner.body[0].buffer == Buffer(
        name="A_s",
        shape=(16, 32),
        dtype="float16",
        mem="SHARED",
        layout="panel_m:14",
        versions=3,
        offset=1024,
    )


words = st.sampled_from(["A", "B", "acc", "t_2"])
exprs = st.recursive(
    st.one_of(st.integers(-5, 99).map(Const), st.sampled_from(["i0", "k"]).map(Var)),
    lambda e: st.builds(Bin, st.sampled_from(["+", "-", "*", "//", "%", "min", "max"]), e, e),
    max_leaves=4,
)


def buffers(name):
    return st.builds(
        Buffer,
        name=st.just(name),
        shape=st.lists(st.integers(1, 200), min_size=1, max_size=3).map(tuple),
        dtype=st.sampled_from(["float32", "bfloat16", "int64", "bool"]),
        mem=st.sampled_from(["GLOBAL", "SHARED", "REGISTER"]),
        layout=st.sampled_from(["row", "panel_n:32"]),
        versions=st.integers(1, 4),
        offset=st.one_of(st.none(), st.integers(0, 4096)),
    )


@st.composite
def regions(draw, known):
    buffer = draw(st.sampled_from(known))
    offset, extent, tile, step = [], [], [], []
    for size in buffer.shape:
        bound = draw(st.integers(1, size))
        offset.append(draw(exprs))
        extent.append(
            draw(st.one_of(st.just(Const(bound)), exprs.filter(lambda e: not isinstance(e, Const))))
        )
        tile.append(bound)
        step.append(draw(st.integers(1, 3)))
    return Region(
        buffer=buffer,
        offset=tuple(offset),
        extent=tuple(extent),
        tile=tuple(tile),
        step=tuple(step),
        grid=(0,) * len(tile),
        guard=draw(st.booleans()),
        version=draw(st.one_of(st.none(), exprs)),
    )


attributes = st.dictionaries(
    st.sampled_from(["value", "axis", "op", "perm", "trans_a"]),
    st.one_of(
        st.integers(-3, 3),
        st.floats(allow_nan=False),
        st.booleans(),
        st.sampled_from(["sum", 'x "quoted" \n y']),
        st.lists(st.integers(0, 3), max_size=3).map(tuple),
    ),
    max_size=3,
)
prims = st.builds(
    Prim,
    name=st.sampled_from(["fill", "map", "gemm"]),
    out=words,
    ins=st.lists(words, max_size=2).map(tuple),
    named=st.dictionaries(words, words, max_size=2).map(lambda d: tuple(d.items())),
    attrs=attributes.map(lambda d: tuple(sorted(d.items()))),
)


engines = st.sampled_from(["", "LOAD", "THREADS"])


def leaves(known):
    return st.builds(
        LeafCall,
        task=words,
        impl=st.sampled_from(["auto", "dsa.mma", "gemm_leaf_simd"]),
        args=st.lists(
            st.builds(
                LeafArg,
                param=words,
                region=regions(known),
                privilege=st.sampled_from(["r", "w", "rw"]),
                mem=st.sampled_from(["", "SHARED"]),
            ),
            max_size=2,
        ).map(tuple),
        scalars=st.dictionaries(
            words, st.one_of(exprs, st.floats(allow_nan=False)), max_size=2
        ).map(lambda d: tuple(d.items())),
        prims=st.lists(prims, max_size=2).map(tuple),
        symbol=st.sampled_from(["", "leaf_f_a1b2c3"]),
        engine=engines,
    )


@st.composite
def programs(draw):
    one, two, local = draw(buffers("A")), draw(buffers("B")), draw(buffers("x_s"))
    known = [one, two, local]
    simple = st.one_of(
        leaves(known),
        st.builds(Copy, dst=regions(known), src=regions(known), engine=engines),
        st.builds(
            Sync,
            scope=st.sampled_from(["HOST", "BLOCK"]),
            engines=st.sampled_from([None, (), ("ASYNC",), ("LOAD", "VEC")]),
        ),
        st.builds(Post, event=words, slot=exprs, engine=engines),
        st.builds(Await, event=st.just("LOAD>VEC"), slot=exprs, engine=engines),
    )
    bodies = st.recursive(
        st.lists(simple, min_size=1, max_size=3).map(tuple),
        lambda inner: st.one_of(
            st.builds(
                For,
                var=st.sampled_from(["i0", "k"]),
                extent=exprs,
                body=inner,
                proc=st.sampled_from(["", "CORE"]),
                parallel=st.booleans(),
                pipeline=st.integers(0, 3),
                warpspecialize=st.booleans(),
            ),
            st.builds(When, expr=exprs, low=st.integers(-4, 4), high=st.integers(0, 9), body=inner),
        ).map(lambda s: (s,)),
        max_leaves=3,
    )
    return Program(
        name="p",
        target="cpp",
        arch=draw(st.sampled_from(["", "sm_80"])),
        machine="m",
        params=(Param(buffer=one, privilege="r"), Param(buffer=two, privilege="rw")),
        body=(Alloc(buffer=local), *draw(bodies)),
        options=tuple(
            sorted(
                draw(
                    st.dictionaries(st.sampled_from(["math", "threads"]), st.integers(1, 9))
                ).items()
            )
        ),
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs())
def test_random_programs_survive_printing(program):
    text = print_program(program)
    again = parse_program(text)
    assert again == program
    assert print_program(again) == text


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("gemm", "not a program"),
        ("program p target=t arch=- machine=m\noptions {}\n  jump\n", "unknown statement"),
        ("program p target=t arch=- machine=m\noptions {}\nparam r A float32[3]\n", "not a buffer"),
    ],
)
def test_what_is_no_program(text, wrong):
    with pytest.raises(ValueError, match=wrong):
        parse_program(text)
