"""The command that makes a kernel again, checked on the same secret inputs; it works from any folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

_WHAT = (("logic", "--logic"), ("task_file", "--task"), ("op", "--op"))


def command(data: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """Return the call for a shell.

    data: a septran.gen/1 object. request: what was asked for, files by their whole path. Leaves that did not come
    from the library are taken from the run again.
    """
    asked = request or {"op": data.get("op")}
    flag, what = next((f, asked[n]) for n, f in _WHAT if asked.get(n) or n == "op")
    words = ["septran", "gen", flag, str(what), "--backend", str(data.get("backend"))]
    if data.get("arch"):
        words += ["--arch", str(data["arch"])]
    for name, size in (data.get("dims") or {}).items():
        words += ["--dim", f"{name}={size}"]
    if data.get("dtype"):  # a module that was not imported has none
        words += ["--dtype", str(data["dtype"])]
    for name in ("mapping", "config"):
        if asked.get(name):
            words += [f"--{name}", str(asked[name])]
    if asked.get("deterministic"):
        words += ["--deterministic", str(asked["deterministic"])]
    if asked.get("math"):
        words += ["--math", str(asked["math"])]
    if asked.get("fallback"):
        words += ["--fallback", str(asked["fallback"])]
    if asked.get("prepare"):
        words += ["--prepare"]
    if asked.get("where", "auto") != "auto":
        words += ["--where", str(asked["where"])]
    for one in asked.get("require") or ():
        words += ["--require", str(one)]
    if asked.get("writer", "library") != "library" and data.get("run"):
        words += ["--writer", f"replay:{data['run']}"]
    if data.get("seed") is not None:
        words += ["--seed", str(data["seed"])]
    return shlex.join(words)
