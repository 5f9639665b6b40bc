"""Static check of NPUIR source: names and shapes of calls that the real dialect would refuse."""

from __future__ import annotations

import ast

VECTOR_OPS = frozenset(
    f"v{n}"
    for n in (
        "add sub mul div max min pow exp ln sqrt abs tanh erf cast brc cmp select relu rsqrt rec "
        "sigmoid sin cos not and or xor shl shr exp2 log2 clamp"
    ).split()
)
NAMES = VECTOR_OPS | frozenset(
    (
        "prim_func macro Tensor Kernel Scope rs alloc_ub alloc_L1 alloc_L0A alloc_L0B alloc_L0C "
        "alloc_shared alloc_fragment alloc_var copy load_nd2nz store_fixpipe store_nz2nd gemm clear "
        "fill transpose reduce reduce_sum reduce_max reduce_min arange reshape cumsum serial "
        "concat interleave deinterleave pad flip gather "
        "Pipelined Parallel ceildiv min max infinity set_flag wait_flag pipe_barrier block_barrier "
        "subblock_barrier sync_block_set sync_block_wait float32 float16 bfloat16 int32 int8"
    ).split()
)
"""What `T` has in tilelang-mlir-ascend, as far as kernels here may use it."""


def dialect_errors(source: str) -> tuple[str, ...]:
    """Return one line per construct the dialect does not have."""
    found: list[str] = []
    tree = ast.parse(source)
    for fn in (n for n in tree.body if isinstance(n, ast.FunctionDef)):
        _Checker(found).visit(fn)
    return tuple(dict.fromkeys(found))


class _Checker(ast.NodeVisitor):
    def __init__(self, found: list[str]) -> None:
        self.found = found
        self.depth = 0

    def say(self, node: ast.AST, text: str) -> None:
        self.found.append(f"line {getattr(node, 'lineno', 0)}: {text}")

    def nested(self, node: ast.For | ast.If) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_For(self, node: ast.For) -> None:
        self.nested(node)

    def visit_If(self, node: ast.If) -> None:
        self.nested(node)

    def visit_While(self, node: ast.While) -> None:
        self.say(node, "while loops do not exist; use T.serial")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id == "T" and node.attr not in NAMES:
            self.say(node, f"T.{node.attr} does not exist in the NPUIR dialect")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name.startswith("alloc_") and self.depth:
            self.say(node, f"T.{name} inside a loop or branch; allocate at the top of the kernel")
        if name == "Kernel" and not any(k.arg == "is_npu" for k in node.keywords):
            self.say(node, "T.Kernel needs is_npu=True")
        if name == "store_fixpipe" and not any(k.arg == "enable_nz2nd" for k in node.keywords):
            self.say(node, "T.store_fixpipe needs enable_nz2nd=True for row-major results")
        if name in VECTOR_OPS and any(_dynamic(a) for a in node.args):
            self.say(node, f"T.{name}: slices of vector operands must be static")
        self.generic_visit(node)


def _dynamic(node: ast.expr) -> bool:
    if not isinstance(node, ast.Subscript):
        return False
    return any(
        isinstance(n, ast.Slice)
        and any(b is not None and not isinstance(b, ast.Constant) for b in (n.lower, n.upper))
        for n in ast.walk(node.slice)
    )
