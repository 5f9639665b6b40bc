"""`septran mcp`, driven by the official SDK's own client over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="pip install 'septran[mcp]'")

TASK = {"op": "transpose", "backend": "cpp", "dims": {"M": 33, "N": 18}}


def told(answer: Any) -> Any:
    text = "".join(part.text for part in answer.content)
    try:
        return json.loads(text)
    except ValueError:
        return text


async def conversation(folder: Any) -> dict[str, Any]:
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "septran", "mcp", "--dir", str(folder)]
    )
    found: dict[str, Any] = {}
    async with mcp.Client(command) as client:
        found["tools"] = {tool.name for tool in (await client.list_tools()).tools}
        found["contract"] = told(await client.call_tool("contract", TASK))
        leaf = found["contract"]["tasks"][0]["leaf"]
        reply = {**TASK, "leaf": leaf, "reply": "```cpp\nlong i = 0;\n```", "seed": 1}
        found["submitted"] = told(await client.call_tool("submit", reply))
        name = {"what": found["submitted"]["id"]}
        found["explained"] = told(await client.call_tool("explain", name))
        found["code"] = told(await client.call_tool("explain", {"what": "V202"}))
        missing = {**reply, "leaf": "nothing"}
        found["missing"] = told(await client.call_tool("submit", missing))
    return found


def test_a_client_goes_from_a_contract_to_a_verdict(tmp_path):
    found = asyncio.run(conversation(tmp_path))
    assert found["tools"] == {"list_tasks", "contract", "submit", "verdict", "explain"}
    assert "YOUR CODE" in found["contract"]["tasks"][0]["frame"]
    assert found["submitted"]["result"]["rung"] == "ran"
    assert "expected" in found["explained"]
    assert found["code"].startswith("# V202")
    assert found["missing"]["errors"][0]["code"] == "C137"
