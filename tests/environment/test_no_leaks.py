"""Nothing of a submission reaches another one: a verdict after others is the verdict alone, and nothing is left behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from septran.environment.request import submission_of
from septran.environment.service import Service
from septran.environment.tasks import Asked, leaf_tasks
from septran.settings import load

DIMS = {"M": 33, "N": 18}
KEEPS = "static float kept;\nkept += 1.0f;\n"
READS = "float seen[64];\nfor (long i = 0; i < 64 && i < Y.n[1]; ++i) Y.p[i] = seen[i];\n"


def replies() -> dict[str, str]:
    """Replies by what they do: right, wrong, keeping a number, reading what nobody wrote, leaving Y alone."""
    (task,) = leaf_tasks(Asked(op="transpose", backend="cpp", dims=DIMS))
    body = str(task.solution())
    bodies = {
        "right": body,
        "keeps": KEEPS + body,
        "reads": READS,
        "nothing": "long i = 0;",
    }
    return {name: f"```cpp\n{text}\n```\n" for name, text in bodies.items()}


def verdicts(folder: Path, names: list[str], seed: int = 5) -> dict[str, dict]:
    """Name -> reward of the replies, judged by one worker in this order."""
    service = Service(folder, settings=load())
    known, found = replies(), {}
    service.start()
    try:
        for name in names:
            asked = {"op": "transpose", "backend": "cpp", "dims": DIMS, "leaf": "transpose_leaf"}
            sent = submission_of({**asked, "reply": known[name], "seed": seed})
            state = service.verdict(service.submit(sent)[0], wait_s=240.0)
            assert state is not None and state["state"] == "done", state
            found[name] = state["result"]
    finally:
        service.close()
    return found


@pytest.mark.wider
def test_a_verdict_after_others_is_the_verdict_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    tempfile.tempdir = None
    try:
        order = ["right", "keeps", "reads", "nothing"]
        one = verdicts(tmp_path / "one", order)
        two = verdicts(tmp_path / "two", order[::-1])
    finally:
        tempfile.tempdir = None
    assert one == two
    assert one["right"]["rung"] == "accurate"
    assert "accurate" not in {one[name]["rung"] for name in order[1:]}
    assert list(temporary.glob("septran-step-*")) == []
