"""Arrays that are seen in another layout, and indices that are read from memory: what is proven, refused and assumed."""

from __future__ import annotations

import functools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from septran import backends
from septran.cli.card import _proof
from septran.ir import nodes as ir
from septran.ir.text import parse_program
from septran.plan import task_file, torch_module
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.plan.symbolic import symbolic
from septran.plan.unmapped import unmapped
from septran.prove import RULES, Certificate, prove
from septran.prove.storage import Radix, radixes
from septran.run.prove import prove_request
from tests.cli.conftest import septran as septran
from tests.prove.mutants import mutants
from tests.prove.view_mutants import seen_otherwise

TASKS = Path(__file__).parents[1] / "frontend" / "tasks"
MODULE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x.permute(0, 2, 1)) * 2.0
def get_inputs():
    return [torch.randn(4, 60, 70)]
def get_init_inputs():
    return []
"""


@pytest.mark.slow
def test_gen_proves_a_module_with_a_permute(septran, tmp_path: Path):
    file = tmp_path / "permuted.py"
    file.write_text(MODULE)
    done = septran("gen", "--task", str(file), "--backend", "cpp", "--require", "proved", "--json")
    assert done.code == 0, done.err
    assert done.json["proved"] == list(RULES) and done.json["proof"]["assumes"] == {}


# ---- small Programs

HALVES = """program halves target=cpp arch=- machine=cpp.x86_64
options {}
param w out: GLOBAL float32[6, 16]
param r a: GLOBAL float32[6, 8]
param r b: GLOBAL float32[8, 6]
param r c: GLOBAL float32[8]
  for i0 in 6 on CORE parallel
    leaf left <auto>
    | w y = out[i0:+1, 0:+8] seen 6x8 by 16,1 from 0
    | r x = a[i0:+1, 0:+8]
    | r z = c[0:+1, 0:+8] seen 1x8 by 0,1 from 0
    | prim {"name": "map", "out": "y", "ins": [], "named": {"x": "x", "z": "z"}, "attrs": {"expr": "x + z"}}
  for i1 in 6 on CORE parallel
    leaf right <auto>
    | w y = out[i1:+1, 0:+8] seen 6x8 by 16,1 from 8
    | r x = b[i1:+1, 0:+8] seen 6x8 by 1,6 from 0
    | prim {"name": "map", "out": "y", "ins": [], "named": {"x": "x"}, "attrs": {"expr": "x * 2.0"}}
"""
TWO = """program two target=cpp arch=- machine=cpp.x86_64
options {}
param w out: GLOBAL float32[16]
param r a: GLOBAL float32[4, 12]
  for h in 2 on CORE parallel
    leaf half <auto>
    | w y = out[h:+1, 0:+8] seen 2x8 by 8,1 from 0
    | r x = a[h:+1, 0:+8] seen 2x8 by 24,3 from 1
    | prim {"name": "map", "out": "y", "ins": [], "named": {"x": "x"}, "attrs": {"expr": "x * 2.0"}}
"""
SUMMED = """program summed target=cpp arch=- machine=cpp.x86_64
options {}
param w out: GLOBAL float32[5, 1]
param r a: GLOBAL float32[4, 5, 6]
  for i0 in 5 on CORE parallel
    alloc s: REGISTER float32[1, 1]
    leaf zero <auto>
    | w y = s[0:+1, 0:+1]
    | prim {"name": "fill", "out": "y", "ins": [], "named": {}, "attrs": {"value": 0.0}}
    for k0 in 3
      alloc a_s: SHARED float32[1, 8]
      copy a_s[0:+1, 0:+8] <- a[i0:+1, (k0 * 8):+8] seen 5x24 by 6,1 from 0
      leaf add <auto>
      | rw y = s[0:+1, 0:+1]
      | r x = a_s[0:+1, 0:+8]
      | prim {"name": "reduce_acc", "out": "y", "ins": ["x"], "named": {}, "attrs": {"axis": 1, "op": "sum"}}
    copy out[i0:+1, 0:+1] <- s[0:+1, 0:+1]
