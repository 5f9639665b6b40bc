"""place_workspaces: tensors between kernels share bytes in turn, and what lies on what is still in use is caught."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from septran import backends
from septran.errors import InternalError
from septran.ir.access import map_regions
from septran.ir.nodes import Alloc, Buffer, For, Program, When
from septran.ir.spec import check_program
from septran.passes.interpret import interpret
from septran.passes.place_workspaces import arena_bytes, place_workspaces, workspace_rows
from septran.plan.torch_module import load_imported
from septran.plan.workspace import workspace_of
from septran.prove.sets import model
from septran.prove.text import same_text
from tests.frontend.importing import imported
from tests.frontend.planning import planned

CHAIN = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))

    def forward(self, x):
        skip = torch.log_softmax(self.layers[0](x), -1)
        y = skip
        for layer in self.layers[1:]:
            y = torch.log_softmax(layer(y), -1)
        return y + skip

def get_inputs():
    return [torch.randn(4, 8)]

def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The finished Program of five products and logarithms of softmaxes, whose first result is read again at the end."""
    path = tmp_path_factory.mktemp("chain") / "chain.py"
    path.write_text(CHAIN)
    plan, lowered = planned(load_imported(imported(path)), "cpp")
    return plan.backend.finished(lowered.program, {})


def moved(program: Program, name: str, offset: int) -> Program:
    """Return `program` with a workspace elsewhere."""

    def buffer(b: Buffer) -> Buffer:
        return replace(b, offset=offset) if b.name == name else b

    def one(stmt):  # type: ignore[no-untyped-def]
        match stmt:
            case Alloc():
                return replace(stmt, buffer=buffer(stmt.buffer))
            case For() | When():
                return replace(stmt, body=tuple(map(one, stmt.body)))
        return map_regions(stmt, lambda r: replace(r, buffer=buffer(r.buffer)))

    return replace(program, body=tuple(map(one, program.body)))


def run(program: Program) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    given = {
        p.buffer.name: torch.randn(p.buffer.shape, generator=generator) for p in program.params
    }
    interpret(program, given)
    return given


def test_a_chain_needs_three_workspaces_at_a_time(chain: Program) -> None:
    rows = workspace_rows(chain)
    assert len(rows) == 9
    each = rows[0].buffer.size
    assert each is not None
    assert arena_bytes(chain) == 3 * each  # the skip, and a producer with its consumer
    told = workspace_of(chain)
    assert (told.bytes, told.separate) == (3 * each, 9 * each)
    assert {r.offset for r in told.rows} == {0, each, 2 * each}


def test_sharing_changes_no_value(chain: Program) -> None:
    apart = chain
    for at, row in enumerate(workspace_rows(chain)):
        apart = moved(apart, row.buffer.name, at * 4096)
    check_program(apart)
    for name, value in run(apart).items():
        assert torch.equal(value, run(chain)[name]), name


def test_a_plan_that_puts_one_on_another_in_use_is_caught(chain: Program) -> None:
    rows = workspace_rows(chain)
    skip = next(r for r in rows if r.last - r.first > 8)
    found = 0
    for row in rows:
        if row is skip or row.buffer.offset == skip.buffer.offset:
            continue
        assert skip.buffer.offset is not None
        bad = moved(chain, row.buffer.name, skip.buffer.offset)
        with pytest.raises(
            InternalError,
            match=f"{row.buffer.name} lies on {skip.buffer.name}|"
            f"{skip.buffer.name} lies on {row.buffer.name}",
        ):
            check_program(bad)
        assert not all(torch.isfinite(v).all() for v in run(bad).values())
        found += 1
    assert found == 8


def test_the_text_of_a_plan_is_proven_to_be_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text(CHAIN.replace("Linear(8, 8)", "Linear(8, 8, bias=False)"))
    plan, lowered = planned(load_imported(imported(path)), "cpp")
    backend = plan.backend
    assert backend.read_back is not None
    program = backend.finished(lowered.program, {})
    kernel = backend.emit(lowered.program, {})
    assert list(same_text(model(program), backend.read_back(kernel, program))) == []
    rows = workspace_rows(program)
    skip = next(r.buffer for r in rows if r.last - r.first > 8)
    assert skip.offset is not None
    bad = moved(program, rows[3].buffer.name, skip.offset)
    leaves = {x.spec.symbol: x for x in backend.complete(lowered.program, {}).values()}
    wrong = backend.print_kernel(bad, leaves)
    (found, *_) = same_text(model(bad), backend.read_back(wrong, bad))
    assert found.code == "P070"
    assert "lies on" in found.text
    (found, *_) = same_text(model(bad), backend.read_back(kernel, bad))
    assert "not at" in found.text


def test_a_workspace_that_nothing_touches_goes(chain: Program) -> None:
    unused = Buffer(name="unused", shape=(1 << 20,), dtype="float32", mem="GLOBAL")
    more = replace(chain, body=(Alloc(buffer=unused), *chain.body))
    assert arena_bytes(place_workspaces(more)) < 1 << 20


def test_every_backend_prints_a_chain(chain: Program) -> None:
    """Targets that give each workspace memory of its own have no arena, and say how much they take."""
    told = workspace_of(replace(chain, body=tuple(_unplaced(s) for s in chain.body)))
    assert told.bytes == told.separate
    assert "place_workspaces" in dict(backends.get("cpp").finish)


def _unplaced(stmt):  # type: ignore[no-untyped-def]
    if isinstance(stmt, Alloc):
        return replace(stmt, buffer=replace(stmt.buffer, offset=None, size=None))
    return stmt
