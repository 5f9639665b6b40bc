"""A suite's table in Markdown, and what is said of a row that does not hold its gate."""

from __future__ import annotations

from septran.run.suite import Measured, Suite

_WORDS = {True: "held", False: "missed", None: "open"}


def page(suite: Suite, found: tuple[Measured, ...], facts: str) -> str:
    """Return the suite's page in Markdown. facts: the machine, in a line."""
    lines = [
        f"# Suite {suite.name} on {suite.backend}",
        "",
        f"{facts} {said_of(suite)}",
        "",
        "| row | us | x torch | interval | x reused | x compiled | x earlier | gate | goal | of the limit | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_line(each) for each in found]
    missed = [each for each in found if each.held is not True]
    if missed:
        lines += ["", "Rows that do not hold their gate, and what bounds them:", ""]
        lines += [f"- {each.row.label}: {bound(each)}" for each in missed]
    return "\n".join(lines) + "\n"


def said_of(suite: Suite) -> str:
    """Return what the figures of a suite are."""
    if any(row.cycles for row in suite.rows):
        return "Cycles that the simulator counts; a gate is the most that a kernel may take."
    return "torch's time over the kernel's, outputs allocated on both sides; 95 % interval."


def bound(measured: Measured) -> str:
    """Return what keeps a row from its gate, as far as the figure says it."""
    figure = measured.figure
    if measured.mean is not None:
        return "the rows that it is the mean of"
    if figure is None or not measured.known:
        return measured.reason or "not measured"
    said = []
    if measured.counted is not None:
        said.append(f"{measured.counted:,} cycles")
    if figure.limit_share is not None:
        of = figure.limited_by if measured.counted else f"the machine's {figure.limited_by} limit"
        said.append(f"{100 * figure.limit_share:.0f} % of {of}")
    elif figure.limit_reason:
        said.append(figure.limit_reason)
    if (figure.call_us or 0) > (figure.kernel_us or 0):
        said.append(f"the call costs more than the kernel ({figure.call_us} us)")
    if measured.held is None:
        said.append("the interval includes the gate")
    if figure.reliable is False:
        said.append("measured on a busy machine")
    return "; ".join(said) or "no limit is known"


def brief(each: Measured) -> str:
    """Return a row's figure and gate in a few words."""
    if each.counted is not None:
        return f"{each.counted:,} cycles (gate {each.row.gated})"
    return f"{each.speedup or each.reason} (gate {each.row.gated})"


def _line(each: Measured) -> str:
    figure, row = each.figure, each.row
    end = f"{_short(each.against_earlier)} | {row.gated} | {row.goal or '-'}"
    if not each.known:
        return f"| {row.label} | - | - | - | - | - | {end} | - | {each.reason} |"
    word = _WORDS[each.held]
    if figure is None:
        low, high = each.interval
        return f"| {row.label} | - | {_short(each.speedup)} | {low:.3g} to {high:.3g} | - | - | {end} | - | {word} |"
    share = "-" if figure.limit_share is None else f"{100 * figure.limit_share:.0f} %"
    if each.counted is not None:
        return f"| {row.label} | {each.counted:,} cycles | - | - | - | - | {end} | {share} {figure.limited_by} | {word} |"
    return (
        f"| {row.label} | {figure.kernel_us} | {each.speedup} | {figure.low} to {figure.high} | "
        f"{figure.reused or '-'} | {figure.speedup['torch_compile'] or '-'} | {end} | {share} | {word} |"
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
