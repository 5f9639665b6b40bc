"""The OpenEnv adapter against the real package, over its own HTTP application."""

from __future__ import annotations

import pytest

pytest.importorskip("openenv", reason="pip install 'septran[openenv]'")
TASK = {"op": "transpose", "backend": "cpp", "dims": {"M": 33, "N": 18}}
RIGHT = "for (long i = 0; i < Y.n[0]; ++i) for (long j = 0; j < Y.n[1]; ++j) Y(i, j) = X(j, i);"


def test_an_episode_goes_from_a_wrong_reply_to_a_right_one(tmp_path):
    from septran.environment.openenv import classes
    from septran.environment.service import Service
    from septran.settings import load

    service = Service(tmp_path, settings=load())
    service.start()
    try:
        make, reply, _ = classes(service)
        env = make()
        first = env.reset(seed=5, episode_id="one", **TASK)
        assert "YOUR CODE" in first.messages[-1]["content"] and not first.done
        wrong = env.step(reply(reply="```cpp\nlong i = 0;\n```"))
        assert 0 < wrong.reward < 1 and not wrong.done
        assert wrong.verdict["schema"] == "septran.reward/1" and wrong.verdict["seed"] == 5
        refused = env.step(reply(reply='```cpp\nsystem("id");\n```'))
        assert (refused.reward, refused.done) == (0, False)
        right = env.step(reply(reply=f"```cpp\n{RIGHT}\n```"))
        assert (right.reward, right.done) == (1, True)
        assert (env.state.episode_id, env.state.step_count) == ("one", 3)
    finally:
        service.close()


def test_the_application_serves_reset(tmp_path):
    from fastapi.testclient import TestClient

    from septran.environment.openenv import app

    with TestClient(app()) as client:
        found = client.post("/reset", json={"seed": 1, **TASK})
        assert found.status_code == 200, found.text
        assert "YOUR CODE" in found.json()["observation"]["messages"][-1]["content"]
