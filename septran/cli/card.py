"""The card a person reads after `gen` and `verify`: how far the kernel got, how right, how fast, where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from septran.cli.console import Terminal
from septran.verify.warp_accesses import told

_COLORS = {"accurate": "green", "attested": "green", "rejected": "red", "unavailable": "yellow"}


def show(result: Mapping[str, Any], term: Terminal) -> None:
    """Write the card to stdout: a panel on a terminal, the same lines in a pipe, the object with --json."""
    if term.json:
        term.emit(result)
        return
    lines = rows(result)
    width = max(len(name) for name, _ in lines)
    if not term.people():
        text = "".join(f"  {name.ljust(width)}  {value}\n" for name, value in lines)
        term.result(f"{title(result)}\n{text}")
        return
    from rich.panel import Panel
    from rich.text import Text

    color = _COLORS.get(str(result.get("level")), "yellow")
    body = Text()
    for number, (name, value) in enumerate(lines):
        body.append("\n" if number else "")
        body.append(f"{name.ljust(width)}  ", style="dim")
        body.append(value, style=f"bold {color}" if name == "verdict" else "")
    term.rich().print(
        Panel(body, title=Text(title(result)), title_align="left", border_style=color, expand=False)
    )


def title(result: Mapping[str, Any]) -> str:
    """Return "gemm on cpp, M=512 N=512 K=512, float32"."""
    dims = " ".join(f"{name}={size}" for name, size in (result.get("dims") or {}).items())
    target = str(result.get("backend"))
    if result.get("arch"):
        target += f" ({result['arch']})"
    parts = (f"{result.get('op')} on {target}", dims, str(result.get("dtype") or ""))
    return ", ".join(part for part in parts if part)


def rows(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the card's lines as (name, text); what is unknown is left out, never invented."""
    found = [("verdict", _verdict(result))]
    if result.get("reason"):
        found.append(("because", str(result["reason"])))
    if result.get("reason") and result.get("hint"):
        found.append(("hint", str(result["hint"])))
    if culprit := result.get("culprit"):
        found.append(("culprit", f"{culprit['kind']} {culprit['name']}: {culprit['why']}"))
    if result.get("max_error") is not None:
        found.append(("errors", _errors(result)))
    if result.get("declared"):
        found.append(
            (
                "declared",
                f"judged by the accuracy of math: {result['declared']}, worse than that of sums",
            )
        )
    if result.get("ties"):
        found.append(("near ties", str(result["ties"])))
    if tuned := result.get("tuned"):
        found.append(("tuned", str(tuned["text"])))
    found.extend(_proof(result))
    if speed := _speed(result.get("speedup") or {}):
        speed += _spread(result.get("timing") or {})
        limit = result.get("limit") or {}
        if limit.get("share") is not None:
            speed += f"; {100 * limit['share']:.0f} % of the machine's limit ({limit['by']})"
        found.append(("speed", speed))
    if room := result.get("workspace"):
        each = f"{room['tensors']} tensors of {room['separate']} bytes"
        found.append(("workspace", f"{room['bytes']} bytes for {each} between kernels"))
    found.extend(cycle_rows(result.get("cycles") or {}))
    found.extend(told(result.get("accesses") or {}))
    found.extend(("torch", _host_leaf(part)) for part in result.get("host_leaves") or ())
    found.extend(("leaf", _leaf(leaf)) for leaf in result.get("leaves") or ())
    model = result.get("model") or {}
    if model.get("calls"):
        tokens = f"{model.get('prompt_tokens', 0)} + {model.get('completion_tokens', 0)} tokens"
        found.append(("model", f"{model['calls']} calls, {tokens}"))
    found.extend(("not checked", str(item)) for item in result.get("not_checked") or ())
    if result.get("seconds"):
        times = ", ".join(f"{name} {value:.1f}" for name, value in result["seconds"].items())
        found.append(("seconds", times))
    found.extend(("part", str(part)) for part in result.get("parts") or ())
    found.extend((name, str(result[name])) for name in ("kernel", "run") if result.get(name))
    return found


