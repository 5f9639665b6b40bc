"""`septran mcp`, driven by the official SDK's own client over stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

mcp = pytest.importorskip("mcp", reason="pip install 'septran[mcp]'")

WRONG: dict[str, dict[str, Any]] = {
    "missing": {"leaf": "nothing"},
    "negative": {"seed": -1},
    "huge": {"seed": 1 << 70},
    "no size": {"dims": {"M": 0}},
    "large": {"dims": {"M": 1 << 20, "N": 1 << 20}},
    "no dtype": {"dtype": "float7"},
}
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
        found["timed"] = told(await client.call_tool("bench", reply))
        name = {"what": found["submitted"]["id"]}
        found["explained"] = told(await client.call_tool("explain", name))
        found["code"] = told(await client.call_tool("explain", {"what": "V202"}))
        for name, change in WRONG.items():
            found[name] = told(await client.call_tool("submit", {**reply, **change}))
        found["bfloat16"] = told(await client.call_tool("contract", {**TASK, "dtype": "bfloat16"}))
        found["unknown"] = told(await client.call_tool("contract", {**TASK, "dtyp": "bfloat16"}))
    return found


def test_a_client_goes_from_a_contract_to_a_verdict(tmp_path):
    found = asyncio.run(conversation(tmp_path))
    assert found["tools"] == {"list_tasks", "contract", "submit", "bench", "verdict", "explain"}
    assert "YOUR CODE" in found["contract"]["tasks"][0]["frame"]
    assert found["submitted"]["result"]["rung"] == "ran"
    assert found["timed"]["result"]["schema"] == "septran.measured/1"
    assert found["timed"]["result"]["rung"] == "ran" and found["timed"]["result"]["gain"] is None
    assert "expected" in found["explained"]
    assert found["code"].startswith("# V202")
    assert [found[name]["errors"][0]["code"] for name in WRONG] == ["C137", *["C180"] * 4, "C132"]
    assert {task["dtype"] for task in found["bfloat16"]["tasks"]} == {"bfloat16"}
    assert "[C180]" in found["unknown"] and "did you mean 'dtype'" in found["unknown"]
