"""Killed at random moments and resumed: the same end, and no call is paid twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent.leaves import BROKEN, WRONG, fenced, marked
from tests.support.openai_double import Answer, ChatDouble, Step

FAST = marked("fast")


def answer(body: dict[str, Any]) -> Step:
    """Reply by what is asked, so that the course does not depend on the order of arrival."""
    text = str(body["messages"][-1]["content"])
    seed = body["seed"]
    if "The last body" not in text:
        reply = WRONG
    elif "frozen" not in text:
        reply = BROKEN
    else:
        reply = FAST if "leaf_relu" in text else WRONG
    return Answer(fenced(marked(f"seed{seed}", reply)), delay=0.03, chunk=40, chunk_delay=0.004)


def start(double: ChatDouble, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.agent.kill_child", double.base_url, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def finished(double: ChatDouble, folder: Path) -> str:
    child = start(double, folder)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    return out


@pytest.mark.wider
@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.wider)])
def test_kill_at_random_moments(tmp_path: Path, kills: int) -> None:
    with ChatDouble(answer) as double:
        plain = finished(double, tmp_path / "plain")
        once = Counter(r.headers["idempotency-key"] for r in double.requests)
    assert json.loads(plain)[0]["writer"] == "llm"
    assert set(once.values()) == {1}
    rng = random.Random(7)
    folder = tmp_path / "killed"
    in_flight: Counter[str] = Counter()
    with ChatDouble(answer) as double:
        for _ in range(kills):
            before = len(double.requests)
            child = start(double, folder)
            limit = time.monotonic() + 20
            # wait until something happens, so that no kill only hits the start of Python
            while len(double.requests) == before and child.poll() is None:
                assert time.monotonic() < limit
                time.sleep(0.005)
            time.sleep(rng.uniform(0.0, 0.25))
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            in_flight.update(unfinished(folder))
        resumed = finished(double, folder)
        calls = Counter(r.headers["idempotency-key"] for r in double.requests)
    assert resumed_without_times(resumed) == resumed_without_times(plain)
    assert set(calls) == set(once)
    for key, count in calls.items():
        # a call is made again only when a kill came before its reply was here
        assert count <= 1 + in_flight[key], f"call {key} was made {count} times"
    assert sum(calls.values()) <= sum(once.values()) + sum(in_flight.values())
    assert unfinished(folder) == []


def unfinished(folder: Path) -> list[str]:
    """Keys of requests that were sent and have no recorded outcome: a kill came between."""
    sent = (folder / "calls").glob("*.sent")
    return [path.stem for path in sent if not path.with_suffix(".json").is_file()]


def resumed_without_times(text: str) -> list[dict[str, Any]]:
    value: list[dict[str, Any]] = json.loads(text)
    for outcome in value:
        outcome["usage"]["seconds"] = 0.0
    return value


def test_a_kill_between_calls_repeats_nothing(tmp_path: Path) -> None:
    """Cutting the record after any whole call leaves a run that asks only for what is missing."""
    with ChatDouble(answer) as double:
        finished(double, tmp_path / "run")
        total = len(double.requests)
        calls = sorted(
            (tmp_path / "run" / "calls").glob("*.json"), key=lambda p: p.stat().st_mtime_ns
        )
        assert len(calls) == total
        for path in calls[-2:]:
            path.unlink()
        finished(double, tmp_path / "run")
        assert len(double.requests) == total + 2


@pytest.mark.wider
def test_half_written_files_are_never_read(tmp_path: Path) -> None:
    with ChatDouble(answer) as double:
        finished(double, tmp_path / "run")
        total = len(double.requests)
        for path in (tmp_path / "run" / "calls").glob("*.json"):
            path.with_name(f".{path.name}.1.2").write_text('{"half')
        (tmp_path / "run" / "events.jsonl").write_text('{"half')
        finished(double, tmp_path / "run")
        assert len(double.requests) == total
    for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines():
        json.loads(line)
