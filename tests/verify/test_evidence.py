"""A bundle is signed, and any change to it is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.errors import InputError
from septran.outcome import Level
from septran.verify import evidence
from septran.verify.verify import verify
from tests.verify import kernels


@pytest.fixture
def made(tmp_path: Path):
    problem = kernels.relu()
    source = kernels.entry(kernels.RELU)
    kernel = kernels.kernel_of(problem, source)
    built = kernels.build(source, tmp_path)
    verdict = verify(kernel, built, problem, run_dir=tmp_path / "run")
    return kernel, verdict, problem


def test_a_bundle_is_read_back_and_run_again(made, tmp_path: Path) -> None:
    kernel, verdict, problem = made
    path = evidence.export_bundle(kernel, verdict, tmp_path / "e.json", home=tmp_path / "home")
    assert (tmp_path / "home" / "evidence.key").stat().st_mode & 0o777 == 0o600

    def rerun(bundle: evidence.Bundle):
        built = kernels.build(bundle.files["kernel.cpp"], tmp_path / "again")
        return verify(kernel, built, problem, run_dir=tmp_path / "again" / "run")

    bundle, again = evidence.verify_bundle(path, rerun)
    expected = Level.ACCURATE if verdict.not_checked else Level.ATTESTED
    assert bundle.verdict.level is expected
    assert again.passed
    assert again.seed != verdict.seed


@pytest.mark.parametrize("change", ["verdict", "kernel", "key", "signature"])
def test_a_changed_bundle_is_refused(change: str, made, tmp_path: Path) -> None:
    kernel, verdict, _ = made
    path = evidence.export_bundle(kernel, verdict, tmp_path / "e.json", home=tmp_path / "home")
    data = json.loads(path.read_text())
    match change:
        case "verdict":
            data["verdict"]["budget_ratio"] = 0.0001
        case "kernel":
            data["kernel"]["files"][0][1] += " "
        case "key":
            data["key"] = "00" * 32
        case "signature":
            data["signature"] = data["signature"][:-8] + "AAAAAA=="
    path.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        evidence.read_bundle(path)
    assert caught.value.codes[0] in ("V221", "V222")


def test_a_wrong_kernel_has_no_evidence(made, tmp_path: Path) -> None:
    import dataclasses

    kernel, verdict, _ = made
    with pytest.raises(InputError, match="V220"):
        evidence.export_bundle(
            kernel, dataclasses.replace(verdict, kernel_sha="0"), tmp_path / "e.json", home=tmp_path
        )
