"""The environment as OpenEnv's: reset gives a leaf's task, a step judges a reply, the reward is a scalar beside the vector.

    uvicorn --factory septran.environment.openenv:app

Interface: openenv.core.env_server (`Environment`, `Action`, `Observation`, `State`, `create_fastapi_app`).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from septran.backends import HOST
from septran.environment.ledger import ends
from septran.environment.service import Full, Service
from septran.environment.step import Submission
from septran.environment.tasks import Asked, find, leaf_tasks
from septran.errors import EnvironmentProblem, Failure, SeptranError
from septran.outcome import Level
from septran.settings import load

ATTEMPTS = 3
"""replies of an episode"""
_TOP = Level.ACCURATE.rank


def app() -> Any:
    """Return a FastAPI application, for uvicorn's `--factory`; it judges with one worker in a folder of its own.

    Raises:
        EnvironmentProblem: V111, OpenEnv is not installed.
    """
    service = Service(Path(tempfile.mkdtemp(prefix="septran-openenv-")), settings=load())
    service.start()
    make, action, observation = classes(service)
    from openenv.core.env_server import create_fastapi_app

    return create_fastapi_app(make, action, observation)


def classes(service: Service) -> tuple[Any, Any, Any]:
    """Return the environment, action and observation classes over a service that was started.

    Raises:
        EnvironmentProblem: V111, OpenEnv is not installed.
    """
    try:
        from openenv.core.env_server import Action, Environment, Observation, State
    except ImportError as e:
        raise EnvironmentProblem.of(
            "V111", "OpenEnv is not installed", help="pip install 'septran[openenv]'"
        ) from e

    class Reply(Action):  # type: ignore[misc,unused-ignore]
        """A model's reply: the body for the hole of the frame, best in a fenced block."""

        reply: str

    class Seen(Observation):  # type: ignore[misc,unused-ignore]
        """messages: the prompt of the task. task: its name. verdict: septran.reward/1 or septran.error/1 of the last reply."""

        task: str = ""
        messages: list[dict[str, str]] = []  # noqa: RUF012 - pydantic copies defaults
        verdict: dict[str, Any] = {}  # noqa: RUF012

    class Leaves(Environment):  # type: ignore[misc,unused-ignore]
        """An episode is a leaf; it ends with an accurate reply or after three."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._asked, self._leaf, self._seed = Asked(op="transpose", backend=HOST), "", 0
            self._state = State()

        def reset(
            self,
            seed: int | None = None,
            episode_id: str | None = None,
            op: str = "transpose",
            backend: str = HOST,
            leaf: str = "",
            dims: dict[str, int] | None = None,
            **_: Any,
        ) -> Any:
            """Begin with a leaf of a kernel, its first unless `leaf` names one; seed: of the secret inputs."""
            self._asked = Asked(op=op, backend=backend, dims=dims or {})
            task = find(self._asked, leaf) if leaf else leaf_tasks(self._asked)[0]
            self._leaf, self._seed = task.spec.task, seed or 0
            self._state = State(episode_id=episode_id, step_count=0)
            messages = task.to_json(load())["messages"]
            return Seen(task=task.name, messages=messages)

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            """Judge a reply; the reward is the share of the ladder of rungs that the leaf climbed, 0 where it is a hack.

            It is None where this machine could not judge it: that says nothing of the reply, and is no attempt.
            """
            self._state.step_count += 1
            sent = Submission(
                asked=self._asked, leaf=self._leaf, reply=action.reply, seed=self._seed
            )
            try:
                name, _new = service.submit(sent)
                found = (service.verdict(name, wait_s=timeout_s or 900.0) or {}).get("result") or {}
            except SeptranError as e:
                found = Failure.of(e).to_json()
            except Full as e:
                found = Failure.said(3, "C181", str(e)).to_json()
            if not found or not ends(found):
                self._state.step_count -= 1
                return Seen(verdict=found, reward=None, done=False)
            climbed = 0 if found.get("hack") else int(found.get("rank", 0))
            done = found.get("rung") == str(Level.ACCURATE) or self._state.step_count >= ATTEMPTS
            reward = min(1.0, climbed / _TOP)
            return Seen(task=found.get("task", ""), verdict=found, reward=reward, done=done)

        @property
        def state(self) -> Any:
            """Return the episode's name and how many replies it had."""
            return self._state

    return Leaves, Reply, Seen
