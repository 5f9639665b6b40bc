"""The adapter for `verifiers`: served as a file, run in a Python without SepTran, judged by a real server.

`verifiers` cannot be installed beside SepTran (its `openai` is older), so what the file takes from it is stood for by a few
lines here; SEPTRAN_VERIFIERS_PYTHON names a Python that has the real one, which then takes their place.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import urllib.request

import pytest

from septran.outcome import Level
from tests.environment.test_serve import serving

STAND_IN = """
class Data:
    def __init__(self, **given):
        self.__dict__.update(given)
class TaskData(Data): pass
class TasksetConfig(Data):
    task, kernels, every_leaf, seeds, url = None, (), True, 1, ""
class Trace:
    def __init__(self, root_reply):
        self.info, self.last_reply = {}, root_reply
    model_construct = classmethod(lambda cls, root_reply, **_: cls(root_reply))
class Task:
    def __init__(self, data, config=None):
        self.data = data
    def __class_getitem__(cls, kind):
        return cls
class Taskset:
    def __init__(self, config):
        self.config = config
    def __class_getitem__(cls, kind):
        return cls
    def __iter__(self):
        return iter(self.load())
def reward(function):
    return function
"""
TRAINER = """
import asyncio, json, sys
import septran_leaves
import verifiers.v1 as vf
assert "septran" not in sys.modules
config = septran_leaves.LeavesConfig(id="septran_leaves", kernels=["relu/cpp"], seeds=2)
tasks = list(septran_leaves.SeptranLeaves(config))
found = []
for reply in ("```cpp\\nlong i = 0;\\n```", '```cpp\\nsystem("id");\\n```'):
    trace = vf.Trace.model_construct(root_reply=reply, info={}, nodes=[])
    found.append([asyncio.run(tasks[1].climbed(trace)), trace.info["septran"]])
print(json.dumps({"names": [t.data.id for t in tasks], "prompt": str(tasks[0].data.prompt), "found": found}))
"""


@pytest.mark.wider
def test_a_trainer_without_septran_gets_rewards(tmp_path):
    package = tmp_path / "verifiers"
    real = os.environ.get("SEPTRAN_VERIFIERS_PYTHON")
    if not real:
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "v1.py").write_text(STAND_IN)
    with serving(tmp_path / "served") as (client, _):
        request = urllib.request.Request(f"{client.url}/v1/adapters/verifiers")
        request.add_header("Authorization", f"Bearer {client.token}")
        with urllib.request.urlopen(request, timeout=300) as answer:
            (tmp_path / "septran_leaves.py").write_bytes(answer.read())
        told = {
            "SEPTRAN_URL": client.url,
            "SEPTRAN_TOKEN": client.token,
            "PATH": os.environ["PATH"],
        }
        done = subprocess.run(
            [real or sys.executable, "-S" if not real else "-q", "-c", TRAINER],
            cwd=tmp_path,
            env={**told, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(set(found["names"])) == 2 and "YOUR CODE" in found["prompt"]
    (half, ran), (none, refused) = found["found"]
    assert (ran["rung"], ran["seed"], refused["rung"], none) == ("ran", 1, "rejected", 0)
    assert 0 < half < 1


def test_an_accurate_leaf_is_the_whole_reward():
    from septran.environment import server

    tree = ast.parse(server._ADAPTER.read_text(encoding="utf-8"))
    (top,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "TOP")
    assert ast.literal_eval(top) == Level.ACCURATE.rank
