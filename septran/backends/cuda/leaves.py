"""The cuda_c library's leaves: CUDA C++ for any list of primitives, run by all threads of a block.

`library_leaf` turns a LeafSpec into one short function over the parts in runtime/: pointwise
primitives become `st::each` loops, products and reductions calls of the block-wide routines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from septran.backends.cuda.dialect import dialect
from septran.backends.cuda.passes.place_fragments import GEMMS, MOVEMENT, Grid, flat
from septran.backends.cuda.passes.wgmma import PANELS
from septran.backends.cuda.spelling import QUICK, SPELLING, literal
from septran.backends.text.cstyle import identifier
from septran.backends.text.spell import spell
from septran.errors import InternalError, Unsupported
from septran.ir.dtypes import HALVES, is_float
from septran.ir.masks import changes_something
from septran.ir.nodes import Prim
from septran.ir.scalar import COMPARISONS, Index, Name, Op, walk
from septran.kernel import Leaf, LeafParam, LeafSpec

_OPS = {"sum": "st::Sum", "prod": "st::Prod", "max": "st::Max", "min": "st::Min"}
_INDEX = "ijklmnpqu"
_STEPS = frozenset(
    {*COMPARISONS, "floor", "ceil", "round", "trunc", "fmod", "%", "//", "int", "int64"}
)
"""Operations that make much of little: what they are given is exact to the last digit."""
WARPGROUPS = "gemm_leaf_wgmma"
"""Name of a leaf whose product warpgroups multiply."""
_PRODUCTS = {
    "mma": "gemm_leaf_tensorcore",
    "mfma": "gemm_leaf_mfma",
    "wgmma": WARPGROUPS,
    "tf32": "gemm_leaf_tf32",
    "simt": "gemm_leaf_simt",
}


def fragment_type(word: str, grid: Grid, shape: tuple[int, ...]) -> str:
    """Return the C++ type of a tile in registers; word: its elements' type."""
    dims = ", ".join(map(str, shape))
    return f"st::Frag<{word}, {grid.text}, {dims}>"


def panels_type(word: str, shape: tuple[int, ...], *, writes: bool) -> str:
    """Return the C++ type of a tile in panels; word: its elements' type."""
    const = "" if writes else "const "
    rows, columns = flat(shape)
    return f"st::Panels<{const}{word}, {rows}, {columns}>"


def param_type(param: LeafParam, types: Mapping[str, str]) -> str:
    """Return the C++ type of a leaf's tensor parameter: a view, panels, or a fragment by reference."""
    word = types[param.dtype]
    grid = Grid.parse(param.layout)
    const = "const " if param.privilege == "r" else ""
    if param.layout == PANELS:
        return panels_type(word, param.shape, writes="w" in param.privilege)
    if grid is not None:
        return f"{const}{fragment_type(word, grid, param.shape)}&"
    return f"st::View<{const}{word}, {len(param.shape)}>"


def signature(spec: LeafSpec) -> str:
    """Return the declaration a leaf of `spec` has to define, without the body."""
    types = dialect(spec.backend).types
    parts = [f"{param_type(p, types)} {identifier(p.name)}" for p in spec.params]
    parts.extend(
        f"{'long' if kind == 'int' else 'float'} {identifier(name)}" for name, kind in spec.scalars
    )
    return f"ST_DEVICE void {spec.symbol}({', '.join(parts)})"


def library_leaf(spec: LeafSpec) -> Leaf:
    """Return the library's leaf for `spec`; every list of known primitives has one."""
    writer = _LeafText(spec)
    source = writer.text()
    return Leaf(spec=spec, writer="library", name=writer.name, source=source)


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


