"""Products of 16-bit numbers that read what the module computed: a kernel may round that to 16 bits before.

Tensor cores take 16-bit operands only, and torch itself stores such a tensor in 16 bits: attention's probabilities, a
hidden layer, the state of linear attention. That holds too where a reference computes in float32 what it was given in 16
bits: the other operand is one that was given, or all that was given is. How much one such rounding moves a product is the
product of the sizes, which `magnitude` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from septran.aten.evaluate import EXACT, base_name, run_graph, runner
from septran.aten.graph import Graph, Node, Ref, names_in
from septran.ir.dtypes import DTYPES, FLOATS, HALVES

if TYPE_CHECKING:
    import torch

_ADDED: Mapping[str, str] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "inner", "einsum"), ""),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), "self"),
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "convolution"), "bias"),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), "bias"),
}
"""product -> the argument that is added, no operand"""
_LINEAR = frozenset(
    """
    add alias broadcast_tensors cat chunk clone constant_pad_nd contiguous copy cumsum detach diag diag_embed diagonal div
    expand expand_as flatten flip gather getitem index index_copy index_put index_select lift_fresh_copy masked_fill mean
    movedim mul narrow neg new_full new_ones new_zeros ones ones_like pad permute repeat repeat_interleave reshape roll
    scatter scatter_add select select_scatter slice slice_scatter split split_with_sizes squeeze stack sub sum swapaxes
    swapdims t tile to transpose tril triu type_as unbind unflatten unfold unsafe_view unsqueeze view view_as where zeros
    zeros_like _assert_tensor_metadata _to_copy _unsafe_view
    """.split()
) | frozenset(_ADDED)
"""operators that are linear in each tensor of floats that they read; div: in the first"""
_DRAWS, _STEP, _OFF = 8, 2.0**-20, 2.0
_ATTENTION = "scaled_dot_product_attention"


@dataclass(frozen=True, slots=True)
class _Held:
    """A product whose operands `computed` may be rounded to `dtype`."""

    node: Node
    computed: frozenset[str]
    dtype: str


def _found(graph: Graph) -> list[_Held]:
    """Return the 16-bit products one of whose operands is itself rounded; attention's second one always is."""
    given = {i.name: i.meta.dtype for i in graph.inputs if i.meta.dtype in FLOATS}
    all_given = set(given.values())
    all_half = bool(all_given) and all_given <= set(HALVES)
    least = min(all_given, key=lambda d: DTYPES[d].digits) if all_half else ""
    computed: set[str] = set()
    exact = {name: dtype for name, dtype in given.items() if dtype in HALVES}
    summed = set(_summed_products(graph))
    found = []
    for node in graph.nodes:
        name = base_name(node.op)
        operands = set(_operands(node, name))
        read = computed.intersection(operands)
        of_given = [exact[one] for one in sorted(operands) if one in exact]
        meta = node.results[0] if node.results else None
        dtype = meta.dtype if meta is not None else ""
        if dtype in FLOATS and dtype not in HALVES:
            dtype = of_given[0] if of_given else least
        is_product = name in _ADDED or node.name in summed
        if dtype in HALVES and (name == _ATTENTION or (is_product and read)):
            found.append(_Held(node, frozenset(read), dtype))
        reads = set(node.refs())
        if name not in EXACT or computed & reads:
            computed.add(node.name)
        elif len(reads) == 1 and (only := exact.get(*reads)):
            exact[node.name] = only
    return found


def _operands(node: Node, name: str) -> Iterator[str]:
    """Yield what a node multiplies (all that it reads, but what a product adds)."""
    added = _ADDED.get(name)
    for key, value in node.named.items():
        if key != added:
            yield from names_in(value)


def _summed_products(graph: Graph) -> Iterator[str]:
    """Yield multiplications that only a sum reads and one of whose operands is the same along a dim that the sum keeps.

    That is a product of matrices in other words. A sum of squares or of a dot product's terms has no such dim: nothing multiplies those in 16 bits.
    """
    nodes = {node.name: node for node in graph.nodes}
    shapes = {one.name: one.meta.shape for one in graph.inputs}
    shapes |= {n.name: n.meta.shape for n in graph.nodes if n.results and n.results[0] is not None}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.refs():
            readers.setdefault(name, []).append(node)
    for name, node in nodes.items():
        of = readers.get(name, [])
        factors = [node.named.get(key) for key in ("self", "other")]
        if base_name(node.op) != "mul" or len(of) != 1 or base_name(of[0].op) != "sum":
            continue
        if not all(isinstance(one, Ref) for one in factors):
            continue
        rank = len(shapes[name])
        dims = of[0].named.get("dim")
        gone = (
            {d % rank for d in dims}
            if isinstance(dims, tuple) and dims and rank
            else set(range(rank))
        )
        for one in factors:
            shape = shapes.get(getattr(one, "name", ""), ())
            full = (1,) * (rank - len(shape)) + tuple(shape)
            if any(full[d] == 1 != shapes[name][d] for d in range(rank) if d not in gone):
                yield name
                break


