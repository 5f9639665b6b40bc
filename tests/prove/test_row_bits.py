"""`deterministic: batch-invariant`: one order for every number of rows, proven; the leaves' part, run and compared on bits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import septran as septran_
from septran import backends
from septran.errors import ArgumentError, MappingError
from septran.kernel import Leaf, leaf_specs
from septran.mapping.load import load_mapping
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, Plan, lower_plan, resolve
from septran.plan.rows import row_dims
from septran.plan.specialize import specialize
from septran.run.prove import decide_again, prove_rows
from septran.trial.place import place_of
from septran.trial.row_bits import RowBits, compare_rows
from tests.backends.operators import ROOT, all_operators
from tests.backends.pallas.installed import simulated, simulated_where_asked
from tests.cli.conftest import septran as septran

__all__ = ["septran", "simulated", "simulated_where_asked"]

WORD = "batch-invariant"


def planned(op: str, target: str, **dims: int) -> Plan:
    return resolve(GenRequest(op=op, backend=target, dims=dims, deterministic=WORD))


def leaves_of(plan: Plan) -> dict[str, Leaf]:
    lowered = lower_plan(plan)
    return library_leaves(plan.backend, lowered.program, lowered.bound.mapping)


def compared(plan: Plan, work: Path, counts: tuple[int, ...], edit: str = "") -> RowBits:
    leaves = leaves_of(plan)
    if edit:
        old, new = edit.split("|")
        changed = {
            key: replace(leaf, source=new.join(leaf.source.rsplit(old, 1)))
            for key, leaf in leaves.items()
        }
        assert changed != leaves
        leaves = changed
    place = place_of(plan.backend, plan.arch, "emulated", 2)
    if place.trouble is not None:
        pytest.skip(str(place.trouble))
    return compare_rows(place, plan, leaves, work=work, counts=counts)


def test_prove_gives_one_certificate_for_every_number_of_rows(septran, tmp_path: Path):
    file = tmp_path / "rows.json"
    asked = ("--op", "softmax", "--backend", "cpp", "--deterministic", WORD)
    done = septran("prove", *asked, "--certificate", str(file))
    assert done.code == 0, done.err
    assert "for all 1 <= M <= " in done.out and "the same for every M" in done.out
    again = septran("prove", "--check", str(file))
    assert again.code == 0 and "row-order" in again.out
    stored = json.loads(file.read_text())
    assert any("same bits at every place" in a for a in stored["assumptions"])


def test_every_number_of_rows_has_the_same_tiles_and_leaves():
    specs = [
        [spec for _, spec in leaf_specs(lower_plan(planned("gemm", target, M=m)).program)]
        for target in ("cpp", "triton_cuda")
        for m in (1, 37, 256, 5000)
    ]
    assert specs[0] == specs[1] == specs[2] == specs[3]
    assert specs[4] == specs[5] == specs[6] == specs[7]
    usual = [
        lower_plan(resolve(GenRequest(op="gemm", backend="cpp", dims={"M": m}))) for m in (1, 37)
    ]
    assert len({str(leaf_specs(low.program)) for low in usual}) == 2, "as the policy has it"


def test_threads_change_no_tile(monkeypatch):
    found = set()
    for threads in ("1", "13"):
        monkeypatch.setenv("SEPTRAN_THREADS", threads)
        found.add(str(lower_plan(planned("gemm", "cpp", M=64)).program))
    assert len(found) == 1


def test_what_cannot_be_kept_is_refused(septran, tmp_path: Path):
    done = septran("map", "--op", "add", "--backend", "cpp", "-o", str(tmp_path / "m.yaml"))
    assert done.code == 0, done.err
    asked = ("--op", "add", "--mapping", str(tmp_path / "m.yaml"), "--deterministic", WORD)
    assert "M092" in septran("prove", *asked).err
    plan = planned("col_sum", "cpp")
    whole = replace(plan, operator=replace(plan.operator, outputs=("Y", "X")))
    with pytest.raises(MappingError, match="no dim in common"):
        lower_plan(whole)


def test_an_order_that_follows_the_rows_is_refused(monkeypatch):
    """A column sum whose rows are taken for the rows of the result: their number is the length of each sum."""
    plan = planned("col_sum", "cpp")
    lowered = lower_plan(plan)
    monkeypatch.setattr("septran.run.prove.row_dims", lambda operator: ("M",))
    with pytest.raises(MappingError, match=r"M092|P062"):
        prove_rows(plan, lowered)


def test_a_policy_file_can_ask_for_it(tmp_path: Path):
    text = (ROOT / "mappings" / "cpp.mapping.yaml").read_text()
    file = tmp_path / "mine.mapping.yaml"
    file.write_text(text.replace("  grid: CORE", f"  deterministic: {WORD}\n  grid: CORE"))
    plan = resolve(GenRequest(op="gemm", backend="cpp", mapping=file, dims={"M": 5}))
    assert lower_plan(plan).program == lower_plan(planned("gemm", "cpp", M=5)).program
    file.write_text(text.replace("  grid: CORE", "  deterministic: often\n  grid: CORE"))
    with pytest.raises(MappingError, match="batch-invariant"):
        load_mapping(file)


def test_a_call_from_python_does_not_ignore_the_switch():
    plan = planned("add", "cpp")
    with pytest.raises(MappingError, match="which dim counts rows"):
        specialize(
            plan.logic,
            plan.operator.entry,
            mapping=plan.mapping,
            backend=plan.backend,
            arch=plan.arch,
            machine=plan.machine,
            given={},
        )


def test_a_kernel_from_python_has_one_order_for_every_number_of_rows():
    import torch

    for op in ("gemm", "softmax"):
        kernel = septran_.compile(op=op, deterministic=WORD)
        found = []
        for rows in (1, 37, 256, 5000):
            given = (torch.empty(rows, 64), torch.empty(64, 48))[: len(kernel._read)]
            found.append([spec for _, spec in leaf_specs(kernel.specialized(*given).program)])
        assert found[0] == found[1] == found[2] == found[3]
    for wrong, told in (
        ({"deterministic": "often"}, "not 'batch-invariant'"),
        ({"deterministic": WORD, "dynamic": ("M",)}, "whose sizes are known"),
    ):
        with pytest.raises(ArgumentError, match=told):
            septran_.compile(op="softmax", **wrong)


@pytest.mark.wider
def test_a_row_has_the_same_bits_alone_when_it_is_called_from_python():
    import torch

    kernel = septran_.compile(op="row_sum", deterministic=WORD)
    x = torch.randn(64, 300)
    whole = kernel(x)
    for rows in (1, 7):
        assert torch.equal(kernel(x[-rows:].contiguous()), whole[-rows:])


EMULATED = ("cuda_c", "hip_c", "dsa_c", "triton_cuda", "triton_hip", "triton_npu", "tilelang_cuda", "tilelang_hip", "tilelang_npuir", "pallas_tpu")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("target", EMULATED)
@pytest.mark.usefixtures("simulated_where_asked")
def test_bits_are_the_same_for_any_number_of_rows_on_every_emulator(target: str, tmp_path: Path):
    plan = planned("row_sum", target, N=40)
    # TileLang's compiler lowers each number of rows anew, for most of a minute; JAX takes 5 s for each
    slow = target.startswith(("tilelang", "pallas"))
    fewer = (1, 2, 3, 7, 31, 63) if slow else range(1, 64)
    counts = (64, *fewer)
    assert compared(plan, tmp_path, counts) == RowBits(compared=counts)


def test_bits_of_rows_are_the_same(tmp_path: Path):
    plan = planned("row_sum", "cpp", N=300)
    assert compared(plan, tmp_path, (8, 3)) == RowBits(compared=(8, 3))


@pytest.mark.slow
def test_a_leaf_that_treats_few_rows_otherwise_is_found(tmp_path: Path):
    plan = planned("row_sum", "cpp", N=300)
    edit = "j + 4 * L <= n|j + (X.n[0] < 4 ? 4000 : 4) * L <= n"
    assert compared(plan, tmp_path / "planted", (8, 3), edit).differ == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("op", ["gemm", "layernorm"])
def test_bits_are_the_same_for_1_to_64_rows(op: str, tmp_path: Path):
    plan = planned(op, "cpp", **all_operators()[op][0].odd_dims[0])
    found = compared(plan, tmp_path, (64, *range(1, 64)))
    assert found == RowBits(compared=(64, *range(1, 64)))


TARGETS = sorted(dict(backends.BUILTIN))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["gemm", "softmax", "layernorm"])
@pytest.mark.usefixtures("simulated_where_asked")
def test_bits_are_the_same_on_every_target(op: str, target: str, tmp_path: Path):
    plan = planned(op, target, **all_operators()[op][0].odd_dims[0])
    assert compared(plan, tmp_path, (64, 1, 7)) == RowBits(compared=(64, 1, 7))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_operator_is_lowered_for_every_number_of_rows_and_proven(target: str):
    for op, (operator, _) in all_operators().items():
        if (target, op) == ("pallas_tpu", "cross_entropy"):
            continue  # M172: int64
        for count in (1, 37, 256):
            plan = planned(op, target, **dict.fromkeys(row_dims(operator), count))
            lowered = lower_plan(plan)
            plan.backend.emit(lowered.program, leaves_of(plan))
        proof = prove_rows(plan, lowered)
        assert "row-order" in proof.certificate.proved and proof.certificate.holds, op


@pytest.mark.slow
def test_gen_proves_compares_and_says_so(septran):
    asked = ("--op", "row_sum", "--backend", "cpp", "--dim", "M=40", "--deterministic", WORD)
    done = septran("gen", *asked, "--json")
    assert done.code == 0, done.err
    rows = done.json["rows"]
    assert "row-order" in rows["proved"] and rows["compared"] and rows["differ"] == []
    stored = json.loads((Path(done.json["run"]) / "rows.json").read_text())
    assert decide_again(stored).holds
