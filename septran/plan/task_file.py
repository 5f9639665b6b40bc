"""A torch module file as an operator, or as logic text; sizes that it leaves open stay open."""

from __future__ import annotations

from pathlib import Path

from septran.aten.open_graph import OpenGraph
from septran.frontend.capture import Mode, capture_open
from septran.frontend.translate import Opaque
from septran.plan.open_module import load_open
from septran.plan.torch_module import Imported, imported, load_imported
from septran.tasklang.load import Logic
from septran.tasklang.operator import Operator


def import_module(path: Path, *, mode: Mode = "eval", opaque: Opaque = "") -> Imported:
    """Return the logic of a module file.

    opaque: "nodes": what has no form becomes an opaque leaf; "whole": the module is one.

    Raises:
        ConfigError: C134 the file, C150 nodes without a Task Lang form, C151 torch.export, C152 random
            numbers. EnvironmentProblem: V214.
    """
    graph = capture_open(path, mode=mode)
    if isinstance(graph, OpenGraph):
        return load_open(graph)[0]
    return imported(graph, opaque)


def load_task_file(
    path: Path, *, mode: Mode = "eval", opaque: Opaque = ""
) -> tuple[Operator, Logic]:
    """Return the operator that a module file is, and its logic.

    Raises:
        ConfigError: C134, C150, C151, C152. EnvironmentProblem: V214. TaskLangError: the written logic is
            not accepted.
    """
    graph = capture_open(path, mode=mode)
    if isinstance(graph, OpenGraph):
        return load_open(graph)[1:]
    return load_imported(imported(graph, opaque))
