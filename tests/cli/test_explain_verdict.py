"""`septran explain verdict RUN` names the element, the budget, the inputs, the seed and the way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from septran.report.explain import BUDGETS, FAMILIES
from septran.verify.families import FAMILIES as DRAWN


@pytest.fixture
def wrong_run(septran, fresh_home: Path) -> Path:
    """A finished run whose kernel was broken on disk afterwards, and verified again."""
    made = septran("gen", "--op", "relu", "--dim", "N=320", "--backend", "cpp", "--json")
    assert made.code == 0, made.err
    folder = Path(made.json["run"])
    main = folder / "relu.cpp"
    text = main.read_text()
    admission = json.loads((folder / "verify" / "admission.json").read_text())
    assert "zeros" in admission["tried"] and admission["accepted"] == []
    head = text.index("relu_entry(void* const* args)")
    end = text.index("\n}\n", head)
    main.write_text(f"{text[:end]}\n    static_cast<float*>(args[0])[3] += 1.0f;{text[end:]}")
    again = septran("verify", folder.name, "--json")
    assert again.code == 1, again.out + again.err
    return folder


def test_a_wrong_kernel_is_explained(septran, wrong_run: Path) -> None:
    found = septran("explain", "verdict", wrong_run.name, "--json").json
    assert found["schema"] == "septran.explain_verdict/1"
    assert found["status"] == "INCORRECT_NUMERICAL" and found["code"] == "V202"
    element = found["element"]
    assert element["index"] == [3]
    assert float(element["got"]) > float(element["expected"])
    assert found["budget"]["kind"] == "exact" and found["budget"]["rule"]
    assert any(case["wrong"] for case in found["cases"])
    text = septran("explain", "verdict", "latest").out
    for word in (f"{element['output']}[3]", "exact", element["case"], str(element["seed"])):
        assert word in text, text
    words = found["reproduce"].split()
    assert words[:2] == ["septran", "verify"] and str(found["seed"]) in words
    repeated = septran(*words[1:], "--json")
    assert repeated.code == 1
    assert repeated.json["seed"] == found["seed"]
    once_more = septran("explain", "verdict", wrong_run.name, "--json").json
    assert once_more["element"] == element


def test_what_cannot_be_explained(septran, fresh_home: Path) -> None:
    assert septran("explain", "verdict").code == 2
    made = septran("gen", "--op", "relu", "--backend", "cpp", "--stop-after", "emit", "--json")
    assert made.code == 0, made.err
    missing = septran("explain", "verdict")
    assert missing.code == 2 and "C136" in missing.err
    assert septran("explain", "C011", "latest").code == 2


def test_every_family_has_words() -> None:
    assert {f.name for f in DRAWN} | {"near_duplicate", "normal_2"} <= FAMILIES.keys()
    assert {"exact", "gemm", "reduction", "softmax", "elementwise", "chain"} == BUDGETS.keys()
