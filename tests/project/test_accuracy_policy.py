"""The accuracy policy: the bundled file loads, and a damaged one says where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran import assets
from septran.accuracy import load_policy
from septran.errors import ConfigError

BUNDLED = (Path(__file__).parents[2] / "configs/accuracy.yaml").read_text()


def test_the_bundled_policy() -> None:
    policy = load_policy()
    assert policy.unit_roundoff["float32"] == 2.0**-24
    assert policy.probes >= 1


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("probes: 8", "prob: 4", "C020", "unknown key 'prob'"),
        ("probes: 8", "", "C020", "'probes' is missing"),
        ("probes: 8", "probes: 8.5", "C021", "probes must be a number"),
        ("probe_per_sqrt: 2.0", "probe_per_sqrt: much", "C021", "probe_per_sqrt must be a number"),
        ("probe_per_sqrt: 2.0", "probe_per_sqrt: 0", "C021", "above 0"),
        ("per_distance: 4.0, ", "", "C020", "'per_distance' is missing"),
        (
            "softmax: {constant: 16.0, per_distance: 4.0, per_sqrt: 2.0}",
            "softmax: 3",
            "C021",
            "mapping",
        ),
    ],
)
def test_a_damaged_one_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, code: str, said: str
) -> None:
    assert old in BUNDLED
    path = tmp_path / "accuracy.yaml"
    path.write_text(BUNDLED.replace(old, new))
    found = replace(assets.find("configs/accuracy.yaml"), path=path)
    monkeypatch.setattr("septran.accuracy.find", lambda _name: found)
    with pytest.raises(ConfigError) as told:
        load_policy()
    (problem,) = told.value.diagnostics
    assert problem.code == code
    assert said in problem.message
    assert problem.span is not None
