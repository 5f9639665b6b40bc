"""From the exported graph to canonical nodes, one table row after another."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from septran.aten.evaluate import allowed, base_name
from septran.aten.graph import Graph, Meta, Node, Ref, storable
from septran.aten.once import PREFIX
from septran.aten.scalars import STEPS, as_taken, dtypes_of
from septran.errors import ConfigError, Diagnostic, Span, closest
from septran.frontend.canon import Canon, Given, Op
from septran.frontend.lines import as_line
from septran.frontend.opaque import Part, in_order, named, parts, whole
from septran.frontend.refusals import NOTHING_HELP
from septran.frontend.table import ROWS, Args, Builder, NoForm, clean_name
from septran.frontend.table.pair import Pair, is_complex, row_of
from septran.frontend.view import View

Opaque = Literal["", "nodes", "whole"]
_NO_NUMBERS = "it draws random numbers, so there is no defined result to judge"
_RANDOM = re.compile(r"rand|bernoulli|multinomial|normal_|poisson|native_dropout|exponential")


def translate(graph: Graph, opaque: Opaque = "") -> Canon:
    """Return the module in canonical nodes.

    opaque: "nodes": what has no form becomes an opaque leaf, whose meaning is that part of the graph; "whole": all of
        it is one; "": neither.

    Raises:
        ConfigError: C150, a node has no Task Lang form (or cannot be an opaque leaf either); C152, a node draws random
            numbers. All of them at once, at most ten.
    """
    found: tuple[Part, ...] = ()
    if opaque == "whole":
        found = whole(graph)
        bad = [n for n in graph.nodes if draws_numbers(n)]
        problems = [_told(graph, n, _NO_NUMBERS) for n in bad]
        if problems or found[0].refusal(graph):
            raise ConfigError(problems or [_told(graph, graph.nodes[-1], found[0].refusal(graph))])
    elif opaque and (known := forms(graph)).missing:
        found = parts(graph, known.missing, known.numbers)
    return _translated(graph, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """What the table makes of a graph's nodes, each by itself.

    missing: node without a form -> why. numbers: nodes whose value is a number and no tensor. views: nodes that compute
    nothing: their value is another's in another layout.
    """

    missing: Mapping[str, str]
    numbers: tuple[str, ...]
    views: frozenset[str]


def forms(graph: Graph) -> Forms:
    """Return what the table makes of each node of a graph."""
    builder, env, _ = _start(graph)
    missing: dict[str, str] = {}
    views: set[str] = set()
    for node in graph.nodes:
        builder.node, before = node, len(builder.ops)
        try:
            env[node.name] = _node(builder, node, env)
            if len(builder.ops) == before:
                views.add(node.name)
        except NoForm as e:
            missing[node.name] = str(e)
            env[node.name] = _stand_in(builder, node)
    missing |= _complex_results(graph, env)
    plain = [n.name for n in graph.nodes if not isinstance(env[n.name], View | Pair) and not n.many]
    return Forms(missing=missing, numbers=tuple(plain), views=frozenset(views))


def _complex_results(graph: Graph, env: Mapping[str, Any]) -> dict[str, str]:
    """Return the results of a module that are pairs of reals -> why they cannot be."""
    results = [o.value.name for o in graph.outputs if isinstance(o.value, Ref)]
    why = "a result has dtype complex64, which no kernel stores; return torch.view_as_real of it"
    return {name: why for name in results if isinstance(env[name], Pair)}


def input_names(graph: Graph) -> list[str]:
    """Return what the logic calls the inputs of a graph, in their order."""
    return [g.name for g in _start(graph)[2]]


def _start(graph: Graph) -> tuple[Builder, dict[str, Any], list[Given]]:
    builder = Builder()
    builder.declared = dtypes_of(graph)
    builder.fresh("task")  # what the written logic imports
    env: dict[str, Any] = {}
    given: list[Given] = []
    for one in graph.inputs:
        name = builder.fresh(clean_name(one.name))
        kind = "prepared" if one.target.startswith(PREFIX) else "weight"
        kind = "input" if one.kind == "user_input" else kind
        shape = one.meta.shape or (1,)
        given.append(Given(name=name, kind=kind, shape=shape, dtype=one.meta.dtype))
        builder.dtypes[name] = one.meta.dtype
        if not storable(one.meta.dtype):
            builder.foreign[name] = one.meta.dtype
        view = View.of(name, shape)
        env[one.name] = view if one.meta.shape else view.reshape(())
    return builder, env, given


def _translated(graph: Graph, found: tuple[Part, ...]) -> Canon:
    builder, env, given = _start(graph)
    missing: list[Diagnostic] = []
    failed: dict[str, Node] = {}
    done = 0
    for item in in_order(graph, found) if found else graph.nodes:
        node = item.nodes[0] if isinstance(item, Part) else item
        builder.node = node
        try:
            if isinstance(item, Part):
                env.update(_opaque(builder, graph, item, env, {g.name: g.shape for g in given}))
                done += len(item.covers)
            else:
                env[node.name] = _node(builder, node, env)
                done += 1
        except NoForm as e:
            missing.append(_told(graph, node, str(e), tried=isinstance(item, Part)))
            failed |= _nodes(graph, item)
            env.update({n: _stand_in(builder, x) for n, x in _nodes(graph, item).items()})
    for name, why in _complex_results(graph, env).items():
        made = [n for n in graph.nodes if n.name == name and name not in failed]
        missing += [_told(graph, n, why) for n in made]
    if missing:
        total = len(graph.nodes)
        note = f"{done} of {total} nodes of Model can be imported"
        raise ConfigError([replace(d, notes=(note, *d.notes)) for d in missing[:10]])
    results = tuple(
        _result(builder, graph, o.value, env) for o in graph.outputs if _tensor(o.value)
    )
    if not results:
        raise _nothing(graph)
    return _alive(
        Canon(
            name=module_name(graph.file),
            file=graph.file,
            given=tuple(given),
            ops=tuple(builder.ops),
            results=results,
        )
    )


def _nodes(graph: Graph, item: Node | Part) -> dict[str, Node]:
    names = item.covers if isinstance(item, Part) else {item.name}
    return {n.name: n for n in graph.nodes if n.name in names}


def _opaque(
    builder: Builder,
    graph: Graph,
    part: Part,
    env: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, View]:
    """Return the results of an opaque leaf: one node for each, all of one text; operands are whole tensors."""
    random = [n for n in part.nodes if draws_numbers(n)]
    if random:
        raise NoForm(_NO_NUMBERS)
    if why := part.refusal(graph):
        raise NoForm(
            why if why.endswith("no kernel stores") else f"no Task Lang form yet, and {why}"
        )
    stored = dict(shapes) | {o.name: o.shape for o in builder.ops}
    ins: dict[str, View] = {}
    for name in part.reads:
        view = env[name]
        if not isinstance(view, View):
            raise NoForm(f"it reads {name}, which is no tensor here")
        if not view.whole(math.prod(stored[view.source])):
            view = builder.copy(view)
        ins[f"x{len(ins)}"] = view if view.shape else view.shaped((1,))
    text, metas = part.text(graph), {n.name: n.meta for n in part.nodes if not n.many}
    found = {}
    for at, name in enumerate(part.makes):
        meta = metas[name]
        made = builder.add(
            "extern",
            meta.shape or (1,),
            ins,
            name=name,
            dtype=meta.dtype,
            graph=text,
            result=at,
            reads=part.reads,
            operators=named(part),
        )
        found[name] = made if meta.shape else made.shaped(())
    return found


def _tensor(value: Any) -> bool:
    return isinstance(value, Ref)


def _nothing(graph: Graph) -> ConfigError:
    return ConfigError.of(
        "C150", f"{graph.file}: Model returns no tensor", Span(graph.file, 1), help=NOTHING_HELP
    )


_TAKEN = ("task", "torch", "math")
"""names that the written logic imports"""


def module_name(file: str) -> str:
    """Return the name of the operator that a module file is."""
    name = re.sub(r"\W+", "_", Path(file).stem).strip("_").lower() or "model"
    taken = name in _TAKEN or keyword.iskeyword(name)
    return f"m_{name}" if name[0].isdigit() or taken else name


def _node(builder: Builder, node: Node, env: Mapping[str, Any]) -> Any:
    if node.op == "getitem":
        source, index = node.args
        found = env[source.name]
        if isinstance(found, tuple) and found[index] is None:
            raise NoForm("this result of the operator is not computed by its Task Lang form")
        return found[index]
    name = base_name(node.op)
    if draws_numbers(node):
        raise NoForm(_NO_NUMBERS)
    if name not in STEPS:
        node = as_taken(node, builder.declared)
    _readable(builder, node, env)
    args = Args({k: _value(v, env) for k, v in node.named.items()})
    row = row_of(builder, node, args)
    if row is None:
        raise NoForm(f"no Task Lang form yet{closest(name, ROWS)}")
    for meta in node.results:
        if meta is not None and not (storable(meta.dtype) or is_complex(meta.dtype)):
            raise NoForm(f"dtype {meta.dtype}, which no kernel stores")
    line, args, back = as_line(name, node, args)
    found = back(row(builder, line, args))
    if isinstance(found, View | Pair) and not node.many and found.shape != node.meta.shape:
        raise NoForm(f"its form gives shape {found.shape}, torch {node.meta.shape}")
    return found


def _readable(builder: Builder, node: Node, env: Mapping[str, Any]) -> None:
    """Raise NoForm where a node reads an input or a weight of a dtype that no kernel has; rows tell complex ones."""
    for name in node.refs() if any(node.results) else ():  # what has none asserts
        view = env[name]
        dtype = builder.foreign.get(view.source, "") if isinstance(view, View) else ""
        if dtype and not is_complex(dtype):
            raise NoForm(f"{clean_name(name)} has dtype {dtype}, which no kernel stores")


def _value(value: Any, env: Mapping[str, Any]) -> Any:
    if isinstance(value, Ref):
        return env[value.name]
    if isinstance(value, tuple):
        return tuple(_value(v, env) for v in value)
    return value


def _stand_in(builder: Builder, node: Node) -> Any:
    """Return something of the right shape, so that the nodes behind a missing one are looked at."""
    views: list[View | Pair | None] = []
    for meta in node.results:
        if meta is None:
            views.append(None)
            continue
        views.append(_unknown(builder, f"missing_{node.name}", meta))
    return tuple(views) if node.many else views[0]


def _unknown(builder: Builder, name: str, meta: Meta) -> View | Pair:
    """Return a tensor that nothing computes; of a complex one both parts."""

    def one(dtype: str) -> View:
        fresh = builder.fresh(name)
        builder.dtypes[fresh] = dtype
        return View.of(fresh, meta.shape)

    wide = {"complex64": "float32", "complex128": "float64"}.get(meta.dtype)
    return Pair(one(wide), one(wide)) if wide else one(meta.dtype)


def nobodys(graph: Graph, node: Node, why: str) -> Diagnostic:
    """Return the diagnostic of a node that is neither a kernel's nor torch's: nobody could judge what it computes."""
    random = draws_numbers(node)
    unjudged = (
        ""
        if random or allowed(node.op)
        else "; the judge does not run it, so it is not torch's either"
    )
    return _told(graph, node, _NO_NUMBERS if random else why + unjudged, tried=True)


def draws_numbers(node: Node) -> bool:
    """Return whether an operator draws random numbers, by its name."""
    return _RANDOM.search(base_name(node.op)) is not None


def _told(graph: Graph, node: Node, why: str, *, tried: bool = False) -> Diagnostic:
    """Return the diagnostic of a node. tried: a writer or torch was to have it, and may not."""
    reads = []
    known = {i.name: i.meta for i in graph.inputs}
    known |= {n.name: n.results[0] for n in graph.nodes if not n.many and n.results[0]}
    for name in dict.fromkeys(node.refs()):
        meta = known.get(name)
        if meta is not None:
            reads.append(f"{clean_name(name)} {list(meta.shape)} {meta.dtype}")
    where = f" in {node.path}" if node.path else ""
    column, width = _place(graph.file, node.line, base_name(node.op))
    return Diagnostic(
        code="C152" if "random" in why else "C150",
        message=f"{base_name(node.op)}{where} ({node.name}): {why}",
        span=Span(graph.file, node.line or 1, column, width),
        notes=(f"this node reads {', '.join(reads)}",) if reads else (),
        help=(allowed(node.op) and _at_edge(graph)) or _help(node, why, tried),
    )


def _at_edge(graph: Graph) -> str:
    """Return what to do about inputs, weights or results of a module that no kernel can have, whoever writes it; "" where none is."""
    read = {name for n in graph.nodes for name in n.refs()}
    found = [(i.name, i.meta.dtype, "give the module") for i in graph.inputs if i.name in read]
    for output in graph.outputs:
        if isinstance(output.value, Ref):
            name = output.value.name
            found.append((name, graph.meta_of(name).dtype, "return"))
    for name, dtype, verb in found:
        if is_complex(dtype):
            other = f"torch.view_as_real of {clean_name(name)}"
        elif not storable(dtype):
            other = (
                f"{clean_name(name)} as int32"
                if "int" in dtype
                else f"{clean_name(name)} as float32"
            )
        else:
            continue
        return (
            f"{verb} {other}: no kernel reads or writes {dtype}, and no writer and no fallback changes that "
            '(from Python fallback="torch" leaves the whole module to torch)'
        )
    return ""


def _help(node: Node, why: str, tried: bool) -> str:
    if why != _NO_NUMBERS and allowed(node.op) and not tried:
        return (
            "`--writer llm` (or command:PROGRAM) lets a model write this part as one opaque leaf, which is judged as any "
            'other; `--fallback torch` (from Python fallback="torch") leaves this part to torch'
        )
    return (
        "write this part in Task Lang and pass the whole with --logic, or change the module; a kernel that you have "
        "for all of it is judged by `septran judge KERNEL --reference MODULE`"
    )


def _place(file: str, line: int, word: str) -> tuple[int, int]:
    """Return where on its line the operator is named: column and width."""
    try:
        text = Path(file).read_text(encoding="utf-8").splitlines()[line - 1]
    except (OSError, IndexError, UnicodeDecodeError):
        return 1, 1
    at = text.find(word)
    if at >= 0:
        return at + 1, len(word)
    return len(text) - len(text.lstrip()) + 1, max(1, len(text.strip()))


def _result(builder: Builder, graph: Graph, value: Ref, env: Mapping[str, Any]) -> View:
    found = env[value.name]
    builder.node = next(
        (n for n in graph.nodes if n.name == value.name), graph.nodes[-1] if graph.nodes else None
    )
    at = Span(graph.file, max(1, builder.node.line) if builder.node else 1)
    if isinstance(found, int | float):
        raise ConfigError.of("C150", f"{graph.file}: Model returns a constant", at)
    assert isinstance(found, View)
    if not found.elements:
        raise ConfigError.of("C150", f"{graph.file}: Model returns a tensor without elements", at)
    return found


def _alive(canon: Canon) -> Canon:
    """Return the canonical form without the nodes and weights that no result needs."""
    needed = {v.source for v in canon.results}
    ops: list[Op] = []
    for op in reversed(canon.ops):
        if needed.intersection(op.makes):
            ops.append(op)
            needed |= {v.source for v in op.ins.values()}
    kept = tuple(g for g in canon.given if g.name in needed)
    return replace(canon, ops=tuple(reversed(ops)), given=kept)