"""
LOOKUP = """program lookup target=cpp arch=- machine=cpp.x86_64
options {}
param w out: GLOBAL float32[2, 6, 12]
param r table: GLOBAL float32[20, 12]
param r ids: GLOBAL int64[2, 6]
  for i0 in 3 on CORE parallel
    leaf pick <auto>
    | w y = out[(i0 * 4):+4, 0:+12] seen 12x12 by 12,1 from 0
    | r x = table[0:+20, 0:+12]
    | r i = ids[(i0 * 4):+4, 0:+1] seen 12x1 by 1,0 from 0
    | prim {"name": "gather", "out": "y", "ins": ["x", "i"], "named": {}, "attrs": {"axis": 0}}
"""
ASSUMED = (
    "0 <= each ids < 20 where pick picks from table along dim 0 (gather); checked by the caller"
)


def decide(text: str, program: ir.Program | None = None) -> Certificate:
    reference = parse_program(text)
    return prove(program or reference, reference)


def told(certificate: Certificate) -> list[str]:
    return [str(f) for f in certificate.findings]


@pytest.mark.parametrize("text", [HALVES, TWO, LOOKUP], ids=["halves", "two", "lookup"])
def test_programs_with_views_are_proven(text: str):
    certificate = decide(text)
    assert set(certificate.proved) == set(RULES) - {"order", "text"}, told(certificate)


def test_a_view_lies_inside_its_array():
    """`a` has 120 elements, as many as the view, which begins at the second."""
    certificate = decide(SUMMED.replace("by 6,1 from 0", "by 24,1 from 1"))
    (found,) = certificate.findings
    assert found.code == "P010" and "is seen from element 1 to 120 of 120" in found.text


def test_rows_that_overlap_may_be_read():
    assert decide(SUMMED).holds, told(decide(SUMMED))


def test_a_sum_over_a_view_is_whole_where_the_view_is():
    permuted = SUMMED.replace("seen 5x24 by 6,1 from 0", "seen 5x24 by 24,1 from 0")
    assert decide(permuted).holds, told(decide(permuted))
    shorter = permuted.replace("for k0 in 3", "for k0 in 2")
    (first,) = (
        r for r in prove(parse_program(shorter), parse_program(shorter)).rules if r.rule == "sums"
    )
    assert [f.code for f in first.findings] == ["P060"]


@pytest.mark.parametrize(
    ("text", "old", "new", "code"),
    [
        pytest.param(HALVES, "6x8 by 1,6", "6x8 by 1,5", "P050", id="wrong stride"),
        pytest.param(HALVES, "6x8 by 1,6", "6x8 by 6,1", "P050", id="swapped axes"),
        pytest.param(HALVES, "1,6 from 0", "1,6 from 1", "P010", id="start past the end"),
        pytest.param(TWO, "24,3 from 1", "24,3 from 2", "P050", id="start one later"),
        pytest.param(TWO, "24,3 from 1", "24,3 from 0", "P050", id="start one earlier"),
        pytest.param(HALVES, "16,1 from 8", "16,1 from 7", "P020", id="a hole between the halves"),
        pytest.param(HALVES, "16,1 from 8", "16,1 from 0", "P020", id="both halves in one"),
        pytest.param(TWO, "2x8 by 8,1", "2x8 by 7,1", "P030", id="overlapping halves"),
        pytest.param(TWO, "2x8 by 8,1", "2x8 by 8,0", "P030", id="all of a tile in one element"),
        pytest.param(LOOKUP, "12x12 by 12,1", "12x12 by 1,12", "P050", id="axes of a result"),
    ],
)
def test_a_wrong_layout_is_refused_with_a_witness(text: str, old: str, new: str, code: str):
    assert text.count(old) == 1
    certificate = decide(text, parse_program(text.replace(old, new)))
    found = [f for f in certificate.findings if f.code == code]
    assert found and found[0].at, told(certificate)


def test_two_iterations_meet_in_an_element_of_the_view():
    certificate = decide(TWO, parse_program(TWO.replace("2x8 by 8,1", "2x8 by 7,1")))
    race = next(f for f in certificate.findings if f.code == "P030")
    assert dict(race.at) == {"h": 0, "h'": 1}
    assert race.tiles[0].buffer == "out seen by strides 7, 1 from 0"
    assert race.element == (0, 7)  # the second iteration's first


def test_a_missing_element_is_told_by_the_arrays_own_index():
    certificate = decide(HALVES, parse_program(HALVES.replace("16,1 from 8", "16,1 from 7")))
    hole = next(f for f in certificate.findings if f.code == "P020")
    assert dict(hole.at) == {"out[0]": 0, "out[1]": 15} and hole.element == (0, 15)


@pytest.mark.parametrize("text", [HALVES, TWO, LOOKUP], ids=["halves", "two", "lookup"])
def test_every_operand_in_a_wrong_layout_is_refused(text: str):
    program = parse_program(text)
    faults = list(mutants(program, (seen_otherwise,)))
    assert len(faults) >= 4
    assert [name for name, m in faults if decide(text, m).holds] == []


# ---- coordinates


@pytest.mark.parametrize(
    ("shape", "views", "divisions"),
    [
        ((4, 60, 70), [((4, 70, 60), (4200, 1, 70), 0)], 0),
        ((6, 32), [((6, 4, 4), (32, 8, 1), 0), ((6, 4, 4), (32, 8, 1), 4)], 0),
        ((4, 60), [((24, 10), (10, 1), 0), ((60, 4), (1, 60), 0)], 2),
        ((12,), [((3, 4), (4, 1), 0), ((4, 3), (3, 1), 0)], 1),
        ((3, 5), [((5, 3), (-1, 5), 4)], 3),
        ((7, 7), [((7,), (8,), 0), ((3, 3, 5, 5), (7, 1, 7, 1), 0)], 0),
    ],
)
def test_coordinates_are_the_elements(shape, views, divisions):
    """Two views have equal coordinates where they have the same element, and nowhere else."""
    array = ir.Buffer(name="x", shape=shape, dtype="float32", mem="GLOBAL")
    seen = [replace(array, shape=s, strides=t, start=at) for s, t, at in views]
    reads = tuple(
        ir.Copy(
            dst=ir.Region.whole(replace(v, name="y", strides=(), start=0)), src=ir.Region.whole(v)
        )
        for v in seen
    )
    program = ir.Program(
        name="p",
        target="cpp",
        arch="",
        machine="m",
        body=reads,
        params=(ir.Param(buffer=array, privilege="r"),),
    )
    radix = radixes(program)["x"]
    assert sum(map(radix.carries, seen)) <= divisions
    for view in seen:
        for index in _indices(view.shape):
            at = view.start + sum(i * s for i, s in zip(index, view.strides, strict=True))
            assert _digits(radix, view, index) == _weighed(radix, at)
            assert radix.index(_weighed(radix, at)) == _weighed(Radix(shape, _rows(shape)), at)


def _indices(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for n in shape:
        found = [(*f, i) for f in found for i in range(n)]
    return found[:: max(1, len(found) // 200)]


def _digits(radix: Radix, view: ir.Buffer, index: tuple[int, ...]) -> tuple[int, ...]:
    texts = radix.cells(view, [str(i) for i in index])
    names = {"floor": lambda x: int(x // 1)}
    return tuple(int(eval(t.replace("mod", "%").replace("/", "//"), names)) for t in texts)


def _weighed(radix: Radix, at: int) -> tuple[int, ...]:
    return tuple(at // w % n for w, n in zip(radix.weights, radix.extents, strict=True))


def _rows(shape: tuple[int, ...]) -> tuple[int, ...]:
    from septran.ir.strides import row_major

    return row_major(shape)


# ---- indices that are read from memory


def test_a_lookup_is_proven_under_an_assumption_with_a_name(septran, tmp_path: Path):
    certificate = decide(LOOKUP)
    assert set(certificate.assumed) == {"bounds", "data"}
    assert certificate.assumed["bounds"] == (f"{ASSUMED}, and outside 0 is read",)
    file = tmp_path / "certificate.json"
    file.write_text(json.dumps(certificate.to_json()))
    again = septran("prove", "--check", str(file))
    assert again.code == 0 and again.out.count(ASSUMED) == 1, again.out


def test_who_made_an_index_answers_for_it():
    first = """  alloc place: GLOBAL int64[2, 6]
  for j0 in 1 on CORE parallel
    leaf placed <auto>
    | w p = place[0:+2, 0:+6]
    | r i = ids[0:+2, 0:+6]
    | prim {"name": "map", "out": "p", "ins": [], "named": {"i": "i"}, "attrs": {"expr": "i + 1"}}
