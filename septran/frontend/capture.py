"""Export a module file in a confined child; only the graph comes back."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from septran import sandbox
from septran.aten.graph import Graph, parse_graph
from septran.aten.literals import with_literals
from septran.aten.open_graph import OpenGraph, named, read_open_graph
from septran.errors import ConfigError, EnvironmentProblem, Span
from septran.frontend.child.warm import PRELOAD
from septran.frontend.refusals import NOTHING_HELP, export_help, file_help
from septran.frontend.table import KNOWN

Mode = Literal["eval", "as-is"]
LIMIT_S = 120.0
"""Processor seconds for torch and the file together."""
_BUSY = 3.0  # wall seconds for each of them
_IDLE_S = 20.0
"""Wall seconds without any computation after which a file waits for something."""
MEMORY_BYTES = 8 << 30
VALUES_BYTES = 64 << 20
"""Inputs and weights of at most this size come back with the graph, as one more family of inputs."""
_MAX_JSON = 64 << 20
_LATE_HELP = "a module file builds its module and its inputs, and `forward` computes: nothing waits, sleeps or trains"
_CHILD = Path(__file__).resolve().parent / "child" / "capture.py"


def capture(path: Path, *, mode: Mode = "eval", limit_s: float | None = None) -> Graph:
    """Return the exported graph of a module file at its own inputs' sizes; arguments and errors as `capture_open`."""
    found = capture_open(path, mode=mode, limit_s=limit_s)
    return found.at(found.hints) if isinstance(found, OpenGraph) else found


def capture_open(
    path: Path, *, mode: Mode = "eval", limit_s: float | None = None, all_open: bool = False
) -> Graph | OpenGraph:
    """Return the exported graph of a module file (`Model`, `get_inputs`, `get_init_inputs`).

    A file that has `get_dynamic_shapes`, too, has open sizes.

    mode: eval switches dropout off and uses running statistics; as-is leaves the module as it is made.
    limit_s: processor seconds for all of it; default: LIMIT_S. all_open: of a file that says nothing of it, every size of its
        inputs is open that torch does not fix.

    Raises:
        ConfigError: C134, the file is not in the form or raised; C151, torch cannot export it.
        EnvironmentProblem: V214, the child did not start.
    """
    limit_s = LIMIT_S if limit_s is None else limit_s
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError.of("C134", f"{path}: {e}", Span(str(path), 1)) from e
    with tempfile.TemporaryDirectory(prefix="septran-import-") as name:
        folder = Path(name)
        copy = folder / "module.py"
        copy.write_text(text, encoding="utf-8")
        asked: dict[str, Any] = {"mode": mode, "values_bytes": VALUES_BYTES, "known": sorted(KNOWN)}
        asked |= {"idle_s": _IDLE_S, "limit_s": limit_s, "wall_s": _BUSY * limit_s}
        config = json.dumps({**asked, **({"open": True} if all_open else {})})
        result = sandbox.run(
            [sys.executable, "-I", _CHILD, copy, folder, config],
            rw_dir=folder,
            timeout_s=_BUSY * limit_s,
            cpu_s=int(limit_s),
            memory_bytes=MEMORY_BYTES,
            address_space=False,
            forks=False,
            env={**dict(PRELOAD.env), "TORCHINDUCTOR_CACHE_DIR": str(folder)},
            preload=PRELOAD,
        )
        if result.broken:
            raise EnvironmentProblem.of("V214", f"{path}: importing did not start: {result.broken}")
        if result.why == sandbox.STARVED:
            raise EnvironmentProblem.of("V214", f"{path}: importing got no processor time")
        answer = folder / "graph.json"
        if not result.ok or not answer.is_file() or answer.stat().st_size > _MAX_JSON:
            raise _ended(path, result)
        data = answer.read_text(encoding="utf-8")
        return _read(path, data, folder / "values.bin")


def _ended(path: Path, result: sandbox.SandboxResult) -> ConfigError:
    why = {
        "timeout": "did not finish in time",
        "cpu": "did not finish in time",
        "memory": f"used more than {MEMORY_BYTES >> 30} GiB",
    }.get(result.why, f"ended with status {result.rc}")
    lines = [t for t in result.stdout_tail.strip().splitlines() if t.strip()]
    return ConfigError.of(
        "C134",
        f"{path}: the file {why} while it was run",
        Span(str(path), 1),
        notes=tuple(lines[-1:]),
        help=_LATE_HELP,
    )


def _read(path: Path, text: str, values: Path) -> Graph | OpenGraph:
    try:
        data: Any = json.loads(text)
    except ValueError as e:
        raise ConfigError.of("C151", f"{path}: the graph is not JSON: {e}") from e
    if isinstance(data, dict) and "refused" in data:
        raise _refused(path, data)
    rows = data.get("values", []) if isinstance(data, dict) else []
    raw = values.read_bytes() if values.is_file() and not values.is_symlink() else b""
    kept = {
        str(r["name"]): raw[int(r["offset"]) : int(r["offset"]) + int(r["bytes"])] for r in rows
    }
    if isinstance(data, dict) and data.get("dims"):
        try:
            opened = named(data, data.get("names") or ())
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise ConfigError.of("C151", f"{path}: the open sizes of the graph: {e}") from e
        return read_open_graph(opened, str(path), kept)
    return with_literals(parse_graph(text, str(path), kept))


def _refused(path: Path, data: dict[str, Any]) -> ConfigError:
    what, message, line = str(data["refused"]), str(data["message"]), int(data["line"])
    span = Span(str(path), max(1, line))
    if what == "export":
        return ConfigError.of(
            "C151",
            f"torch.export cannot capture Model: {message}",
            span,
            help=export_help(message),
        )
    if what == "nothing":
        return ConfigError.of("C150", f"{path}: {message}", span, help=NOTHING_HELP)
    if what == "differs":
        return ConfigError.of(
            "C151",
            message,
            span,
            help="what is compiled and judged is the exported graph: `forward` may not depend on who calls it or how often",
        )
    if what == "late":
        return ConfigError.of("C134", f"{path}: {message}", span, help=_LATE_HELP)
    told = f"the file raised {message}" if what == "raised" else message
    return ConfigError.of(
        "C134",
        f"{path}: {told}",
        span,
        help=file_help(message),
    )
