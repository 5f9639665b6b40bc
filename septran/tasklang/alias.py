"""Whether two views of one tensor are the same piece, or share elements whatever the sizes are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from septran.errors import Diagnostic
from septran.ir.nodes import Privilege
from septran.tasklang import values
from septran.tasklang.tree import Launch, PrimCall, Traced

HELP = "write to another tensor, or give the task one parameter that it reads and writes"
_POINTWISE = ("fill", "copy", "map")


def same_view(a: values.View, b: values.View) -> bool:
    """Return whether two views are surely the same piece; pieces of equal partitions count."""
    if a is b:
        return True
    if isinstance(a, values.Piece) and isinstance(b, values.Piece):
        return same_partition(a.partition, b.partition) and _same_ints(a.index, b.index)
    if isinstance(a, values.Laid) and isinstance(b, values.Laid):
        alike = a.kind == b.kind and _same_ints(
            *([values.lift(v) for v in one.values] for one in (a, b))
        )
        return alike and same_view(a.base, b.base)
    return False


def same_partition(a: values.Partition, b: values.Partition) -> bool:
    """Return whether two partitions surely cut the same tensor in the same way."""
    return a is b or (
        same_view(a.base, b.base)
        and (a.by, a.shape_from, a.window, a.stride, a.dilation, a.pad, a.fill)
        == (b.by, b.shape_from, b.window, b.stride, b.dilation, b.pad, b.fill)
        and _same_ints(a.sizes, b.sizes)
        and _same_ints(a.parts, b.parts)
    )


def _same_ints(
    a: Sequence[values.SymInt | None] | None, b: Sequence[values.SymInt | None] | None
) -> bool:
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(same_int(x, y) for x, y in zip(a, b, strict=True))


def same_int(a: values.SymInt | None, b: values.SymInt | None) -> bool:
    """Return whether two symbolic integers are surely equal."""
    match a, b:
        case (None, None):
            return True
        case (values.Lit(), values.Lit()):
            return a.value == b.value
        case (
            (values.LoopVar(name=x), values.LoopVar(name=y))
            | (values.Tunable(name=x), values.Tunable(name=y))
            | (values.SymScalar(name=x), values.SymScalar(name=y))
        ):
            return bool(x == y)
        case (values.DimOf(), values.DimOf()):
            return a.axis == b.axis and same_view(a.view, b.view)
        case (values.GridOf(), values.GridOf()):
            return a.axis == b.axis and same_partition(a.partition, b.partition)
        case (values.Arith(), values.Arith()):
            return a.op == b.op and same_int(a.a, b.a) and same_int(a.b, b.b)
    return a is b


def overlap(a: values.View, b: values.View) -> bool:
    """Return whether two views of one tensor share elements for every size; else bind decides.

    They do when one holds the other, and when both hold the tensor's first element in the first
    iteration of all loops.
    """
    if any(same_view(a, c) for c in _holders(b)) or any(same_view(b, c) for c in _holders(a)):
        return True
    return _at_origin(a) and _at_origin(b)


def _holders(view: values.View) -> Iterator[values.View]:
    yield view
    while not isinstance(view, values.SymTensor):
        view = view.partition.base if isinstance(view, values.Piece) else view.base
        yield view


def _at_origin(view: values.View) -> bool:
    match view:
        case values.SymTensor():
            return True
        case values.Shift():
            return all(map(_zero, view.offset)) and _at_origin(view.base)
        case values.Laid():
            first = view.values[: view.rank] if view.kind == "slice" else ()
            return not any(first) and _at_origin(view.base)
        case values.Piece():
            return all(map(_zero, view.index)) and _at_origin(view.partition.base)


def _zero(value: values.SymInt | None) -> bool:
    """Return whether an index is surely 0 in the first iteration of all loops."""
    match value:
        case None | values.LoopVar():
            return True
        case values.Lit():
            return value.value == 0
        case values.Arith() if value.op == "*":
            return _zero(value.a) or _zero(value.b)
        case values.Arith() if value.op in ("//", "%"):
            return _zero(value.a)
        case values.Arith():
            return _zero(value.a) and _zero(value.b)
    return False


def aliased(
    launch: Launch, accesses: Sequence[tuple[str, values.View, Privilege]]
) -> Iterator[Diagnostic]:
    """Yield E134 when `launch` passes shared elements under two names and writes one of them."""
    for at, (one, view, privilege) in enumerate(accesses):
        for two, other, also in accesses[at + 1 :]:
            if values.root(view) is not values.root(other) or "w" not in privilege + also:
                continue
            if overlap(view, other):
                yield alias_problem(
                    launch,
                    *(
                        ((one, view), (two, other))
                        if "w" in privilege
                        else ((two, other), (one, view))
                    ),
                )


def alias_problem(
    launch: Launch, written: tuple[str, values.View], other: tuple[str, values.View]
) -> Diagnostic:
    """Return E134 for the (parameter, view) that is written and the one it shares elements with."""
    (w, at), (r, also) = written, other
    return Diagnostic(
        code="E134",
        message=f"{launch.task.name} writes {w} = {values.view_text(at)}, and {r} = {values.view_text(also)} is "
        + ("the same piece" if same_view(at, also) else "partly the same memory"),
        span=launch.span,
        help=HELP,
    )


def in_place(traced: Traced) -> Iterator[Diagnostic]:
    """Yield E134 for a primitive of a leaf that reads its output at other positions than it writes."""
    for node in traced.walk():
        if not isinstance(node, PrimCall) or node.prim.name in _POINTWISE:
            continue
        if node.prim.out in node.prim.ins:
            yield Diagnostic(
                code="E134",
                message=f"{traced.task.name}: {node.prim.name} reads {node.prim.out} while it "
                "writes it",
                span=node.span,
                help="write to another tensor, and copy it back when that is wanted",
            )
