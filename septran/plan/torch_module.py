"""A torch module file becomes an operator: logic written from its graph, and the graph as its meaning."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.assets import home
from septran.aten.evaluate import base_name, run_graph
from septran.aten.graph import Graph, Meta, Output, Ref, parse_graph
from septran.atomic import write_atomic
from septran.domain import Domain
from septran.errors import ConfigError
from septran.frontend.canon import Canon, Op
from septran.frontend.decisions import Decision, allows, compared, decisions, settled, stored
from septran.frontend.domains import domains_of
from septran.frontend.translate import Opaque, input_names, translate
from septran.frontend.write import Written, write
from septran.frontend.write.extern import leaf_name
from septran.ir.dtypes import FLOATS, whole_sums
from septran.reference import Choice, Reference, ReferenceKind
from septran.tasklang.load import Logic, execute_logic, load_logic
from septran.tasklang.operator import Operator

if TYPE_CHECKING:
    import torch

GRAPH = ".graph.json"
"""What the graph of a logic file `NAME.py` is called: `NAME.graph.json`."""
_EXACT = re.compile(
    r"\b(exp|exp2|log|sqrt|rsqrt|tanh|sigmoid|erf|sin|cos|atan|log1p|expm1)\(|[+*/]| - "
)

_PARTIAL = frozenset(
    ("linalg_cholesky", "linalg_cholesky_ex", "cholesky", "cholesky_solve", "cholesky_inverse")
) | {"linalg_solve_triangular", "triangular_solve"}
"""Operators that have no value for many inputs: a matrix that is not positive definite, a zero on a diagonal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A module in Task Lang. text: the logic file; graph: what it is judged against; opaque: as `import_module` was asked."""

    graph: Graph
    canon: Canon
    written: Written
    opaque: Opaque = ""

    @property
    def opaque_leaves(self) -> Mapping[str, Op]:
        """Name of each opaque leaf -> the node it makes first."""
        anchors = ((g, g.ops[0]) for g in self.written.grouping.groups)
        return {leaf_name(g): op for g, op in anchors if op.kind == "extern"}

    @property
    def text(self) -> str:
        """The logic file's text."""
        return self.written.text

    def origins(self) -> dict[str, str]:
        """Return parameter of the logic -> the graph's input."""
        return {name: one.name for name, one in _names(self).items()}


def imported(graph: Graph, opaque: Opaque = "", *, name: str = "") -> Imported:
    """Return the logic of an exported graph, as an operator `name` (default: as its file); raises ConfigError C150, C152."""
    canon = translate(graph, opaque)
    canon = replace(canon, name=name) if name else canon
    return Imported(graph=graph, canon=canon, written=write(canon), opaque=opaque)


def load_written(path: Path) -> tuple[Operator, Logic] | None:
    """Return the operator of a logic file that `septran import` wrote, judged by the graph beside it; None: there is none.

    The text may have been edited: it is the file's logic that is compiled, and the graph that says what is right.

    Raises:
        ConfigError: C151 the graph beside the file is damaged, C150 it has a part that is nobody's. TaskLangError.
    """
    beside = path.with_suffix(GRAPH)
    if not beside.is_file():
        return None
    text = beside.read_text(encoding="utf-8")
    try:
        more = json.loads(text).get("septran", {})
        values = {str(n): base64.b64decode(v) for n, v in more.get("values", {}).items()}
        opaque = more.get("opaque", "")
        file = path.with_name(Path(str(more.get("file", path.name))).name)
        if opaque not in ("", "nodes", "whole"):
            raise ValueError(f"opaque is {opaque!r}")
    except (ValueError, AttributeError, TypeError) as e:
        raise ConfigError.of("C151", f"{beside}: the graph is not well-formed: {e}") from None
    found = imported(parse_graph(text, str(file), values), opaque)
    logic = load_logic(path)
    return operator_of(found, logic), logic


def load_imported(found: Imported) -> tuple[Operator, Logic]:
    """Return the operator and the logic of an imported module; raises TaskLangError."""
    logic = execute_logic(_kept(found))  # its text is ours
    return operator_of(found, logic), logic


def _kept(found: Imported) -> Path:
    """Return where the written logic lies; equal text lies in one place."""
    sha = hashlib.sha256(found.text.encode()).hexdigest()[:16]
    folder = home() / "imports" / sha
    target = folder / f"{found.canon.name}.py"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f".{target.name}.{hashlib.sha256(str(id(found)).encode()).hexdigest()[:8]}"
        aside.write_text(found.text, encoding="utf-8")
        aside.replace(target)
    return target


