"""Every `septran.*/1` object has one frozen dataclass behind it and one writer."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from collections import defaultdict
from functools import cache

from septran.document import Document
from tests.packaging.sources import PACKAGE, files

NAME = re.compile(r"septran\.[a-z_-]+/\d+")
# written by a dataclass that is more than its JSON (it holds a plan, a kernel, leaves): object -> module and class
OWNERS = {
    "septran.archive/1": "agent.evolve:Archive",
    "septran.ask/1": "run.worth:AskPlan",
    "septran.batch/1": "batch.run:BatchResult",
    "septran.call/1": "call.call_entries:CallEntry",
    "septran.batch-plan/1": "batch.plan:Plan",
    "septran.bench/1": "run.bench:Figure",
    "septran.certificate/1": "prove.certificate:Certificate",
    "septran.diff/1": "report.diff:Diff",
    "septran.error/1": "errors:Failure",
    "septran.eval/1": "run.evaluate:Evaluation",
    "septran.evidence/1": "verify.evidence:Bundle",
    "septran.gen/1": "run.result:Result",
    "septran.judge/1": "run.judgement:Judgement",
    "septran.leaf/1": "agent.writer:Written",
    "septran.lesson/1": "agent.memory:Lesson",
    "septran.module/1": "call.saved:Saved",
    "septran.module/2": "call.saved:Saved",
    "septran.predict/1": "run.predict:Predicted",
    "septran.report/1": "report.data:Report",
    "septran.reward/1": "environment.step:Reward",
    "septran.stored-leaf/1": "agent.store:Stored",
    "septran.task/1": "environment.tasks:LeafTask",
    "septran.tune/1": "run.tune_outcome:Outcome",
    "septran.verdict/1": "verify.verdict:Verdict",
}

GROWING = ("septran.archive/1", "septran.batch/1")
"""of a search and of a batch that go on: what has come so far"""


@cache
def named() -> dict[str, list[str]]:
    """Return schema -> the modules whose code (not their prose) spells it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files():
        text = path.read_text(encoding="utf-8")
        if not NAME.search(text):
            continue
        tree = ast.parse(text)
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and NAME.fullmatch(str(node.value)):
                found[str(node.value)].append(module)
    return found


def documents() -> dict[str, str]:
    """Return schema -> module and class of the objects that are nothing but their JSON."""
    for module in (
        "cli.printed",
        "environment.export",
        "environment.told",
        "report.explain",
        "run.store",
        "run.searches",
        "run.suite",
    ):
        importlib.import_module(f"septran.{module}")
    return {
        c.SCHEMA: f"{c.__module__.removeprefix('septran.')}:{c.__name__}"
        for c in Document.__subclasses__()
    }


def test_a_schema_is_spelled_once() -> None:
    assert {name: places for name, places in named().items() if len(places) > 1} == {}


def test_every_schema_has_a_frozen_dataclass() -> None:
    owners = {**documents(), **OWNERS}
    assert sorted(named()) == sorted(owners)
    for name, owner in owners.items():
        module, _, word = owner.partition(":")
        found = getattr(importlib.import_module(f"septran.{module}"), word)
        assert dataclasses.is_dataclass(found), owner
        assert found.__dataclass_params__.frozen is (name not in GROWING), owner
