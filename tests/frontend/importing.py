"""Import our own module files in this process (they are ours, so no child is needed)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

from septran.frontend.child import capture as child
from septran.frontend.graph import Graph, parse_graph
from septran.frontend.translate import translate
from septran.frontend.write import write
from septran.plan.torch_module import Imported


def graph_of(path: Path, mode: str = "eval") -> Graph:
    """Return the exported graph of a module file."""
    config = {"mode": mode, "values_bytes": 1 << 24}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.export's own, raised from the standard library
        data = child._capture(path, path.parent, config)
    raw = (path.parent / "values.bin").read_bytes()
    values = {r["name"]: raw[r["offset"] : r["offset"] + r["bytes"]] for r in data["values"]}
    return parse_graph(json.dumps(data), str(path), values)


def imported(path: Path, mode: str = "eval") -> Imported:
    """Return the import of a module file."""
    graph = graph_of(path, mode)
    canon = translate(graph)
    return Imported(graph=graph, canon=canon, written=write(canon))
