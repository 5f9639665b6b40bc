"""Any program as a model: the prompt on its standard input, the reply on its standard output."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time

from septran.agent.chat import Reply, Request, estimate_tokens, messages_tokens
from septran.agent.faults import Fault

_MOST = 2_000_000
_UNNAMED = ("", "auto", "command")
"""what a request has for a model where nobody named one"""


class CommandChat:
    """Runs the user's own command line once per call, without a shell.

    The input is the system message, a line `---`, then the user message. The program runs with the user's
    rights and environment: it is the user's tool (a model's CLI, an agent), not generated code. SEPTRAN_SEED is the
    call's seed.
    """

    def __init__(self, program: str, *, timeout: float = 600.0) -> None:
        """`program` is split like a shell line; timeout in seconds."""
        self._argv = shlex.split(program)
        self._timeout = timeout

    @property
    def where(self) -> str:
        """The program's name."""
        return self._argv[0] if self._argv else "(no command)"

    def close(self) -> None:
        """Nothing is held between calls."""

    def ask(self, request: Request) -> Reply:
        """Return what the program prints. Raises Fault: setup when it cannot start or fails."""
        if not self._argv:
            raise Fault("setup", "the command is empty")
        text = "\n---\n".join(m.text.rstrip() for m in request.messages) + "\n"
        start = time.monotonic()
        seed = dict(request.options).get("seed")
        try:
            child = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **({} if seed is None else {"SEPTRAN_SEED": str(seed)})},
            )
        except OSError as e:
            raise Fault("setup", f"cannot start {self._argv[0]}: {e.strerror}") from e
        try:
            out, err = child.communicate(text.encode(), timeout=self._timeout)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            raise Fault(
                "deadline", f"{self._argv[0]} gave no reply in {self._timeout:g} s"
            ) from None
        if child.returncode != 0:
            tail = err.decode(errors="replace").strip()[-400:]
            raise Fault("setup", f"{self._argv[0]} ended with exit code {child.returncode}: {tail}")
        reply = out[:_MOST].decode(errors="replace")
        return Reply(
            text=reply,
            finish="stop" if reply.strip() else "refused",
            model=request.model
            if request.model not in _UNNAMED
            else self._argv[0].rsplit("/", 1)[-1],
            prompt_tokens=messages_tokens(request.messages),
            completion_tokens=estimate_tokens(reply),
            estimated=True,
            seconds=time.monotonic() - start,
        )
