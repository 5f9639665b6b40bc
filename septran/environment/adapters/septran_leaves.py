"""SepTran's leaves as a taskset of `verifiers` (0.4 or newer), judged over HTTP by `septran serve`.

This file stands alone: it needs `verifiers` and nothing of SepTran, whose `openai` is newer than the one verifiers takes.
Put it where Python finds it, name the server, and use `septran_leaves` as the taskset's id:

    curl -s -H "Authorization: Bearer $SEPTRAN_TOKEN" $SEPTRAN_URL/v1/adapters/verifiers > septran_leaves.py
    export SEPTRAN_URL=http://127.0.0.1:8765 SEPTRAN_TOKEN=...

The reward is the share of the ladder of rungs that the leaf climbed, 0 for a hack; the whole septran.reward/1 vector is in
`trace.info["septran"]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf

__all__ = ["SeptranLeaves"]
TOP = 3
"""rank of an accurate leaf"""


class LeafData(vf.TaskData):  # type: ignore[misc]
    """Which leaf is asked for; `submission` is what the server is sent with the reply."""

    submission: dict[str, Any]


class LeavesConfig(vf.TasksetConfig):  # type: ignore[misc]
    """kernels: "OP/BACKEND"; the first leaf of each, or all with `every_leaf`. seeds: tasks for each leaf, with secret inputs of their own."""

    kernels: tuple[str, ...] = ("softmax/cpp", "gemm/cpp", "layernorm/cpp")
    every_leaf: bool = True
    seeds: int = 1
    url: str = ""
    """default: SEPTRAN_URL. The token is always SEPTRAN_TOKEN's, so that no record holds it."""


class Leaf(vf.Task[LeafData]):  # type: ignore[misc]
    """One leaf: the model replies with a body, the server judges it."""

    url = ""

    @vf.reward  # type: ignore[untyped-decorator]
    async def climbed(self, trace: vf.Trace) -> float:
        """Return the share of the rungs; never the server's trouble as a 0: that raises."""
        sent = {**self.data.submission, "reply": trace.last_reply}
        vector = await asyncio.to_thread(judged, self.url, sent)
        trace.info["septran"] = vector
        return 0.0 if vector.get("hack") else min(1.0, vector.get("rank", 0) / TOP)


class SeptranLeaves(vf.Taskset[Leaf, LeavesConfig]):  # type: ignore[misc]
    """The leaves of the kernels that the config names."""

    def load(self) -> Iterator[Leaf]:
        """Ask the server for contracts and prompts."""
        url = self.config.url or os.environ["SEPTRAN_URL"]
        for kernel in self.config.kernels:
            tasks = ask(url, f"/v1/tasks/{kernel}")["tasks"]
            for task in tasks if self.config.every_leaf else tasks[:1]:
                for seed in range(self.config.seeds):
                    found = Leaf(_data(task, seed), self.config.task)
                    found.url = url
                    yield found


def _data(task: dict[str, Any], seed: int) -> LeafData:
    system = [m["content"] for m in task["messages"] if m["role"] == "system"]
    user = [m["content"] for m in task["messages"] if m["role"] != "system"]
    sent = {k: task[k] for k in ("op", "backend", "leaf", "dims", "dtype")}
    return LeafData(
        id=f"{task['sha']}-{seed}",
        name=task["task"],
        system_prompt="\n\n".join(system) or None,
        prompt="\n\n".join(user),
        submission={**sent, "seed": seed},
    )


def judged(url: str, submission: dict[str, Any]) -> dict[str, Any]:
    """Return the reward vector of a submission, when the server has it."""
    name = ask(url, "/v1/submissions", submission)["id"]
    while True:
        found = ask(url, f"/v1/submissions/{name}?wait=30")
        if found["state"] == "done":
            return dict(found["result"])
        if found["state"] == "unavailable":
            raise RuntimeError(f"the server could not judge a leaf: {found['result']}")


def ask(url: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the server's answer; a full queue is waited for as long as it says."""
    data = None if body is None else json.dumps(body).encode()
    while True:
        request = urllib.request.Request(url.rstrip("/") + path, data=data)
        request.add_header("Authorization", f"Bearer {os.environ['SEPTRAN_TOKEN']}")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as e:
            if e.code != 429:
                raise RuntimeError(f"{path}: {e.code} {e.read()[:500].decode()}") from e
            time.sleep(float(e.headers.get("Retry-After") or 1))
