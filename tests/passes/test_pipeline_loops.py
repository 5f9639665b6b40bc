"""pipeline_loops: before and after, event balance, and the same numbers at every depth."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from septran.backends.dsa.passes.expand_leaves import expand_leaves
from septran.errors import MappingError
from septran.ir.nodes import Alloc, Await, Copy, For, LeafCall, Post, Program, When
from septran.ir.spec import check_program
from septran.passes.interpret import Hazard, interpret
from septran.passes.pipeline_loops import pipeline_loops
from tests.backends.dsa_programs import gemm


def run(program: Program) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    shapes = {p.buffer.name: p.buffer.shape for p in program.params}
    args = {n: torch.randn(s, generator=generator) for n, s in shapes.items()}
    want = args["A"].double() @ args["B"].double()
    interpret(program, args)
    return args["C"], want


@pytest.mark.parametrize("depth", [2, 3, 4, 7])
@pytest.mark.parametrize("k", [16, 33, 80])
def test_every_depth_gives_the_same_numbers(depth: int, k: int) -> None:
    program = pipeline_loops(gemm(40, 24, k, tile=(32, 32, 16), pipeline=depth))
    check_program(program, after="pipeline_loops")
    got, want = run(program)
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)


def test_shape_of_the_result() -> None:
    before = gemm(64, 48, 80, pipeline=3)
    after = pipeline_loops(before)
    body = after.body[0].body[0].body  # type: ignore[union-attr]
    staged = [s.buffer for s in body if isinstance(s, Alloc) and s.buffer.versions == 3]
    assert [b.name for b in staged] == ["A_s", "B_s"]
    prologue, steady = (s for s in body if isinstance(s, For))
    assert [type(s) for s in prologue.body] == [Copy, Copy, Post]
    assert [type(s) for s in steady.body] == [When, Await, LeafCall, When]
    assert steady.pipeline == 0


def count_events(body, env: dict[str, int], counts: dict[str, int]) -> None:
    """Run only the events: posts add, awaits need one."""
    from septran.ir.expr import evaluate

    for s in body:
        match s:
            case Post():
                key = f"{s.event}[{evaluate(s.slot, env)}]"
                counts[key] = counts.get(key, 0) + 1
                assert counts[key] == 1, f"{key} posted twice"
            case Await():
                key = f"{s.event}[{evaluate(s.slot, env)}]"
                assert counts.get(key) == 1, f"{key} awaited before it is posted"
                counts[key] = 0
            case For():
                for i in range(evaluate(s.extent, env)):
                    count_events(s.body, {**env, s.var: i}, counts)
            case When() if s.low <= evaluate(s.expr, env) < s.high:
                count_events(s.body, env, counts)


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 9])
def test_events_balance(depth: int, blocks: int) -> None:
    program = pipeline_loops(gemm(64, 64, 16 * blocks, tile=(32, 32, 16), pipeline=depth))
    counts: dict[str, int] = {}
    count_events(program.body, {}, counts)
    assert not any(counts.values()), counts


def test_a_dropped_wait_is_seen_by_the_interpreter() -> None:
    program = pipeline_loops(gemm(32, 32, 64, tile=(32, 32, 16), pipeline=2))

    def strip(body):
        out = []
        for s in body:
            if isinstance(s, Await) and not s.engine:
                continue
            out.append(replace(s, body=strip(s.body)) if isinstance(s, For | When) else s)
        return tuple(out)

    broken = replace(program, body=strip(program.body))
    with pytest.raises(Hazard, match="leaf mma reads A_s while copy A_s <- A on copy writes A_s"):
        run(broken)


def test_loops_without_pipeline_stay() -> None:
    program = gemm(64, 48, 80)
    assert pipeline_loops(program) == program


def test_depth_one_keeps_the_loop() -> None:
    program = gemm(64, 48, 80, pipeline=1)
    assert pipeline_loops(program) == program


def test_negative_depth_is_refused() -> None:
    with pytest.raises(MappingError, match="M041"):
        pipeline_loops(gemm(64, 48, 80, pipeline=-1))


def test_expanded_leaves_mean_the_same() -> None:
    got, want = run(expand_leaves(gemm(40, 24, 33, tile=(32, 32, 16))))
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)