def operator_of(found: Imported, logic: Logic) -> Operator:
    """Return the operator of an imported module; its reference runs the graph."""
    written, graph = found.written, found.graph
    tensors = {
        name: f"{' '.join(map(str, shape))}:{dtype}" for name, shape, dtype in written.params
    }
    inputs = [n for n in tensors if n not in written.outputs]
    names = found.origins()
    floats = [dtype for _, _, dtype in written.params if dtype in FLOATS]
    kind, terms = error_model(found.canon)
    operands = {
        leaf: partial(_operands, graph, {n: names[n] for n in inputs}, op.attrs["reads"])
        for leaf, op in found.opaque_leaves.items()
    }
    return Operator(
        name=found.canon.name,
        about=f"Model of {Path(graph.file).name}",
        entry=logic.task(written.entry),
        tensors=tensors,
        outputs=written.outputs,
        dims={},
        odd_dims=(),
        reference=reference_of(
            graph, {n: names[n] for n in inputs}, written, kind, terms, operands
        ),
        domains=domains_of(graph, found.canon, {n: names[n] for n in inputs}),
        dtypes=(
            floats[0] if floats else "float32",
        ),  # of a module of integers alone: what it would accumulate in
        samples={n: graph.values[names[n]] for n in inputs if names[n] in graph.values},
    )


def _names(found: Imported) -> dict[str, Any]:
    """Return parameter of the logic -> the graph's input."""
    by_clean = dict(zip(input_names(found.graph), found.graph.inputs, strict=True))
    kept = {g.name for g in found.canon.given}
    return {n: i for n, i in by_clean.items() if n in kept}


def _refused(graph: Graph, e: Exception) -> ConfigError:
    said = next(iter(str(e).splitlines()), type(e).__name__)
    return ConfigError.of(
        "C152",
        f"{graph.file}: torch refuses inputs that the judge draws: {said}",
        help="the module wants more of its inputs than their shapes and dtypes say (an order, a first value): make them inside of it",
    )


def reference_of(
    graph: Graph,
    names: Mapping[str, str],
    written: Written,
    kind: ReferenceKind,
    terms: int,
    operands: Mapping[str, Callable[..., tuple[Any, ...]]] | None = None,
) -> Reference:
    """Return the graph's meaning in the logic's parameters. names: parameter -> the graph's input."""
    shapes = {n: s for n, s, _ in written.params}
    shown = {written.outputs[d.output]: d for d in (*stored(graph), *decisions(graph))}
    narrow = any(base_name(n.op) in _PARTIAL for n in graph.nodes)

    def called(run: Callable[[Mapping[str, torch.Tensor]], Any]) -> Callable[..., Any]:
        def fn(**values: torch.Tensor) -> Any:
            try:
                found = run(_graphs(graph, names, values))
            except (RuntimeError, IndexError) as e:  # torch's word on what was drawn
                raise _refused(graph, e) from e
            shaped = tuple(
                t.reshape(shapes[n]).contiguous()
                for t, n in zip(found, written.outputs, strict=True)
            )
            return shaped[0] if len(shaped) == 1 else shaped

        return fn

    def choice(output: str, fixed: Mapping[Decision, torch.Tensor]) -> Choice:
        decision = shown[output]
        return Choice(
            output=output,
            about=decision.about,
            stored=decision.kind == "stored",
            values=lambda **values: compared(
                graph, decision, _graphs(graph, names, values), fixed=fixed
            ),
            allows=lambda values, exact, budget, got: allows(
                graph, decision, _graphs(graph, names, values), exact, budget, got
            ),
        )

    def decided(made: Mapping[str, torch.Tensor]) -> Reference:
        fixed = {shown[output]: got for output, got in made.items()}
        return Reference(
            fn=called(settled(graph, fixed)),
            rounded=lambda rounding: called(settled(graph, fixed, rounded=rounding)),
            summed=lambda rounding: called(settled(graph, fixed, rounded=rounding)),
            kind=kind,
            reduction=lambda dims: terms,
            choices=tuple(choice(n, fixed) for n in shown if n not in made),
            chosen=lambda more: decided({**made, **more}),
        )

    return Reference(
        fn=called(partial(run_graph, graph)),
        rounded=lambda rounding: called(partial(run_graph, graph, rounded=rounding)),
        summed=lambda rounding: called(partial(run_graph, graph, rounded=rounding)),
        kind=kind,
        reduction=lambda dims: terms,
        choices=tuple(choice(n, {}) for n in shown),
        chosen=decided,
        operands=operands or {},
        defined=_has_value(called(partial(run_graph, graph))) if operands or narrow else None,
    )


