"""`septran prove` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import septran as septran


def test_prove_prints_each_rule(septran, tmp_path: Path):
    done = septran("prove", "--op", "softmax", "--backend", "cpp")
    assert done.code == 0, done.err
    for rule in ("bounds", "races", "coverage", "order", "data"):
        assert rule in done.out
    assert "not proved: leaf bodies" in done.out


def test_a_certificate_is_decided_again_from_its_programs(septran, tmp_path: Path):
    file = tmp_path / "certificate.json"
    done = septran(
        "prove", "--op", "add", "--backend", "dsa_c", "--symbolic", "N", "--certificate", str(file)
    )
    assert done.code == 0, done.err
    again = septran("prove", "--check", str(file), "--json")
    assert again.code == 0, again.err
    found = json.loads(again.out)
    assert found["schema"] == "septran.certificate/1"
    states = {rule: r["state"] for rule, r in found["rules"].items()}
    assert states.pop("text") == "not asked"
    assert set(states.values()) == {"proved"}

    stored = json.loads(file.read_text())
    lines = stored["program"].splitlines()
    copies = [n for n, line in enumerate(lines) if line.strip().startswith("copy")]
    del lines[copies[0]]
    stored["program"] = "\n".join(lines) + "\n"  # every rule still says "proved" in the file
    file.write_text(json.dumps(stored))
    forged = septran("prove", "--check", str(file))
    assert forged.code == 1 and "refused" in forged.out


def test_what_is_no_certificate_is_the_users_mistake(septran, tmp_path: Path):
    file = tmp_path / "other.json"
    file.write_text("[1, 2]")
    done = septran("prove", "--check", str(file))
    assert done.code == 2 and "C160" in done.err


@pytest.mark.wider
def test_gen_says_what_is_proven(septran, tmp_path: Path):
    done = septran("gen", "--op", "add", "--backend", "dsa_c", "--json", "--require", "proved")
    assert done.code == 0, done.err
    found = done.json
    assert found["proved"] == ["bounds", "races", "coverage", "order", "data", "sums", "text"]
    assert found["proof"]["refused"] == {} and found["proof"]["not_asked"] == {}
    assert json.loads((Path(found["run"]) / "certificate.json").read_text())["program"]

    bundle = tmp_path / "add.json"
    done = septran("export", Path(found["run"]).name, "-o", str(bundle))
    assert done.code == 0, done.err
    again = septran("prove", "--check", str(bundle))
    assert again.code == 0 and again.out.count(" proved ") == 7, again.err


@pytest.mark.wider
def test_a_missing_proof_fails_only_who_requires_it(septran, monkeypatch):
    from septran.run import prove

    monkeypatch.setattr(prove, "WITHIN_S", -1.0)
    done = septran("gen", "--op", "add", "--backend", "dsa_c", "--json")
    assert done.code == 0 and done.json["proved"] == []
    asked = septran("gen", "--op", "add", "--backend", "dsa_c", "--json", "--require", "proved")
    assert asked.code == 3 and "V115" in asked.json["reason"]


def test_every_dim_may_stay_symbolic(septran):
    done = septran("prove", "--op", "gemm", "--backend", "cpp", "--dims", "symbolic", "--json")
    assert done.code == 0, done.out + done.err
    assert set(done.json["domain"]) == {"M", "N", "K"}
    proved = {name for name, rule in done.json["rules"].items() if rule["state"] == "proved"}
    assert {"bounds", "races", "coverage", "data", "sums", "row-order"} <= proved
