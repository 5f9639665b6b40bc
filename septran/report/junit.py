"""A batch as JUnit XML, which CI servers show: a cell is a test case.

rejected is a failure, failed an error, unavailable and not run are skipped; the speed is in the case's output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

from septran.batch.run import planned, sort_of
from septran.run import store

_HOW = {"rejected": "failure", "failed": "error", "unavailable": "skipped"}
# what XML 1.0 cannot hold at all, also not escaped
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(run: store.Run) -> str:
    """Return a batch run's cells as a JUnit test suite."""
    suite = ElementTree.Element("testsuite", name=_text(run.id))
    counts = dict.fromkeys(("tests", "failure", "error", "skipped"), 0)
    total = 0.0
    for cell, data in planned(run):
        seconds = sum((data or {}).get("seconds", {}).values())
        op, _, rest = cell.partition("/")
        case = ElementTree.SubElement(
            suite, "testcase", classname=_text(op), name=_text(rest), time=f"{seconds:.3f}"
        )
        why = ""
        if data is None or data.get("edited"):
            how, why = "skipped", "not run" if data is None else "the result was edited"
        else:
            how = _HOW.get(sort_of(data), "")
        counts["tests"] += 1
        total += seconds
        if how:
            counts[how] += 1
            why = why or str((data or {}).get("reason") or (data or {}).get("level"))
            one = ElementTree.SubElement(case, how, message=_text(why.partition("\n")[0]))
            one.text = _text("\n".join(filter(None, (why, _culprit(data or {})))))
        elif data is not None:
            _speed(case, data)
    suite.attrib |= {
        "tests": str(counts["tests"]),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": f"{total:.3f}",
    }
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _speed(case: ElementTree.Element, data: Mapping[str, Any]) -> None:
    ratio = (data.get("speedup") or {}).get("torch_eager")
    if ratio:
        ElementTree.SubElement(case, "system-out").text = f"{ratio:.2f} x torch eager"


def _culprit(data: Mapping[str, Any]) -> str:
    found = data.get("culprit") or {}
    return f"{found.get('kind')} {found.get('name')}: {found.get('why')}" if found else ""


def _text(value: str) -> str:
    return _FORBIDDEN.sub("?", value)
