"""A mapping: which processor runs each task, which memory holds each tensor, and the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.errors import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Tune:
    """`!tune {type: choice, values: [...]}` and friends: a value left to the tuner.

    default: what is taken until then, in a policy also an expression; None: there is none.
    """

    kind: str
    values: tuple[object, ...]
    default: object | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What runs a leaf: a leaf kernel's name, "auto" or "agent", and operand memories (param -> mem)."""

    kernel: str | Tune = "auto"
    mems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One task at one processor level."""

    name: str
    task_name: str
    proc: str
    mems: Mapping[str, str] = field(default_factory=dict)
    tunables: Mapping[str, object] = field(default_factory=dict)
    tiles: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    calls: Mapping[str, str] = field(default_factory=dict)
    leaf_task_bindings: Mapping[str, Binding] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    """pipeline, warpspecialize, threads, smem_limit, layouts, swizzle, vectorize, unroll, math."""
    choices: Mapping[str, tuple[object, ...]] = field(default_factory=dict, compare=False)
    """tunable or option -> the values that a tuner may try in its place."""
    spans: Mapping[tuple[str | int, ...], Span] = field(default_factory=dict)
    """key path below the instance -> place of the value."""
    key_spans: Mapping[tuple[str | int, ...], Span] = field(default_factory=dict)
    """key path below the instance -> place of the key."""

    def span(self, *path: str | int) -> Span | None:
        """Return the place of the value at a key path, or of its nearest recorded parent's key."""
        return self.spans.get(path) if path in self.spans else self.key_span(*path)

    def key_span(self, *path: str | int) -> Span | None:
        """Return the place of the key at a key path, or of its nearest recorded parent."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.key_spans:
                return self.key_spans[path[:end]]
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafKernelFile:
    """A user's leaf kernel declared in the mapping (`leaf_kernels:`)."""

    name: str
    dsl: str
    symbol: str
    source: str
    mems: Mapping[str, str] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitMapping:
    """The seeds' form: an entry instance and a tree of instances."""

    file: str
    target: str | None
    arch: str | None
    entrypoint: str
    instances: Mapping[str, Instance]
    leaf_kernels: Mapping[str, LeafKernelFile] = field(default_factory=dict)
    constraints: tuple[tuple[str, Span | None], ...] = ()
    target_span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One policy rule; the first whose match holds decides a leaf.

    primitives: any of these in the leaf ("*" = any leaf). dtypes: of the leaf's first read operand
    (() = any). mems: operand role -> memory; roles a, b (gemm operands), in, out, halo. tiles: role
    -> size (int, expression text or Tune); roles m n k lead line block (gemm), kept reduced (reduce; kept_inner
    for a kept last axis, else kept), inner outer (the rest; of a transposition read_inner and written_inner, else inner). options: as Instance.options.
    """

    primitives: tuple[str, ...]
    dtypes: tuple[str, ...]
    when: tuple[str, ...]
    kernel: object
    mems: Mapping[str, str]
    tiles: Mapping[str, object]
    options: Mapping[str, object]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How a target maps any operator.

    grid: processor level of the outermost parallel tiles. locals: use -> memory for tensors a task
    makes itself; uses gemm.out, gemm.in, default. halo: memory windows with padding are staged in.
    deterministic: one of DETERMINISTIC, "" for none.
    smaller: caps on tile roles and pipeline depth, one set after the other, for when a memory is too small.
    """

    file: str
    target: str
    arch: str | None
    grid: str
    locals: Mapping[str, str]
    halo: str
    rules: tuple[Rule, ...]
    options: Mapping[str, object] = field(default_factory=dict)
    deterministic: str = ""
    constraints: tuple[tuple[str, Span | None], ...] = ()
    smaller: tuple[Mapping[str, int], ...] = ()
    target_span: Span | None = field(default=None, compare=False)
    grid_span: Span | None = field(default=None, compare=False)
    spans: Mapping[tuple[str | int, ...], Span] = field(default_factory=dict, compare=False)
    """key path below `policies:` -> place of the value."""


ROLES = (
    "m", "n", "k", "lead", "line", "kept", "kept_inner", "reduced",
    "inner", "outer", "read_inner", "written_inner",
)  # fmt: skip
"""What a dimension is to a primitive."""
TILE_ROLES = (*ROLES, "block")
"""What a rule gives sizes for; block: one tunable that cuts m, n and k."""
OPERANDS = ("a", "b", "in", "out")
"""What an operand is to a primitive; a and b are a product's."""
LOCALS = ("gemm.out", "gemm.in", "default")
"""The uses of a tensor that a task makes itself."""
OPTION_WORDS: Mapping[str, tuple[str, ...]] = {
    "math": ("tf32", "mma", "wgmma", "winograd"),
    "schedule": ("static", "dynamic", "guided"),
}
"""Options whose values are words."""
DETERMINISTIC = ("batch-invariant",)
"""What a policy can promise about bits: a row's do not depend on the number of rows, on threads or on tiles."""
OPTION_KEYS = (
    "pipeline",
    "warpspecialize",
    "threads",
    "smem_limit",
    "layouts",
    "swizzle",
    "vectorize",
    "unroll",
    "math",
    "schedule",
)
