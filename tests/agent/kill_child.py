"""The process that test_kill kills: one search against the server at argv[1], recorded in argv[2]."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from septran.agent.config import load, override
from septran.agent.llm import llm_writer, outcome_json
from septran.agent.writer import Budget, LeafVerdict
from septran.kernel import Leaf, LeafSpec
from tests.agent.leaves import BACKEND, GEMM, RELU, by_markers


class SlowJudge:
    """Takes its time, so that kills come during judging too."""

    def library(self, spec: LeafSpec) -> str:
        return ""

    def check(self, leaf: Leaf) -> LeafVerdict:
        time.sleep(0.03)
        return by_markers(leaf.source)


def main() -> None:
    """Write two leaves and print the outcomes."""
    config = load("cpp", over=[override("test", {"base_url": sys.argv[1], "model": "fake-coder"})])
    writer = llm_writer(BACKEND, config, Path(sys.argv[2]))
    budget = Budget(attempts=6, candidates=2)
    found = [outcome_json(writer.write(spec, SlowJudge(), budget)) for spec in (RELU, GEMM)]
    print(json.dumps(found, sort_keys=True))


main()
