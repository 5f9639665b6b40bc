"""Reading 1: run a task body on symbolic values and record its tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from septran.errors import SeptranError, TaskLangError, closest
from septran.ir.nodes import Prim
from septran.tasklang import extern, mapexpr
from septran.tasklang.api import PartitionOptions, current
from septran.tasklang.axes import checked_axis
from septran.tasklang.primitives import PRIMITIVES
from septran.tasklang.tree import AllocLocal, Elsewhere, Launch, Loop, Node, PrimCall, Task, Traced
from septran.tasklang.values import (
    VIEWS,
    Laid,
    Lit,
    LoopVar,
    Partition,
    Shift,
    SymInt,
    SymScalar,
    SymTensor,
    Tunable,
    caller_span,
    lift,
    loop_vars,
    mistake,
    root_name,
)


def trace(task: Task, ranks: Mapping[str, int]) -> Traced:
    """Return the tree of `task`; `ranks` gives each tensor parameter's rank, others are scalars.

    Raises:
        TaskLangError: E1xx of the body; E151 when the body raises an exception of its own.
    """
    if isinstance(task.fn, Elsewhere):
        return task.fn.trace(ranks)
    params: list[SymTensor | SymInt] = [
        SymTensor(p, ranks[p]) if p in ranks else SymScalar(p) for p in task.params
    ]
    reading = _Trace(task, params)
    token = current.set(reading)
    try:
        task.fn(*params)
    except SeptranError:
        raise
    except Exception as e:
        raise TaskLangError.of(
            "E151", f"task {task.name!r} raised {type(e).__name__}: {e}", _raised_at(e, task)
        ) from e
    finally:
        current.reset(token)
    if len(reading.stack) != 1:
        raise TaskLangError.of(
            "E104",
            f"{task.name}: a loop was left with break or return",
            reading.left[0] if reading.left else task.span,
            help="loops run over their whole range; bound the range instead",
        )
    return Traced(
        task=task,
        params=tuple(params),
        body=tuple(reading.stack[0]),
        tunables=tuple(dict.fromkeys(reading.tunables)),
    )


def _raised_at(e: Exception, task: Task) -> Any:
    from septran.errors import Span

    tb, place = e.__traceback__, task.span
    while tb is not None:
        if task.span is not None and tb.tb_frame.f_code.co_filename == task.span.file:
            place = Span(task.span.file, tb.tb_lineno)
        tb = tb.tb_next
    return place


def _per_dim(value: Any, rank: int, default: int) -> tuple[int, ...]:
    if value is None:
        return (default,) * rank
    if isinstance(value, int):
        return (value,) * rank
    items = tuple(default if v is None else v for v in value) if _several(value) else (value,)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int) or item < min(default, 1):
            raise mistake(
                "E115",
                f"window, stride, dilation and pad are integers of at least {default}, "
                f"found {item!r}",
            )
    if len(items) > rank:
        raise mistake("E116", f"{len(items)} entries for a tensor of {rank} dims")
    return items + (default,) * (rank - len(items))


def _several(value: Any) -> bool:
    return isinstance(value, tuple | list)


def check_layout(name: str, rank: int, kind: str, values: tuple[int | SymInt, ...]) -> None:
    """Raise TaskLangError E116 or E137 when a layout cannot be one of a tensor of `rank` dims."""
    given = len(values) // 3 if kind == "slice" else len(values)
    if kind != "reshape" and given != rank:
        raise mistake("E116", f"task.{kind} of {name} (rank {rank}) has {given} entries")
    numbers = [1 if isinstance(n, SymInt) else n for n in values]
    if kind == "permute" and sorted(numbers) != list(range(rank)):
        raise mistake("E137", f"task.permute of {name}: {list(values)} is no order of {rank} dims")
    low = numbers[given:] if kind == "slice" else numbers if kind == "reshape" else ()
    if any(n < 1 for n in low) or (kind == "slice" and any(n < 0 for n in numbers[:given])):
        raise mistake(
            "E137", f"task.{kind} of {name}: extents and steps are at least 1, offsets at least 0"
        )


class _Trace:
    """The recorder; one per traced task."""

    def __init__(self, task: Task, params: list[SymTensor | SymInt]) -> None:
        self.task = task
        self.names: dict[str, SymTensor | SymInt] = dict(zip(task.params, params, strict=True))
        self.stack: list[list[Node]] = [[]]
        self.open: set[str] = set()
        self.left: list[Any] = []
        self.tunables: list[str] = []
        self.count = 0

    def _view(self, value: Any, word: str) -> Any:
        if not isinstance(value, VIEWS):
            raise mistake("E124", f"{word} needs a tensor or a piece, got {type(value).__name__}")
        return value

    def partition(self, t: Any, options: PartitionOptions) -> Partition:
        base = self._view(t, "task.partition")
        rank = base.rank
        span = caller_span()

        def sized(values: Any) -> tuple[SymInt | None, ...] | None:
            if values is None:
                return None
            items = tuple(None if v is None else lift(v) for v in values)
            for item in items:
                if isinstance(item, Lit) and item.value < 1:
                    what = "parts" if values is options["parts"] else "sizes"
                    raise TaskLangError.of(
                        "E118",
                        f"{what} of a partition are at least 1, found {item.value}",
                        span,
                    )
            if len(items) > rank:
                raise TaskLangError.of(
                    "E116",
                    f"{root_name(base)} has {rank} dims but the partition names {len(items)}",
                    span,
                )
            return (*items, *(None for _ in range(rank - len(items))))

        source = options["shape_from"]
        if source is not None and not isinstance(source, str):
            source = root_name(self._view(source, "shape_from"))
        if source is not None and source not in self.names:
            raise TaskLangError.of(
                "E125",
                f"shape_from={source!r} is no tensor of {self.task.name}; "
                f"known: {sorted(self.names)}{closest(source, self.names)}",
                span,
            )
        parts = sized(options["parts"])
        return Partition(
            base=base,
            by=options["by"],
            sizes=sized(options["shape"]),
            shape_from=source,
            parts=None if parts is None else tuple(lift(1) if p is None else p for p in parts),
            window=_per_dim(options["window"], rank, 1),
            stride=_per_dim(options["stride"], rank, 1),
            dilation=_per_dim(options["dilation"], rank, 1),
            pad=_per_dim(options["pad"], rank, 0),
            fill=float(options["fill"]),
            span=span,
        )

    def shift(self, t: Any, offset: tuple[Any, ...], shape: tuple[Any, ...], stride: Any) -> Shift:
        base = self._view(t, "task.shift")
        for what, items in (("offset", offset), ("shape", shape)):
            if len(items) != base.rank:
                raise mistake(
                    "E116",
                    f"task.shift of {root_name(base)} (rank {base.rank}) has {len(items)} "
                    f"{what} entries",
                )
        return Shift(
            base,
            tuple(lift(o) for o in offset),
            tuple(lift(s) for s in shape),
            _per_dim(stride, base.rank, 1),
            caller_span(),
        )

    def laid(self, t: Any, kind: str, values: tuple[int | SymInt, ...]) -> Laid:
        base = self._view(t, f"task.{kind}")
        check_layout(root_name(base), base.rank, kind, values)
        return Laid(base, kind, values, caller_span())

    def loop(self, kind: str, extents: tuple[Any, ...]) -> Iterator[Any]:
        span = caller_span()
        letter = "i" if kind == "parallel" else "k"
        names = tuple(f"{letter}{self.count + d}" for d in range(len(extents)))
        self.count += len(extents)
        sizes = tuple(lift(e) for e in extents)
        body: list[Node] = []
        self.stack.append(body)
        self.open.update(names)
        variables = tuple(LoopVar(n) for n in names)
        try:
            yield variables[0] if len(variables) == 1 else variables
        except GeneratorExit:  # break or return; the innermost loop is closed first
            self.left.append(span)
            raise
        self.open.difference_update(names)
        self.stack.pop()
        self.stack[-1].append(
            Loop(
                "parallel" if kind == "parallel" else "sequential", names, sizes, tuple(body), span
            )
        )

    def launch(self, callee: Task, args: tuple[Any, ...]) -> None:
        span = caller_span()
        if self.task.leaf:
            raise TaskLangError.of(
                "E102", f"leaf task {self.task.name!r} may not launch {callee.name!r}", span
            )
        found: list[Any] = []
        for param, value in zip(callee.params, args, strict=True):
            if isinstance(value, bool):
                value = int(value)
            if isinstance(value, Partition):
                raise TaskLangError.of(
                    "E124",
                    f"{callee.name}: argument {param} is a whole partition; index it, e.g. "
                    f"{root_name(value.base)}p[i, j]",
                    span,
                )
            if isinstance(value, (*VIEWS, SymInt, float)):
                self._in_scope(callee, value, span)
                found.append(value)
            elif isinstance(value, int):
                found.append(lift(value))
            else:
                raise TaskLangError.of(
                    "E124",
                    f"{callee.name}: argument {param} is a {type(value).__name__}; "
                    "pass a tensor, a piece, an int or a float",
                    span,
                )
        self.stack[-1].append(Launch(callee, tuple(found), span))

    def _in_scope(self, callee: Task, value: Any, span: Any) -> None:
        """Raise E133 when an argument uses the variable of a loop that is over."""
        over = sorted(loop_vars(value) - self.open)
        if over and not self.left:
            raise TaskLangError.of(
                "E133",
                f"{callee.name}: loop variable {over[0]} is used outside its loop",
                span,
                help="launch inside the loop, or index with a number",
            )

    def tensor(self, name: str, shape: tuple[Any, ...], dtype: Any) -> SymTensor:
        span = caller_span()
        if not isinstance(dtype, str):
            dtype = f"like:{root_name(self._view(dtype, 'dtype'))}"
        if self.task.leaf:
            raise TaskLangError.of(
                "E114",
                f"leaf task {self.task.name!r} may not make tensor {name!r}",
                span,
                help="make it in the caller and pass it to the leaf",
            )
        made = SymTensor(name, len(shape), True, dtype)
        self.names[name] = made
        self.stack[-1].append(AllocLocal(made, tuple(lift(s) for s in shape), dtype, span))
        return made

    def tunable(self, name: str, default: int | None) -> Tunable:
        self.tunables.append(name)
        return Tunable(name, default, caller_span())

    def primitive(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        span = caller_span()
        if not self.task.leaf:
            raise TaskLangError.of(
                "E107",
                f"inner task {self.task.name!r} may not call primitive {name!r}",
                span,
                help="put it in a leaf task",
            )
        row = PRIMITIVES.get(name)
        if row is None:
            raise TaskLangError.of(
                "E110", f"unknown primitive {name!r}{closest(str(name), PRIMITIVES)}", span
            )
        if len(args) != len(row.args) and (name != "extern" or not args):
            raise TaskLangError.of(
                "E106",
                f"primitive {name} takes {len(row.args)} tensors ({', '.join(row.args)}), "
                f"got {len(args)}",
                span,
            )
        for a in args:
            if not isinstance(a, SymTensor):
                raise TaskLangError.of(
                    "E113",
                    f"{self.task.name}: primitive {name} works on the leaf's own parameters, "
                    f"got {type(a).__name__}",
                    span,
                    help="cut pieces in the caller",
                )
        named, plain = _split_attrs(row.name, row.attrs, attrs, span)
        if name == "map":
            mapexpr.parse(str(attrs.get("expr", "")), [k for k, _ in named], span)
        if name == "extern":
            extern.check(plain, len(args) - 1, span)
        if "axis" in plain:
            plain["axis"] = checked_axis(name, plain["axis"], args[1].rank, span)
        self.stack[-1].append(
            PrimCall(
                Prim(
                    name=name,
                    out=args[0].name,
                    ins=tuple(a.name for a in args[1:]),
                    named=tuple(named),
                    attrs=tuple(sorted(plain.items())),
                ),
                span,
            )
        )


def _split_attrs(
    name: str, allowed: Mapping[str, bool], attrs: dict[str, Any], span: Any
) -> tuple[list[tuple[str, str]], dict[str, object]]:
    """Return (operands of map by name, plain attributes); raise E126 for a wrong attribute."""
    named: list[tuple[str, str]] = []
    plain: dict[str, object] = {}
    for key, value in attrs.items():
        if key in allowed:
            plain[key] = tuple(value) if isinstance(value, list) else value
        elif name == "map" and isinstance(value, SymTensor | SymScalar):
            named.append((key, value.name))
        elif name == "map" and isinstance(value, int | float):
            raise TaskLangError.of(
                "E126",
                f"map operand {key}={value!r} is a constant; write it in the expression",
                span,
            )
        else:
            raise TaskLangError.of(
                "E126",
                f"primitive {name} has no attribute {key!r}; it has {sorted(allowed)}"
                f"{closest(key, allowed)}",
                span,
            )
    missing = [k for k, needed in allowed.items() if needed and k not in plain]
    if missing:
        raise TaskLangError.of("E126", f"primitive {name} needs {missing[0]}=", span)
    ops = ["sum", "max", "min", "prod", *(["last"] if name == "scatter_acc" else [])]
    if "op" in plain and plain["op"] not in ops:
        among = f"{', '.join(ops[:-1])} or {ops[-1]}"
        raise TaskLangError.of("E126", f"{name}: op must be {among}, got {plain['op']!r}", span)
    if "value" in plain and not isinstance(plain["value"], int | float):
        raise TaskLangError.of(
            "E126", f"{name}: value must be a number, got {plain['value']!r}", span
        )
    return named, plain
