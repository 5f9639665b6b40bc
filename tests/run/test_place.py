"""Where kernels run is found once; settings reach the child; what is in the way is told when something is built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from septran.backends import get
from septran.backends.base import Availability
from septran.errors import EnvironmentProblem
from septran.plan.resolve import GenRequest
from septran.run.gen import gen
from septran.settings import load
from septran.trial.place import place_in, place_of
from septran.verify.sandbox import MIB


def test_without_settings_the_child_is_as_the_target_says() -> None:
    plain = place_of(get("dsa_c"), "", "auto", 3)
    assert place_in(load(flags={"threads": 3}), get("dsa_c"), "").sessions == plain.sessions


def test_time_and_memory_of_the_settings_reach_the_child() -> None:
    settings = load(flags={"run_timeout_s": 7.5, "memory_mib": 512, "threads": 1})
    place = place_in(settings, get("dsa_c"), "")
    assert place.sessions.call_timeout_s == 7.5
    assert place.sessions.memory_bytes == 512 * MIB
    assert (place.threads, place.sessions.threads, place.where) == (1, 1, "emulated")


def test_a_call_over_the_time_of_the_settings_is_v206(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = get("cpp")

    def slow(spec):  # type: ignore[no-untyped-def]
        leaf = honest.library(spec)
        head = leaf.source[: leaf.source.index("{") + 1]
        body = " for (long t = 0; t < 400000000000L; ++t) Y(0) = Y(0) + float(t); }"
        return replace(leaf, source=head + body)

    monkeypatch.setattr(
        "septran.plan.resolve.backends.get", lambda name: replace(honest, library=slow)
    )
    result = gen(
        GenRequest(op="relu", backend="cpp", dims={"N": 64}),
        settings=load(flags={"run_timeout_s": 1.0, "threads": 1}),
        progress=lambda text: None,
        into=tmp_path / "run",
        timed=False,
    )
    assert result.exit_code == 1
    assert "[V206]" in result.data["reason"] and "run_timeout_s" in result.data["hint"]


def test_what_is_in_the_way_is_told_when_something_is_built() -> None:
    missing = {"compile": Availability(ok=False, detail="no g++", install="apt-get install g++")}
    bare = replace(get("cpp"), available=lambda: missing)
    place = place_of(bare, "native", "auto", 1)
    with pytest.raises(EnvironmentProblem, match="no g\\+\\+") as caught:
        place.require()
    assert caught.value.codes == ("V110",)
    place_of(get("cpp"), "native", "auto", 1).require()


def test_text_is_printed_where_nothing_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = {"compile": Availability(ok=False, detail="no g++", install="")}
    bare = replace(get("cpp"), available=lambda: missing)
    monkeypatch.setattr("septran.plan.resolve.backends.get", lambda name: bare)
    request = GenRequest(op="relu", backend="cpp", dims={"N": 64}, stop_after="emit")
    result = gen(request, settings=load(), progress=lambda text: None, into=tmp_path / "run")
    assert (result.code, result.data["level"]) == (0, "emitted")
