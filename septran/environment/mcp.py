"""The environment's verbs as an MCP server over stdin and stdout, with the official SDK (`pip install 'septran[mcp]'`)."""

from __future__ import annotations

from typing import Any

from septran.environment.service import Full, Service
from septran.environment.step import Submission
from septran.environment.tasks import Asked
from septran.errors import EnvironmentProblem, Failure, SeptranError

_INSTRUCTIONS = """Write leaves of tensor kernels and have them verified. list_tasks names kernels, contract says what a leaf of
one computes and gives the frame with the hole to fill, submit judges a body for the hole, explain says what a result or an error code means."""


def server(service: Service) -> Any:
    """Return the SDK's server; `.run()` serves until stdin ends.

    Raises:
        EnvironmentProblem: V111, the SDK is not installed.
    """
    try:
        from mcp.server import MCPServer
    except ImportError as e:
        raise EnvironmentProblem.of(
            "V111", "the MCP SDK is not installed", help="pip install 'septran[mcp]'"
        ) from e
    found = MCPServer("septran", instructions=_INSTRUCTIONS)

    def list_tasks(op: str = "", backend: str = "") -> dict[str, Any]:
        """Kernels that have leaf tasks; op and backend narrow the list."""
        all_ = service.tasks()["kernels"]
        kept = [k for k in all_ if op in ("", k["op"]) and backend in ("", k["backend"])]
        return {"kernels": kept}

    def contract(op: str, backend: str, dims: dict[str, int] | None = None) -> dict[str, Any]:
        """The leaf tasks of a kernel: what each computes, the frame with the hole, and its prompt."""
        return _told(lambda: service.contracts(Asked(op=op, backend=backend, dims=dims or {})))

    def submit(
        op: str,
        backend: str,
        leaf: str,
        reply: str,
        seed: int = 0,
        dims: dict[str, int] | None = None,
        wait_s: float = 300.0,
    ) -> dict[str, Any]:
        """Judge a reply (the body for the hole, best in a fenced block) and return its reward vector."""
        asked = Asked(op=op, backend=backend, dims=dims or {})
        sent = Submission(asked=asked, leaf=leaf, reply=reply, seed=seed)

        def judged() -> dict[str, Any]:
            name, _ = service.submit(sent)
            return service.verdict(name, wait_s=min(wait_s, 600.0)) or {}

        return _told(judged)

    def verdict(id: str, wait_s: float = 0.0) -> dict[str, Any]:
        """What became of a submission: queued, running, or done with its reward vector."""
        return service.verdict(id, wait_s=min(wait_s, 600.0)) or {"error": f"no submission {id!r}"}

    def explain(what: str) -> str:
        """A submission's result in words (its id), or the page of an error code (V202, C137, ...)."""
        return service.explain(what) or f"nothing is known about {what!r}"

    for tool in (list_tasks, contract, submit, verdict, explain):
        found.add_tool(tool)
    return found


def _told(call: Any) -> dict[str, Any]:
    """Return what a call gives; a mistake of the caller's is an answer, not the end of the server."""
    try:
        answer: dict[str, Any] = call()
        return answer
    except SeptranError as e:
        return Failure.of(e).to_json()
    except Full as e:
        return Failure.said(3, "C181", str(e)).to_json()