"""
    text = LOOKUP.replace("  for i0", first + "  for i0").replace(
        "| r i = ids[(i0", "| r i = place[(i0"
    )
    (law,) = decide(text).assumed["data"]
    assert law.startswith("0 <= each place < 20 ") and "made by placed" in law


def test_the_card_says_what_is_assumed():
    proof = {"refused": {}, "not_asked": {}, "assumes": {"bounds": [ASSUMED], "data": [ASSUMED]}}
    rows = _proof({"proof": proof, "proved": ["bounds", "data"]})
    assert rows.count(("assumes", ASSUMED)) == 1


# ---- whole modules


@functools.cache
def _module(path: Path):
    from tests.frontend.importing import imported

    return torch_module.load_imported(imported(path))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return the request for a task file, imported in this process."""
    monkeypatch.setattr(task_file, "load_task_file", lambda p, **_: _module(p))

    def request(name: str, target: str) -> GenRequest:
        path = tmp_path / f"{Path(name).name}.py"
        shutil.copy(TASKS / f"{name}.py", path)
        return GenRequest(op=None, task_file=path, backend=target)

    return request


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("level1/attention_half", "cpp"),  # each of its parallel parts reserves a block of its own
        pytest.param(
            "level2/gemm_swish_clamp_tanh", "cpp", marks=pytest.mark.slow
        ),  # one tile after another in the same bytes
        pytest.param("level3/mingpt_attention", "cuda_c", marks=pytest.mark.slow),
        pytest.param("level1/cosine_loss", "triton_cuda", marks=pytest.mark.slow),
    ],
)
def test_a_module_is_proven_by_every_rule(module, name: str, target: str):
    certificate = prove_request(module(name, target)).certificate
    missing = {"order"} if backends.get(target).copies_ordered_by else set()
    assert set(certificate.proved) == set(RULES) - missing, told(certificate)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("serving/rotary_neox", "cpp"),
        ("level2/conv_relu_bias", "cpp"),
        ("level2/conv_relu_bias", "cuda_c"),
        ("level2/conv_relu_bias", "triton_cuda"),
        ("level1/matmul_4d_einsum", "cpp"),
        ("level3/patch_merging", "cpp"),
    ],
)
def test_every_layout_of_a_module_is_needed(module, name: str, target: str):
    plan = resolve(module(name, target))
    lowered = lower_plan(plan)
    reference = unmapped(plan, lowered.bound.mapping, lowered.passes[0].program, symbolic(plan, ()))
    assert prove(lowered.program, reference.program).holds
    faults = list(mutants(lowered.program, (seen_otherwise,)))
    assert faults
    step = max(1, len(faults) // 24)
    assert [n for n, m in faults[::step] if prove(m, reference.program).holds] == []
