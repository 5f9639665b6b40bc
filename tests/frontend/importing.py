"""Import our own module files in this process (they are ours, so no child is needed), and run what was written."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import torch

from septran.aten.graph import Graph, parse_graph
from septran.aten.literals import with_literals
from septran.frontend.child import capture as child
from septran.frontend.table import KNOWN
from septran.frontend.translate import translate
from septran.frontend.write import write
from septran.plan.torch_module import Imported, operator_of
from septran.tasklang.load import execute_logic
from septran.tasklang.oracle import run_oracle


def graph_of(path: Path, mode: str = "eval") -> Graph:
    """Return the exported graph of a module file."""
    config = {"mode": mode, "values_bytes": 1 << 24, "known": sorted(KNOWN)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.export's own, raised from the standard library
        data = child._capture(path, path.parent, config)
    stored = path.parent / "values.bin"
    raw = stored.read_bytes() if data["values"] else b""
    values = {r["name"]: raw[r["offset"] : r["offset"] + r["bytes"]] for r in data["values"]}
    return with_literals(parse_graph(json.dumps(data), str(path), values))


def imported(path: Path, mode: str = "eval") -> Imported:
    """Return the import of a module file."""
    graph = graph_of(path, mode)
    canon = translate(graph)
    return Imported(graph=graph, canon=canon, written=write(canon))


TUNABLES = {
    "rows": 3,
    "cols": 5,
    "block_size_M": 4,
    "block_size_N": 4,
    "block_size_K": 8,
    "tile_H": 3,
    "tile_W": 4,
}
"""Small tiles that divide nothing, so that every edge is met."""


def tunables_of(text: str) -> dict[str, int]:
    """Return a size for each tunable of a text that has one above. Those of several kernels end with the kernel's name."""
    names = re.findall(r'task\.tunable\("(\w+)"', text)
    return {n: v for n in names for k, v in TUNABLES.items() if re.match(rf"{k}(_|$)", n)}


def computes_the_module(found: Imported, folder: Path) -> None:
    """Assert that the written logic gives what the exported graph gives."""
    path = folder / "logic.py"
    path.write_text(found.text)
    logic = execute_logic(path)
    operator = operator_of(found, logic)
    values = values_of(found.written, operator)
    wanted = operator.reference.fn(**values)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    results = {
        name: _undefined(shape, dtype)
        for name, shape, dtype in found.written.params
        if name in found.written.outputs
    }
    args = tuple(results.get(n, values.get(n)) for n, _, _ in found.written.params)
    run_oracle(logic.task(found.written.entry), args, tunables_of(found.text))
    for name, right in zip(found.written.outputs, wanted, strict=True):
        # workspaces are float32
        got = results[name]
        far = 2e-5 if got.is_floating_point() else 0
        torch.testing.assert_close(got, right.to(got.dtype), rtol=far, atol=far)


def values_of(written, operator) -> dict[str, torch.Tensor]:
    """Return inputs and weights: random floats, the file's own whole numbers."""
    generator = torch.Generator().manual_seed(1)
    found = {}
    for name, shape, dtype in written.params:
        if name in written.outputs:
            continue
        if not dtype.startswith(("float", "bfloat")):
            raw = np.frombuffer(operator.samples[name], dtype=dtype).reshape(shape)
            found[name] = torch.from_numpy(raw.copy())
            continue
        values = torch.randn(shape, generator=generator, dtype=torch.float64)
        positive = operator.domains[name].kind == "positive"
        found[name] = values.abs() + 0.05 if positive else values
    return found


def _undefined(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    if dtype.startswith(("float", "bfloat")):
        return torch.full(shape, float("nan"), dtype=torch.float64)
    return torch.full(shape, 1, dtype=getattr(torch, dtype))
