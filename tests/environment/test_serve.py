"""`septran serve`: a client's way from a contract to a verdict; floods, kills and strangers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from septran.environment.ledger import Ledger
from septran.environment.request import read_submission
from septran.errors import ConfigError

TASK = {"op": "transpose", "backend": "cpp", "dims": {"M": 33, "N": 18}}


class Client:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def ask(self, path: str, body: object = None, token: str = "") -> tuple[int, dict, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data)
        request.add_header("Authorization", f"Bearer {token or self.token}")
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, json.load(answer), answer.headers
        except urllib.error.HTTPError as e:
            return e.code, json.load(e), e.headers

    def done(self, name: str) -> dict:
        for _ in range(20):
            _, found, _ = self.ask(f"/v1/submissions/{name}?wait=30")
            if found["state"] == "done":
                return found["result"]
        raise AssertionError(f"{name} does not end")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[Client, subprocess.Popen]]:
    command = [sys.executable, "-m", "septran", "serve", "--port", "0", "--dir", str(folder)]
    process = subprocess.Popen(
        [*command, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        url = json.loads(process.stdout.readline())["url"]
        yield Client(url, (folder / "token").read_text().strip()), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_from_a_contract_to_a_verdict_and_through_a_kill(tmp_path):
    with serving(tmp_path, "--queue", "1") as (client, process):
        assert client.url.startswith("http://127.0.0.1:")
        assert client.ask("/v1/health", token="guess")[0] == 401
        status, found, _ = client.ask("/v1/tasks/transpose/cpp?dim=M=33&dim=N=18")
        (task,) = found["tasks"]
        assert status == 200 and "YOUR CODE" in task["frame"]
        sent = {**TASK, "leaf": task["leaf"], "reply": "```cpp\nlong i = 0;\n```", "seed": 3}
        status, found, _ = client.ask("/v1/submissions", sent)
        assert (status, found["new"]) == (202, True)
        name = found["id"]
        more = [client.ask("/v1/submissions", {**sent, "seed": n}) for n in range(4, 9)]
        refused = [headers for status, _, headers in more if status == 429]
        assert refused and int(refused[0]["Retry-After"]) >= 1
        result = client.done(name)
        assert result["rung"] == "ran"
        assert "expected" in client.ask(f"/v1/submissions/{name}/explain")[1]["text"]
        os.kill(process.pid, signal.SIGKILL)
    with serving(tmp_path) as (client, _):
        status, found, _ = client.ask("/v1/submissions", sent)
        assert (status, found) == (200, {**found, "id": name, "new": False})
        assert client.done(name) == result
        accepted = [found["id"] for status, found, _ in more if status == 202]
        assert all(client.done(each)["rung"] == "ran" for each in accepted)
    lines = [json.loads(x) for x in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert sorted(x["id"] for x in lines) == sorted([name, *accepted])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 100_000,
        b'{"op": "gemm", "backend": "cpp", "leaf": "x"}',
        b'{"op": "gemm", "backend": "cpp", "leaf": "x", "reply": "", "seed": true}',
        b'{"op": "gemm", "backend": "cpp", "leaf": "x", "reply": "", "dims": {"M": -1}}',
        b'{"op": "gemm", "backend": "cpp", "leaf": "x", "reply": "", "work": "/etc"}',
        b"\xff\xfe",
    ],
)
def test_a_body_of_another_form_is_refused(body):
    with pytest.raises(ConfigError) as error:
        read_submission(body)
    assert error.value.codes == ("C180",)


def test_a_line_that_a_kill_cut_is_written_again(tmp_path):
    first = Ledger(tmp_path)
    sent = read_submission(b'{"op": "gemm", "backend": "cpp", "leaf": "x", "reply": ""}')
    name = first.accept(sent)
    first.result_path(name).write_text('{"rung": "ran"}\n')
    first.note(name)
    path = tmp_path / "trajectories.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-9])
    Ledger(tmp_path)
    assert path.read_text() == whole


@pytest.mark.parametrize("name", ["../sent/x", "a/b", "", "..", "%2e"])
def test_a_name_stays_in_the_ledger(name, tmp_path):
    assert Ledger(tmp_path / "ledger").result(name) is None
