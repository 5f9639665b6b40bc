"""The environment's verbs as an MCP server over stdin and stdout, with the official SDK (`pip install 'septran[mcp]'`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from septran.environment.request import kernel_of, submission_of
from septran.environment.service import Full, Service
from septran.errors import ConfigError, EnvironmentProblem, Failure, SeptranError, closest

_INSTRUCTIONS = """Write leaves of tensor kernels and have them verified. list_tasks names kernels, contract says what a leaf of
one computes and gives the frame with the hole to fill, submit judges a body for the hole, bench times a right one, explain says what a result or an error code means."""
_MOST_WAIT_S = 600.0


def server(service: Service) -> Any:
    """Return the SDK's server; `.run()` serves until stdin ends.

    Raises:
        EnvironmentProblem: V111, the SDK is not installed.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError as e:
        raise EnvironmentProblem.of(
            "V111", "the MCP SDK is not installed", help="pip install 'septran[mcp]'"
        ) from e
    tools = {tool.__name__: tool for tool in _tools(service)}

    class Strict(MCPServer):  # type: ignore[misc,unused-ignore]
        """The SDK drops arguments that a tool does not have; a dtype that nobody reads would be a wrong result."""

        async def call_tool(self, name: str, arguments: dict[str, Any], *more: Any) -> Any:
            """Call a tool with arguments that it has."""
            if name in tools and (why := _unknown(tools[name], arguments)):
                raise ToolError(f"[C180] {why}")
            return await super().call_tool(name, arguments, *more)

    found = Strict("septran", instructions=_INSTRUCTIONS)
    for tool in tools.values():
        found.add_tool(tool)
    return found


def _unknown(tool: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    known = list(inspect.signature(tool).parameters)
    for name in arguments:
        if name not in known:
            return f"{tool.__name__} has no argument {name!r}{closest(name, known)}; it has {', '.join(known)}"
    return ""


def _tools(service: Service) -> tuple[Callable[..., Any], ...]:
    def list_tasks(op: str = "", backend: str = "") -> dict[str, Any]:
        """Kernels that have leaf tasks; op and backend narrow the list."""
        all_ = service.tasks()["kernels"]
        kept = [k for k in all_ if op in ("", k["op"]) and backend in ("", k["backend"])]
        return {"kernels": kept}

    def contract(
        op: str,
        backend: str,
        dims: dict[str, int] | None = None,
        dtype: str | None = None,
        arch: str | None = None,
    ) -> dict[str, Any]:
        """The leaf tasks of a kernel: what each computes, the frame with the hole, and its prompt."""
        asked = {"op": op, "backend": backend, "dims": dims, "dtype": dtype, "arch": arch}
        return _told(lambda: service.contracts(kernel_of(asked)))

    def submit(
        op: str,
        backend: str,
        leaf: str,
        reply: str,
        seed: int = 0,
        dims: dict[str, int] | None = None,
        dtype: str | None = None,
        arch: str | None = None,
        wait_s: float = 300.0,
    ) -> dict[str, Any]:
        """Judge a reply (the body for the hole, best in a fenced block) and return its reward vector."""
        asked = {"op": op, "backend": backend, "dims": dims, "dtype": dtype, "arch": arch}
        return _sent(service, {**asked, "leaf": leaf, "reply": reply, "seed": seed}, wait_s)

    def bench(
        op: str,
        backend: str,
        leaf: str,
        reply: str,
        seed: int = 0,
        dims: dict[str, int] | None = None,
        dtype: str | None = None,
        arch: str | None = None,
        wait_s: float = 300.0,
    ) -> dict[str, Any]:
        """Time a right reply against the library's leaf and torch on this machine; another seed measures anew."""
        asked = {"op": op, "backend": backend, "dims": dims, "dtype": dtype, "arch": arch}
        sent = {**asked, "leaf": leaf, "reply": reply, "seed": seed}
        return _sent(service, sent, wait_s, bench=True)

    def verdict(id: str, wait_s: float = 0.0) -> dict[str, Any]:
        """What became of a submission: queued, running, or done with its reward vector."""
        return _told(lambda: _state(service, id, wait_s))

    def explain(what: str) -> str:
        """A submission's result in words (its id), or the page of an error code (V202, C137, ...)."""
        return service.explain(what) or f"nothing is known about {what!r}"

    return (list_tasks, contract, submit, bench, verdict, explain)


def _sent(
    service: Service, sent: dict[str, Any], wait_s: float, *, bench: bool = False
) -> dict[str, Any]:
    def judged() -> dict[str, Any]:
        name, _ = service.submit(submission_of(sent, bench=bench))
        return _state(service, name, wait_s)

    return _told(judged)


def _state(service: Service, name: str, wait_s: float) -> dict[str, Any]:
    wait = min(wait_s, _MOST_WAIT_S) if wait_s > 0 else 0.0  # also of NaN
    found = service.verdict(name, wait_s=wait)
    if found is None:
        raise ConfigError.of("C180", f"no submission {name[:40]!r}")
    return found


def _told(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a call gives; a mistake of the caller's is an answer, not the end of the server."""
    try:
        return call()
    except SeptranError as e:
        return Failure.of(e).to_json()
    except Full as e:
        return Failure.said(3, "C181", str(e)).to_json()
