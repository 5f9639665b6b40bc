"""A batch norm behind a product of weights becomes part of these weights.

With scale = gamma / sqrt(running_var + eps): bn(x * w + b) = x * (w * scale) + (b - running_mean) * scale + beta, one scale for
each channel that the product makes. What computes the new weight and bias reads the module's own tensors alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from septran.aten.evaluate import base_name
from septran.aten.graph import Graph, Meta, Node, Ref
from septran.frontend.table import clean_name

_NORMS = ("batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
_PRODUCTS = {
    "linear": 0,
    "conv1d": 0,
    "conv2d": 0,
    "conv3d": 0,
    "conv_transpose1d": 1,
    "conv_transpose2d": 1,
    "conv_transpose3d": 1,
}
"""Product -> the axis of its weight that counts the channels it makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A graph with batch norms in their weights. done: what was folded into what; kept: what was not, and why."""

    graph: Graph
    done: tuple[str, ...]
    kept: tuple[str, ...]


class _Kept(Exception):
    """Why a batch norm stays as it is."""


def fold_norms(graph: Graph, constants: frozenset[str]) -> Folded:
    """Return the graph with each batch norm in the weights of the product before it, where that is the same function.

    constants: inputs that the module does not change, and what is computed of these alone.
    """
    nodes = {n.name: n for n in graph.nodes}
    users: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in set(node.refs()):
            users.setdefault(name, []).append(node)
    results = {o.value.name for o in graph.outputs if isinstance(o.value, Ref)}
    metas = {i.name: i.meta for i in graph.inputs}
    metas |= {n.name: n.meta for n in graph.nodes if n.name in constants}
    taken = set(metas) | set(nodes)
    new: dict[str, tuple[Node, ...]] = {}
    done: list[str] = []
    kept: list[str] = []
    for norm in graph.nodes:
        if base_name(norm.op) not in _NORMS:
            continue
        told = norm.path or norm.name
        try:
            product = _product(norm, nodes, users, results)
            _constant(norm, product, constants, metas)
            last = _result(norm, users, results)
        except _Kept as why:
            kept.append(f"{told}: {why}")
            continue
        new[product.name] = new[norm.name] = ()
        new[last.name] = _written(norm, product, last, metas, taken)
        done.append(f"{told} into the weight and bias of {product.path or product.name}")
    kept_nodes = (n for old in graph.nodes for n in new.get(old.name, (old,)))
    return Folded(graph=replace(graph, nodes=tuple(kept_nodes)), done=tuple(done), kept=tuple(kept))


def _product(
    norm: Node,
    nodes: Mapping[str, Node],
    users: Mapping[str, list[Node]],
    results: set[str],
) -> Node:
    """Return what makes the batch norm's input; raises _Kept where its weights cannot take the norm."""
    source = norm.named.get("input", norm.named.get("self"))
    product = nodes.get(source.name) if isinstance(source, Ref) else None
    if norm.named.get("training"):
        raise _Kept("it uses the statistics of the batch")
    if product is None or base_name(product.op) not in _PRODUCTS:
        raise _Kept("no convolution or linear layer makes what it reads")
    if len(users[product.name]) > 1 or product.name in results:
        raise _Kept(f"others read {product.name}, too")
    name = base_name(product.op)
    if name == "linear" and len(product.meta.shape) != 2:
        raise _Kept(f"its channels are not those that {product.name} makes")
    if _PRODUCTS[name] and product.named.get("groups", 1) != 1:
        raise _Kept(f"{product.name} has groups, whose channels lie in two axes of its weight")
    return product


def _constant(
    norm: Node, product: Node, constants: frozenset[str], metas: Mapping[str, Meta]
) -> None:
    """Raise _Kept unless all that the new weights are computed of is the module's own, in float32 or wider."""
    read = [product.named.get(k) for k in ("weight", "bias")]
    read += [norm.named.get(k) for k in ("weight", "bias", "running_mean", "running_var")]
    if norm.named.get("running_mean") is None or norm.named.get("running_var") is None:
        raise _Kept("it has no running statistics")
    for value in read:
        if value is None:
            continue
        if not isinstance(value, Ref) or value.name not in constants:
            raise _Kept(f"{getattr(value, 'name', value)} is no tensor of the module's own")
        if metas[value.name].dtype not in ("float32", "float64"):
            raise _Kept(f"{value.name} is {metas[value.name].dtype}: it would be rounded once more")


def _result(norm: Node, users: Mapping[str, list[Node]], results: set[str]) -> Node:
    """Return the node that stands for the norm's result; raises _Kept where its statistics are read."""
    if not norm.many:
        return norm
    readers = users.get(norm.name, [])
    if len(readers) != 1 or readers[0].op != "getitem" or readers[0].args[1] != 0:
        raise _Kept("its statistics are read, too")
    return readers[0]


def _written(
    norm: Node, product: Node, last: Node, metas: Mapping[str, Meta], taken: set[str]
) -> tuple[Node, ...]:
    """Return the nodes that make the new weight and bias, and the product with these, which is called as the norm's result."""
    made = _Chain(norm, taken)
    named = norm.named
    weight, axis = product.named["weight"], _PRODUCTS[base_name(product.op)]
    whole = metas[weight.name]
    channels = Meta(shape=(whole.shape[axis],), dtype=whole.dtype)
    spread = made.add(
        "rsqrt.default",
        channels,
        self=made.add("add.Scalar", channels, self=named["running_var"], other=named["eps"]),
    )
    gamma, beta = named.get("weight"), named.get("bias")
    scale = spread if gamma is None else made.add("mul.Tensor", channels, self=spread, other=gamma)
    along = tuple(n if k == axis else 1 for k, n in enumerate(whole.shape))
    wide = made.add(
        "reshape.default", Meta(shape=along, dtype=whole.dtype), self=scale, shape=along
    )
    folded = made.add("mul.Tensor", whole, called="weight", self=weight, other=wide)
    bias, mean = product.named.get("bias"), named["running_mean"]
    centred = (
        made.add("neg.default", channels, self=mean)
        if bias is None
        else made.add("sub.Tensor", channels, self=bias, other=mean)
    )
    if beta is None:
        shift = made.add("mul.Tensor", channels, called="bias", self=centred, other=scale)
    else:
        moved = made.add("mul.Tensor", channels, self=centred, other=scale)
        shift = made.add("add.Tensor", channels, called="bias", self=moved, other=beta)
    own = replace(
        product,
        name=last.name,
        named={**product.named, "weight": folded, "bias": shift},
    )
    return (*made.nodes, own)


class _Chain:
    """Nodes one behind another, with names of their own and the batch norm's place in the user's file."""

    def __init__(self, norm: Node, taken: set[str]) -> None:
        self.nodes: list[Node] = []
        self._norm, self._taken = norm, taken

    def add(self, op: str, meta: Meta, /, called: str = "", **named: Any) -> Ref:
        """Add a node; return its result. called: what it is, where its operator does not say it."""
        what = f"folded_{called}" if called else op.partition(".")[0]
        whose = clean_name((self._norm.path or self._norm.name).replace(".", "_"))
        # the second part of an nn.Sequential is called "1"
        stem = f"{'m_' if whose[0].isdigit() else ''}{whose}_{what}"
        name, number = stem, 1
        while name in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name)
        self.nodes.append(
            Node(
                name=name,
                op=f"aten.{op}",
                args=(),
                named=named,
                results=(meta,),
                many=False,
                line=self._norm.line,
                path=self._norm.path,
            )
        )
        return Ref(name)