class _LeafText:
    """Prints one leaf."""

    def __init__(self, spec: LeafSpec) -> None:
        self.spec = spec
        self.types = dialect(spec.backend).types
        self.params = {p.name: p for p in spec.params}
        self.grids = {p.name: Grid.parse(p.layout) for p in spec.params}
        taken = {identifier(n) for n in (*self.params, *(n for n, _ in spec.scalars))}
        self.index = tuple(_unused(name, taken) for name in _INDEX)
        self.element = _unused("e", taken)
        self.lines: list[str] = []
        self.name = "rows_leaf_block"
        self.touched_read: set[str] = set()
        self.touched_write: set[str] = set()

    def text(self) -> str:
        """Return the function."""
        self.lines.append(f"{signature(self.spec)} {{")
        for prim in self.spec.prims:
            self._barrier(prim)
            self._prim(prim)
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def _add(self, text: str) -> None:
        self.lines.append(f"    {text}")

    def _barrier(self, prim: Prim) -> None:
        """Order this primitive after earlier ones of the leaf that touch the same memory."""
        reads = {p for p in (*prim.ins, *(v for _, v in prim.named)) if p in self.params}
        if prim.name.endswith("_acc"):
            reads.add(prim.out)
        reads = {p for p in reads if self.grids[p] is None}
        writes = {prim.out} if self.grids[prim.out] is None else set()
        if reads & self.touched_write or writes & (self.touched_read | self.touched_write):
            self._add("__syncthreads();")
            self.touched_read, self.touched_write = set(), set()
        self.touched_read |= reads
        self.touched_write |= writes

    def _prim(self, prim: Prim) -> None:
        match prim.name:
            case "fill":
                value = literal(float(str(prim.attr("value", 0.0))), self.spec.computes(prim))
                self._pointwise(prim, (), lambda _: value)
            case "copy":
                self._copy(prim)
            case "map":
                operands = tuple(v for _, v in prim.named if v in self.params)
                only = self._changes(prim)
                if only:
                    self._add(f"if ({only}) {{  // the same for all threads")
                self._pointwise(prim, operands, lambda index: self._expression(prim, index))
                if only:
                    self._add("}")
            case "transpose":
                self._transpose(prim)
            case "reduce" | "reduce_acc":
                self._reduce(prim)
            case "gemm" | "gemm_acc":
                self._gemm(prim)
            case name if name in MOVEMENT:
                self._movement(prim)
            case _:
                raise InternalError(f"cuda_c: no library leaf for primitive {prim.name!r}")

    # ---- pointwise
    def _element(self, name: str, out: str) -> str:
        """Return the element of operand `name` that belongs to the current element of `out`."""
        if self.grids[name] is not None:
            return f"{identifier(name)}[{self.element}]"
        shape, rank = self.params[name].shape, len(self.params[out].shape)
        skipped = rank - len(shape)
        at = [
            "0"
            if extent == 1 and self.params[out].shape[d + skipped] != 1
            else self.index[d + skipped]
            for d, extent in enumerate(shape)
        ]
        return f"{identifier(name)}({', '.join(at)})"

    def _pointwise(
        self, prim: Prim, operands: tuple[str, ...], value: Callable[[str], str]
    ) -> None:
        out = prim.out
        driver = out
        if self.grids[out] is None:
            same = [p for p in operands if self.grids[p] is not None]
            full = [p for p in same if self.params[p].shape == self.params[out].shape]
            driver = full[0] if full else out
        rank = len(self.params[out].shape)
        text = value(out)
        kind = self.types[self.params[out].dtype]
        target = self._element(out, out)
        used = "".join(f", [[maybe_unused]] st::idx {self.index[d]}" for d in range(rank))
        head = (
            f"st::each({identifier(driver)}, [&]([[maybe_unused]] st::At {self.element}{used}) {{"
        )
        body = f"{target} = st::from<{kind}>({text});"
        if driver != out and 1 in flat(self.params[driver].shape):
            body = f"if ({identifier(driver)}.owner()) {body}"
        self._add(head)
        self._add(f"    {body}")
        self._add("});")

    def _copy(self, prim: Prim) -> None:
        source = prim.ins[0]
        plain = len(self.params[source].shape) == len(self.params[prim.out].shape)
        if plain and self.params[source].shape == self.params[prim.out].shape:
            self._add(f"st::copy({identifier(prim.out)}, {identifier(source)});")
            return
        self._pointwise(prim, (source,), lambda out: f"st::to({self._element(source, out)})")

    def _changes(self, prim: Prim) -> str:
        """Return the condition on which a mask changes something, "" where none is known."""
        grid = self.grids[prim.out]
        shape = self.params[prim.out].shape
        only = changes_something(self.spec.expression(prim), prim.out, shape) if grid else None
        return spell(only, SPELLING, _scalar) if only else ""

    def _expression(self, prim: Prim, out: str) -> str:
        dtype = self.spec.computes(prim)

        def operand(node: Name | Index, want: str) -> str:
            cast = {"float": f"({self.types[dtype]})", "int64": "(long long)"}.get(want, "")
            if isinstance(node, Index):
                return f"{cast}{self.index[node.axis]}"
            if not node.tile:
                return f"{cast}{identifier(node.name)}"
            element = self._element(node.name, out)
            stored = self.params[node.name].dtype
            if want != "float":
                return f"{cast}{element}"
            same = stored == dtype or dtype == "float32"
            if is_float(stored):
                return f"st::to({element})" if same else f"{cast}st::to({element})"
            return f"{cast}{element}"

        node = self.spec.printed(prim)
        rounded = self.params[prim.out].dtype in HALVES and dtype == "float32"
        quick = rounded and not any(isinstance(n, Op) and n.op in _STEPS for n in walk(node))
        return spell(node, QUICK if quick else SPELLING, operand, dtype)

    def _transpose(self, prim: Prim) -> None:
        source, rank = prim.ins[0], len(self.params[prim.out].shape)
        perm = prim.attr("perm") or tuple(reversed(range(rank)))
        assert isinstance(perm, tuple | list)
        at = [""] * rank
        for d, p in enumerate(perm):
            at[int(p)] = self.index[d]
        text = f"st::to({identifier(source)}({', '.join(at)}))"
        self._pointwise(prim, (), lambda _: text)

    # ---- reductions
    def _reduce(self, prim: Prim) -> None:
        x, y = prim.ins[0], prim.out
        shape = self.params[x].shape
        axis = int(str(prim.attr("axis"))) % len(shape)
        acc = "true" if prim.name == "reduce_acc" else "false"
        op = _OPS[str(prim.attr("op", "sum"))]
        grid = self.grids[x]
        if grid is None:
            self._add(f"st::reduce_memory<{op}, {acc}, {axis}>({identifier(y)}, {identifier(x)});")
            return
        routine = "reduce_last" if axis == len(shape) - 1 else "reduce_rows"
        call = f"st::{routine}<{op}, {acc}>"
        if self.grids[y] is not None:
            self._add(f"{call}({identifier(y)}, {identifier(x)});")
            return
        # The result goes to memory: reduce into a fragment of its own first.
        tile = (*shape[:axis], 1, *shape[axis + 1 :])
        extents = ", ".join(
            "1" if d == axis else f"{identifier(x)}.n[{d}]" for d in range(len(shape))
        )
        kind = self.spec.computes(prim)
        self._add("{")
        self._add(f"    {fragment_type(self.types[kind], grid, tile)} part;")
        self._add(f"    st::bound(part, {extents});")
        if acc == "true":
            self._add(f"    st::copy(part, {identifier(y)});")
            self._add("    __syncthreads();")
        self._add(f"    {call}(part, {identifier(x)});")
        self._add(f"    st::copy({identifier(y)}, part);")
        self._add("}")

    # ---- along an axis, in memory
    def _movement(self, prim: Prim) -> None:
        axis = prim.axis(len(self.params[prim.out].shape))
        op = str(prim.attr("op", ""))
        words = [*([_OPS.get(op, "st::Last")] if op else []), str(axis)]
        if prim.name == "scan":
            words.append(str(bool(prim.attr("reverse"))).lower())
        args = ", ".join(identifier(n) for n in (prim.out, *prim.ins))
        self._add(f"st::{prim.name}<{', '.join(words)}>({args});")

    # ---- products
    def _gemm(self, prim: Prim) -> None:
        c, (a, b) = prim.out, prim.ins
        turned = ", ".join(str(bool(prim.attr(key))).lower() for key in ("trans_a", "trans_b"))
        shared = ", ".join(str(self.params[p].mem == "SHARED").lower() for p in (a, b))
        shape, left = self.params[a].shape, identifier(a)
        if prim.attr("trans_a") and len(shape) > 2:  # as of B: leading dims of 1 are no rows
            if math.prod(shape[:-2]) > 1:
                raise Unsupported.of(
                    "M173",
                    f"{self.spec.backend} has no product of several turned matrices in one tile ({a}: {list(shape)})",
                    help="give the leading dims of its tile extent 1",
                )
            shape, left = shape[-2:], f"st::matrix({left})"
        tile = ", ".join(map(str, shape))
        product = f"st::Product<st::Tile<{tile}>, {turned}, {shared}>"
        warpgroups = self.params[b].layout == PANELS
        right = identifier(b) if warpgroups else f"st::matrix({identifier(b)})"
        grid = self.grids[c]
        if grid is None:
            self.name = "gemm_leaf_memory"
            bounds = ", ".join(map(str, self.params[c].shape))
            acc = str(prim.name == "gemm_acc").lower()
            self._add(
                f"st::gemm_memory<{product}, st::Tile<{bounds}>, {acc}>"
                f"({identifier(c)}, {left}, {right});"
            )
            return
        routine = "wgmma" if warpgroups else self._product_routine(c, a, b, grid)
        self.name = _PRODUCTS[routine]
        if warpgroups:
            product = turned
        wide = self.params[c].dtype in ("float32", "float64")
        target = identifier(c) if wide else "sum"
        extents = ", ".join(f"{identifier(c)}.n[{d}]" for d in range(len(self.params[c].shape)))
        if not wide:
            self._add("{  // sums are float32 also when the result is not")
            self._add(f"{fragment_type('float', grid, self.params[c].shape)} sum;")
            self._add(f"st::bound(sum, {extents});")
        if prim.name == "gemm":
            self._add(f"st::zero({target});")
        elif not wide:
            self._add(f"st::copy(sum, {identifier(c)});")
        self._add(f"st::gemm_{routine}<{product}>({target}, {left}, {right});")
        if not wide:
            self._add(f"st::copy({identifier(c)}, sum);")
            self._add("}")

    def _product_routine(self, c: str, a: str, b: str, grid: Grid) -> str:
        kinds = [self.params[p].dtype for p in (a, b)]
        out = self.params[c].dtype if self.params[c].dtype == "float64" else "float32"
        blocks = grid.tensor_core and min(flat(self.params[c].shape)) > 1
        if blocks and grid.multiplies(kinds[0], kinds[1], out):
            return "mma" if grid.wave == 32 else "mfma"
        tf32 = dict(self.spec.options).get("math") == "tf32"
        if blocks and tf32 and kinds == ["float32", "float32"] and out == "float32":
            return "tf32"
        return "simt"


def _scalar(node: Name | Index, want: str) -> str:
    assert isinstance(node, Name)
    return identifier(node.name)


def flops(spec: LeafSpec) -> int:
    """Return the multiply-adds of a leaf's products, times two."""
    total = 0
    for prim in spec.prims:
        if prim.name in GEMMS:
            shapes = {p.name: p.shape for p in spec.params}
            depth = shapes[prim.ins[0]][-2 if prim.attr("trans_a") else -1]
            total += 2 * math.prod(shapes[prim.out]) * depth
    return total