def storage_roundings(graph: Graph, dtype: str) -> int:
    """Return how many roundings of a result's dtype those of 16-bit operands are worth: of as many products as follow one another.

    dtype: of the result.
    """
    found = _found(graph)
    if not found or dtype not in DTYPES or not DTYPES[dtype].digits:
        return 0
    held = {one.node.name for one in found}
    depth: dict[str, int] = {}
    for node in graph.nodes:
        depth[node.name] = (node.name in held) + max(
            (depth.get(n, 0) for n in node.refs()), default=0
        )
    fewest = min(DTYPES[one.dtype].digits for one in found)
    most = max(
        depth[o.value.name]
        for o in graph.outputs
        if isinstance(o.value, Ref) and o.value.name in depth
    )
    return most << max(0, DTYPES[dtype].digits - fewest)


def magnitude(graph: Graph, values: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Return the graph's results where each of these products is of absolute values.

    A computed operand counts as no smaller than the smallest normal number of its dtype: below it, 16 bits are as far apart as there.
    Of a product of three factors and more each pair may be multiplied first, and is then what is rounded: see `_of_any_pair`.
    """
    held = _found(graph)
    found = run_graph(graph, values, forced={one.node.name: _absolute(one) for one in held})
    factors = _factors(graph, held)
    if not factors:
        return found
    more = _of_any_pair(graph, values, factors)
    return tuple(f + m if f.is_floating_point() else f for f, m in zip(found, more, strict=True))


def _factors(graph: Graph, held: list[_Held]) -> frozenset[str]:
    """Return the inputs that all results are linear in, where a held product's computed operand is made of such; none else.

    The result is then a sum of products of three factors or more, and whoever computes it may choose which two are multiplied first:
    (q k) v with a mask, or q (k v) with a state, as linear attention has it.
    """
    of: dict[str, frozenset[str]] = {i.name: frozenset((i.name,)) for i in graph.inputs}
    bent: set[str] = set()
    for node in graph.nodes:
        name = base_name(node.op)
        read = {n: of.get(n, frozenset()) for n in node.refs()}
        of[node.name] = frozenset().union(*read.values())
        if name == "div":
            bent |= frozenset().union(*(of[n] for n in names_in(node.named.get("other"))))
        elif name not in _LINEAR:
            bent |= of[node.name]
    straight = {i.name for i in graph.inputs if i.meta.dtype in HALVES} - bent
    chains = any(of[n] & straight for one in held for n in one.computed)
    return frozenset(straight if chains else ())


def _of_any_pair(
    graph: Graph, values: Mapping[str, torch.Tensor], factors: frozenset[str]
) -> list[torch.Tensor]:
    """Return how far results move, by the root of the mean square, where the elements of `factors` go up or down by themselves.

    A pair that is rounded moves a result as its third factor's elements do that are off by as much. Errors of many roundings add up
    as random ones do: twice that is allowed.
    """
    import torch

    before = [r.to(torch.float64) for r in run_graph(graph, values)]
    squares = [torch.zeros_like(r) for r in before]
    ways = torch.Generator().manual_seed(_DRAWS)
    for _ in range(_DRAWS):
        moved = {
            n: v
            * (1 + _STEP * (2 * torch.randint(0, 2, v.shape, generator=ways, dtype=v.dtype) - 1))
            if n in factors
            else v
            for n, v in values.items()
        }
        for total, one, result in zip(squares, before, run_graph(graph, moved), strict=True):
            total += ((result - one) / _STEP) ** 2
    return [_OFF * (total / _DRAWS).sqrt() for total in squares]


def _absolute(held: _Held) -> Callable[[Mapping[str, Any]], Any]:
    import torch

    node, computed = held.node, held.computed
    least = torch.finfo(getattr(torch, held.dtype)).tiny
    run = runner(node)

    def attention(given: Mapping[str, Any]) -> Any:
        import torch.nn.functional as F

        grouped, value = bool(given.get("enable_gqa")), given["value"].abs()
        found = F.scaled_dot_product_attention(
            given["query"],
            given["key"],
            value,
            given.get("attn_mask"),
            0.0,
            bool(given.get("is_causal")),
            scale=given.get("scale"),
            enable_gqa=grouped,
        )
        small = value.sum(-2, keepdim=True) * least
        if grouped:
            small = small.repeat_interleave(found.shape[-3] // small.shape[-3], -3)
        return found + small

    def product(given: Mapping[str, Any]) -> Any:
        sizes: dict[str, Any] = {}
        for key, value in node.named.items():
            for name, tensor in _with_names(value, given[key]):
                size = tensor.abs()
                sizes[name] = size.clamp_min(least) if name in computed else size
        return run(sizes, next(iter(sizes.values())).dtype)

    return attention if base_name(node.op) == _ATTENTION else product


def _with_names(value: object, given: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Ref):
        yield value.name, given
    elif isinstance(value, tuple):
        for one, its in zip(value, given, strict=True):
            yield from _with_names(one, its)
