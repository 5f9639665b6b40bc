"""`septran serve` and `septran mcp` as the pages start them: started, asked once, stopped."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.test_commands import COMMANDS

SERVED = [c for c, _ in COMMANDS if c.startswith("septran serve")]
ASKED = [c for c, _ in COMMANDS if c.startswith("curl -s -H")]
_SECONDS = 120


@contextmanager
def started(command: str, folder: Path, **streams: int) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", *command.split()]
    process = subprocess.Popen(
        words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **streams
    )
    late = threading.Timer(_SECONDS, process.kill)
    late.start()
    try:
        yield process
    finally:
        late.cancel()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("command", SERVED)
def test_the_server_answers_the_pages_question(command, tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "home"))
    (question,) = ASKED
    with started(f"{command} --port 0", tmp_path) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        token = next(tmp_path.rglob("token"))
        question = question.replace("runs/env/token", str(token))
        question = question.replace("localhost:8765", url)
        done = subprocess.run(
            ["bash", "-c", question], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    (task,) = json.loads(done.stdout)["tasks"]
    assert "softmax" in task["leaf"]


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "reader", "version": "1"},
    },
}


@pytest.mark.slow
def test_the_mcp_server_answers_or_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "home"))
    assert "septran mcp" in dict(COMMANDS)
    with started("septran mcp", tmp_path, stdin=subprocess.PIPE) as server:
        assert server.stdin is not None and server.stdout is not None
        if importlib.util.find_spec("mcp") is None:
            assert server.wait(_SECONDS) == 3
            assert "pip install 'septran[mcp]'" in server.stderr.read()
            return
        server.stdin.write(json.dumps(HELLO) + os.linesep)
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["result"]["serverInfo"]["name"] == "septran"