def _has_value(fn: Callable[..., Any]) -> Callable[..., bool]:
    """Return whether `fn` has a value for its arguments: torch computes it, and nothing finite becomes NaN."""

    def defined(**values: torch.Tensor) -> bool:
        try:
            found = fn(**values)
        except (RuntimeError, ConfigError):  # the second says the first in our words
            return False
        results = found if isinstance(found, tuple) else (found,)
        return not any(bool(t.isnan().any()) for t in results if t.is_floating_point())

    return defined


def _operands(
    graph: Graph, names: Mapping[str, str], reads: Sequence[str], **values: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Return what an opaque leaf is given: these values of the graph, for the kernel's inputs."""
    given = _graphs(graph, names, values)
    ends = tuple(Output(value=Ref(n), kind="user_output", target="") for n in reads)
    found: tuple[torch.Tensor, ...] = run_graph(replace(graph, outputs=ends), given)
    return tuple(t if t.ndim else t.reshape(1) for t in found)


def _graphs(
    graph: Graph, names: Mapping[str, str], values: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the graph's inputs from the logic's parameters."""
    metas = {i.name: i.meta for i in graph.inputs}
    given = {names[n]: v.reshape(metas[names[n]].shape) for n, v in values.items() if n in names}
    return given | _unread(metas, given)


def _unread(
    metas: Mapping[str, Meta], given: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return zeros for what the graph names but no result depends on, such as a buffer that is overwritten."""
    import torch

    wide = next((v.dtype for v in given.values() if v.is_floating_point()), torch.float64)
    floats = ("float", "bfloat")
    return {
        name: torch.zeros(
            meta.shape, dtype=wide if meta.dtype.startswith(floats) else getattr(torch, meta.dtype)
        )
        for name, meta in metas.items()
        if name not in given
    }


def error_model(canon: Canon) -> tuple[ReferenceKind, int]:
    """Return the kind of error budget and the number of terms of the longest sum."""
    terms, exact, linear = 1, True, 0
    for op in canon.ops:
        if op.kind == "map":
            exact = exact and _EXACT.search(str(op.attrs["expr"])) is None
        elif op.kind == "reduce":
            (view,) = op.ins.values()
            terms = max(terms, math.prod(view.shape[a] for a in op.axes))
            exact = exact and op.attrs["op"] in ("max", "min")
        elif op.kind == "matmul":
            terms, linear = max(terms, op.ins["a"].shape[-1]), linear + 1
            exact = exact and whole_sums(
                op.dtype, [canon.dtype_of(v.source) for v in op.ins.values()]
            )
        elif op.kind == "conv":
            terms = max(terms, math.prod(op.ins["w"].shape[1:]))
            exact, linear = False, linear + 1
        elif op.kind == "recurrent":
            terms, exact, linear = max(terms, op.shape[2]), False, linear + 1
        elif op.kind == "scan":
            (view,) = op.ins.values()
            terms = max(terms, view.shape[op.attrs["axis"]])
            exact = exact and op.attrs["op"] in ("max", "min")
        elif op.kind == "scatter":
            terms = max(terms, op.ins["x"].shape[op.attrs["axis"]])
            exact = exact and op.attrs["op"] == "last"
        elif op.kind == "extern":
            sizes = [n for v in op.ins.values() for n in (*v.shape, *op.shape)]
            terms, exact = max(terms, *sizes, 1), False
        elif op.kind == "window":
            terms = max(terms, math.prod(op.attrs["window"]))
            exact = exact and (op.attrs["op"] == "max" or op.pads)
    plain = all(
        op.kind in ("matmul", "conv", "join")
        or op.pads
        or (op.kind == "map" and op.attrs["expr"] in ("c + b", "x", "0.0"))
        for op in canon.ops
    )
    if exact:
        return "exact", terms
    return ("gemm" if plain and linear == 1 else "chain"), terms


def _graph_file(found: Imported) -> dict[str, Any]:
    """Return the graph, how it was imported, and the file's own integers, which say where an index may point."""
    own = {
        i.name: base64.b64encode(found.graph.values[i.name]).decode()
        for i in found.graph.inputs
        if i.meta.dtype not in FLOATS and i.name in found.graph.values
    }
    how = {"file": Path(found.graph.file).name, "opaque": found.opaque}
    return {**found.graph.to_json(), "septran": {**how, "values": own}}


def write_logic(found: Imported, target: Path) -> None:
    """Write the logic to `target`, and the graph beside a file (`NAME.graph.json`); a device gets the logic alone.

    Both are whole or as they were; raises OSError.
    """
    if target.is_file() or not target.exists():
        write_atomic(target.with_suffix(GRAPH), json.dumps(_graph_file(found)))
    write_atomic(target, found.text)


__all__ = ["Domain", "Imported", "operator_of", "write_logic"]