def _proof(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is proven of the hierarchy, refusals first."""
    proof = result.get("proof")
    if not proof:
        return []
    found = [("unproven", f"{rule}: {why}") for rule, why in proof["refused"].items()]
    if result.get("proved"):
        found.append(("proved", ", ".join(result["proved"])))
    taken = {one: None for each in proof.get("assumes", {}).values() for one in each}
    found.extend(("assumes", one) for one in taken)
    if dynamic := result.get("dynamic"):
        domain = ", ".join(f"{n} from {a} to {b}" for n, (a, b) in dynamic["domain"].items())
        found.append(("for", f"{domain}: sizes are read when the kernel runs"))
        judged = ", ".join(s["dims"] for s in dynamic["sizes"] if s["status"] == "PASSED")
        found.append(("same build", f"right at {judged}"))
    if rows := result.get("rows"):
        compared = ", ".join(map(str, rows["compared"])) or "none"
        same = "other bits" if rows["differ"] else "same bits"
        found.append(("rows", f"order proven for every number; {same} at {compared}"))
    found.extend(("not proved", f"{rule}: {why}") for rule, why in proof["not_asked"].items())
    return found


def _verdict(result: Mapping[str, Any]) -> str:
    where = f" ({result['where']})" if result.get("where") else ""
    by_torch = ", with parts that torch computes" if result.get("host_leaves") else ""
    return f"{result.get('level') or 'stopped'}{where}{by_torch}"


def _host_leaf(part: Mapping[str, Any]) -> str:
    line = f" (line {part['line']})" if part.get("line") else ""
    return f"{part['operators']}{line} is no kernel: {part['why']}"


def _errors(result: Mapping[str, Any]) -> str:
    # JSON has no infinity: those figures are texts
    largest = f"largest difference to float64 torch {float(result['max_error']):.3g}"
    if result.get("budget_ratio") is None:
        return largest
    ratio = float(result["budget_ratio"])
    used = (
        f"{100 * ratio:.0f} % of what is allowed"
        if ratio < float("inf")
        else "beyond any allowance"
    )
    return f"{used}; {largest}"


def _speed(speedup: Mapping[str, float | None]) -> str:
    known = [
        f"{ratio:.2f} x {name.replace('_', ' ')}"
        for name, ratio in speedup.items()
        if ratio is not None
    ]
    return ", ".join(known)


def _spread(timing: Mapping[str, Any]) -> str:
    """The interval, what was compared, and whether the machine was too busy for a figure."""
    if not timing.get("pairs"):
        return ""
    words = [f"{timing['low']:.2f} to {timing['high']:.2f}"]
    if timing.get("reused") and timing.get("call_s"):
        words.append(f"outputs allocated; reused {timing['reused']:.2f} x")
    if timing.get("clock") == "processor":
        words.append("one thread each")
    if not timing.get("reliable", True):
        words.append("not reliable: the machine is busy")
    return f" ({'; '.join(words)})"


def cycle_rows(cycles: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a simulator's report in two lines: how long, and what it waited for."""
    if not cycles:
        return []
    queues = sorted(cycles["queues"].items(), key=lambda item: -item[1]["busy"])
    busy = ", ".join(f"{name} {100 * q['utilisation']:.0f} %" for name, q in queues if q["busy"])
    total = f"{cycles['total']:,}".replace(",", " ")
    rows = [("cycles", f"{total} on {cycles['cores']} cores; busy: {busy}")]
    share = (
        f"{100 * cycles['mma_bound_share']:.0f} % of the matrix bound; " if cycles["macs"] else ""
    )
    moved = f"{cycles['bytes_moved'] / 1e6:.3g} MB moved"
    rows.append(("overlap", f"{cycles['overlap']:.2f}; {share}{moved}"))
    return rows


def _leaf(leaf: Mapping[str, Any]) -> str:
    text = f"{leaf.get('task')}: {leaf.get('name')} ({leaf.get('writer')})"
    if leaf.get("opaque"):
        text += "; opaque: it means a part of the module's torch graph"
    return f"{text}; faster by prediction only" if leaf.get("accepted") == "predicted" else text
