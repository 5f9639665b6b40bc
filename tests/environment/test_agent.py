"""A coding agent (chat with tool calls, `septran mcp` as a real process, a scripted model) brings a leaf to verified."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="pip install 'septran[mcp]'")

TASK = {"op": "transpose", "backend": "cpp", "dims": {"M": 33, "N": 18}}
BODY = "for (long i = 0; i < {i}; ++i) for (long j = 0; j < {j}; ++j) Y(i, j) = X(j, i);"
STEPS = ("list_tasks", "contract", "submit", "explain", "submit")


def scripted(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Answer as a model would: from what the tools said, one call after another, then in words."""
    said = [json.loads(m["content"]) for m in messages if m["role"] == "tool"]
    match len(said):
        case 0:
            return call("list_tasks", op="transpose", backend="cpp")
        case 1:
            (kernel,) = said[0]["kernels"]
            return call("contract", **{**TASK, "op": kernel["op"]})
        case 2 | 4:
            (task,) = said[1]["tasks"]
            assert re.search(r"View<float, 2> Y, .*const float, 2> X", task["frame"])
            # the first try mixes the extents up, as the explanation then says
            sizes = (
                {"i": "X.n[0]", "j": "X.n[1]"} if len(said) == 2 else {"i": "Y.n[0]", "j": "Y.n[1]"}
            )
            body = BODY.replace("{i}", sizes["i"]).replace("{j}", sizes["j"])
            return call("submit", **TASK, leaf=task["leaf"], reply=f"```cpp\n{body}\n```", seed=7)
        case 3:
            assert said[2]["result"]["rung"] != "accurate"
            return call("explain", what=said[2]["id"])
    result = said[4]["result"]
    return {"role": "assistant", "content": f"{result['rung']}: {result['sha']}"}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}],
    }


@contextmanager
def endpoint() -> Iterator[str]:
    """Serve the scripted model as an OpenAI-compatible endpoint."""

    class Chat(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert {t["function"]["name"] for t in body["tools"]} >= set(STEPS)
            message = scripted(body["messages"])
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            choice = {"index": 0, "message": message, "finish_reason": reason}
            answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
            text = json.dumps({**answer, "choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


async def agent(url: str, folder: Path) -> tuple[list[str], str]:
    """Give the model the server's tools and do what it asks for until it answers in words."""
    from openai import AsyncOpenAI

    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "septran", "mcp", "--dir", str(folder)]
    )
    called: list[str] = []
    messages: list[Any] = [{"role": "user", "content": "Make the transpose leaf on cpp right."}]
    async with mcp.Client(command) as tools, AsyncOpenAI(base_url=url, api_key="none") as model:
        offered = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                },
            }
            for tool in (await tools.list_tools()).tools
        ]
        while True:
            answer = await model.chat.completions.create(
                model="scripted", messages=messages, tools=offered
            )
            message = answer.choices[0].message
            if not message.tool_calls:
                return called, message.content or ""
            messages.append(message.model_dump(exclude_none=True))
            for asked in message.tool_calls:
                called.append(asked.function.name)
                arguments = json.loads(asked.function.arguments)
                told = await tools.call_tool(asked.function.name, arguments)
                text = "".join(part.text for part in told.content)
                if asked.function.name == "explain":
                    text = json.dumps(text)
                messages.append({"role": "tool", "tool_call_id": asked.id, "content": text})


@pytest.mark.slow
def test_an_agent_goes_from_a_contract_to_a_verified_leaf(tmp_path):
    with endpoint() as url:
        called, answer = asyncio.run(agent(url, tmp_path))
    assert tuple(called) == STEPS
    rung, _, sha = answer.partition(": ")
    assert rung == "accurate"
    lines = (tmp_path / "trajectories.jsonl").read_text().splitlines()
    results = [json.loads(line)["result"] for line in lines]
    assert [r["rung"] == "accurate" for r in results] == [False, True]
    assert results[1]["sha"] == sha
