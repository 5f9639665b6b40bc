"""CodeGenDSA: a visitor over TVM statements that writes C over a vendor's calls.

What a vendor's calls look like is data (`configs/vendors/<name>.yaml`, read by `vendor`); this file
knows only the argument order of the `dsa.*` operations in TensorIR.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from septran.backends.dsa.vendor import Vendor
from septran.errors import ConfigError, InternalError
from septran.ir.dtypes import nbytes

_MEMORY = {"global": "GLOBAL", "shared": "SHARED", "local": "REGISTER"}
_C = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
    "int32": "int32_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
}


@dataclass(frozen=True, slots=True)
class Operand:
    """A tile as the vendor table's templates see it; str() is the vendor's own operand form."""

    text: str
    address: str
    rows: str
    cols: str
    ld: str
    dtype: str
    bytes: int
    memory: str
    pitch: str

    def __str__(self) -> str:
        return self.text


class CodeGenDSA:
    """One translation: PrimFunc -> C text."""

    def __init__(self, vendor: Vendor, may: Mapping[str, str] | None = None) -> None:
        self.vendor = vendor
        self.may = may or {}
        """leaf that is a C function -> of each view that it is given r, it is only read, or w"""
        self.lines: list[str] = []
        self.depth = 0
        self.places: dict[str, tuple[str, int]] = {}
        self.versions: frozenset[str] = frozenset()

    # -- function --------------------------------------------------------------------------------

    def function(self, func: Any, entry: str, prelude: str = "") -> str:
        """Return a C file with `void entry(void* const* args)` for `func`."""
        attrs = func.attrs
        places = str(attrs["septran.places"]) if "septran.places" in attrs else ""
        for item in places.split():
            name, _, at = item.partition("=")
            memory, _, offset = at.partition(":")
            self.places[name] = (memory, int(offset))
        versions = str(attrs["septran.versions"]) if "septran.versions" in attrs else ""
        self.versions = frozenset(versions.split())
        arrays = [func.buffer_map[h] for h in func.params]
        spaces = str(attrs["septran.workspaces"]) if "septran.workspaces" in attrs else ""
        params = [b for b in arrays if b.name not in spaces.split()]
        own = [b for b in arrays if b.name in spaces.split()]
        names = " ".join(str(b.name) for b in params)
        written = frozenset(
            (str(attrs["septran.writes"]) if "septran.writes" in attrs else names).split()
        )
        self.put("typedef struct {")
        self.depth += 1
        for b in arrays:
            self.put(f"{_C[str(b.dtype)]} *{b.name};")
        self.depth -= 1
        self.put("} kernel_args;")
        self.put("")
        self.put("static void kernel(void *opaque) {")
        self.depth += 1
        self.put("const kernel_args *const args = opaque;")
        for b in arrays:
            self.put(f"{_C[str(b.dtype)]} *const {b.name} = args->{b.name};")
        self.put(f"const int core_id = {self.vendor.core_id};")
        self.put(f"const int core_num = {self.vendor.core_num};")
        unused = ", ".join(f"(void){b.name}" for b in arrays)
        self.put(f"(void)core_id, (void)core_num, {unused};")
        self.stmt(func.body)
        self.depth -= 1
        self.put("}")
        body = "\n".join(self.lines)
        head = "\n".join(f'#include "{h}"' for h in self.vendor.headers)
        return f"{head}\n\n{_HELPERS}\n{prelude}{body}\n\n{self.entry(params, own, entry, written)}"

    def entry(
        self, params: list[Any], spaces: list[Any], entry: str, written: frozenset[str]
    ) -> str:
        out = [
            f"void {entry}(void *const *pointers);",
            "",
            f"void {entry}(void *const *pointers) {{",
        ]
        out.append("  kernel_args args = {")
        out.extend(f"    pointers[{i}]," for i in range(len(params)))
        out.extend(f"    {self.workspace(b)}," for b in spaces)
        out.append("  };")
        for i, b in enumerate(params):
            out.append(
                "  "
                + self.vendor.bind.format(
                    name=b.name,
                    pointer=f"pointers[{i}]",
                    bytes=_bytes(b),
                    index=i,
                    writable=int(b.name in written),
                )
            )
        out.append("  " + self.vendor.launch)
        out.append("}")
        return "\n".join(out) + "\n"

    def workspace(self, b: Any) -> str:
        """Return the vendor's call for memory of the kernel's own, C122 when it has none."""
        if not self.vendor.workspace:
            raise ConfigError.of(
                "C122",
                f"vendor table {self.vendor.name} has no workspace, which this kernel needs",
                help=f"add `workspace:` to configs/vendors/{self.vendor.name}.yaml",
            )
        return self.vendor.workspace.format(name=b.name, bytes=_bytes(b))

    def put(self, text: str) -> None:
        self.lines.append("  " * self.depth + text if text else "")

    # -- statements ------------------------------------------------------------------------------

    def stmt(self, node: Any) -> None:
        rule = getattr(self, f"stmt_{type(node).__name__}", None)
        if rule is None:
            raise InternalError(f"CodeGenDSA: no rule for statement {type(node).__name__}")
        rule(node)

    def stmt_SeqStmt(self, node: Any) -> None:
        for s in node.seq:
            self.stmt(s)

    def stmt_AllocBuffer(self, node: Any) -> None:
        b = node.buffer
        if b.name in self.places:
            memory, offset = self.places[b.name]
            shape = " x ".join(str(int(d)) for d in b.shape)
            self.put(f"enum {{ {b.name} = {offset} }}; /* {memory} {b.dtype} {shape} */")

    def stmt_For(self, node: Any) -> None:
        v = node.loop_var.name
        self.put(f"for (int {v} = 0; {v} < {self.expr(node.extent)}; {v}++) {{")
        self.block(node.body)
        self.put("}")

    def stmt_IfThenElse(self, node: Any) -> None:
        self.put(f"if ({self.expr(node.condition)}) {{")
        self.block(node.then_case)
        if node.else_case is not None:
            self.put("} else {")
            self.block(node.else_case)
        self.put("}")

    def block(self, node: Any) -> None:
        self.depth += 1
        self.stmt(node)
        self.depth -= 1

    def stmt_Evaluate(self, node: Any) -> None:
        value = node.value
        if type(value).__name__ != "Call":
            return
        if value.op.name != "tirx.call_extern":
            raise InternalError(f"CodeGenDSA: no rule for intrinsic {value.op.name}")
        name = value.args[0].value
        args = list(value.args[1:])
        if not name.startswith("dsa."):
            self.leaf(name, args)
        elif text := self.dsa(name, args):
            self.put(text)

    # -- dsa operations ----------------------------------------------------------------------------

    def dsa(self, name: str, a: list[Any]) -> str:
        template = self.vendor.calls.get(name)
        if template is None:
            raise ConfigError.of(
                "C122",
                f"vendor table {self.vendor.name} has no call for {name}, which this kernel needs",
                help=f"add it to configs/vendors/{self.vendor.name}.yaml",
            )
        return template.format(**self.fields(name, a))

    def fields(self, name: str, a: list[Any]) -> dict[str, Any]:
        e, tile = self.expr, self.tile
        match name:
            case "dsa.sync" | "dsa.barrier":
                return {}
            case "dsa.set" | "dsa.wait":
                source, target = (self.vendor.queues.get(q.value, q.value) for q in a[:2])
                return {"source": source, "target": target, "event": e(a[2])}
            case "dsa.dma_copy" | "dsa.dma_cast" | "dsa.vec_transpose" as op:
                rows, cols = e(a[4]), e(a[5])
                turned = (cols, rows) if op.endswith("transpose") else (rows, cols)
                d = tile(a[0], a[1], rows, cols)
                src = tile(a[2], a[3], *turned)
                way = "in" if d.memory != "GLOBAL" else "out"
                return {"d": d, "a": src, "rows": rows, "cols": cols, "way": way}
            case "dsa.fill" | "dsa.dma_fill":
                d = tile(a[0], a[1], e(a[2]), e(a[3]))
                return {"d": d, "rows": d.rows, "cols": d.cols, "value": e(a[4])}
            case "dsa.vec_index":
                d = tile(a[0], a[1], e(a[2]), e(a[3]))
                return {"d": d, "base": e(a[4]), "by_row": e(a[5]), "by_col": e(a[6])}
            case "dsa.mma":
                self.multiplies(a[2], a[4])
                m, n, k, flags = e(a[6]), e(a[7]), e(a[8]), int(a[9])
                ta, tb = flags & 2, flags & 4
                return {
                    "d": tile(a[0], a[1], m, n),
                    "a": tile(a[2], a[3], *((k, m) if ta else (m, k))),
                    "b": tile(a[4], a[5], *((n, k) if tb else (k, n))),
                    "m": m,
                    "n": n,
                    "k": k,
                    "flags": flags,
                    "init": flags & 1,
                    "trans_a": int(bool(ta)),
                    "trans_b": int(bool(tb)),
                }
            case reduce if reduce.startswith("dsa.vec_reduce"):
                rows, cols, across = e(a[4]), e(a[5]), int(a[6])
                d = tile(a[0], a[1], *((rows, "1") if across else ("1", cols)))
                return {"d": d, "a": tile(a[2], a[3], rows, cols), "across": across}
        # vec: destination, then operands of four arguments each, rows, cols, scalar?
        count, rest = divmod(len(a) - 4, 4)
        rows, cols = e(a[2 + 4 * count]), e(a[3 + 4 * count])
        found: dict[str, Any] = {"d": tile(a[0], a[1], rows, cols), "rows": rows, "cols": cols}
        for i, key in enumerate("abc"[:count]):
            p = 2 + 4 * i
            found[key] = tile(a[p], a[p + 1], e(a[p + 2]), e(a[p + 3]))
        if rest:
            found["s"] = e(a[-1])
        return found

    def leaf(self, name: str, args: list[Any]) -> None:
        """A leaf that is a C function: a view per tensor, then scalars; it reaches what it is given and nothing else."""
        views: list[str] = []
        out: list[str] = []
        i = 0
        while i < len(args):
            x = args[i]
            if type(x).__name__ == "Call" and x.op.name == "tirx.address_of":
                load = x.args[0]
                rank = len(load.indices) - (1 if load.buffer.name in self.versions else 0)
                n = [self.expr(q) for q in args[i + 1 : i + 1 + rank]]
                s = [self.expr(q) for q in args[i + 1 + rank : i + 1 + 2 * rank]]
                address = self.address(load)
                dtype = self.vendor.dtypes[str(load.buffer.dtype)]
                out.append(f"given[{len(views)}]")
                views.append(
                    f"{{{address}, {dtype}, {rank}, {{{', '.join(n)}}}, {{{', '.join(s)}}}}}"
                )
                i += 1 + 2 * rank
            else:
                out.append(self.expr(x))
                i += 1
        may = self.may.get(name, "w" * len(views))
        for line in (
            "{",
            "  const vl_view given[] = {",
            *(f"    {view}," for view in views),
            "  };",
            f'  vl_given(given, "{may}");',
            f"  {name}({', '.join(out)});",
            '  vl_given(given, "");',
            "}",
        ):
            self.put(line)

    def tile(self, pointer: Any, ld: Any, rows: str, cols: str) -> Operand:
        load = pointer.args[0]
        buffer = load.buffer
        dtype = str(buffer.dtype)
        address = self.address(load)
        pitch = self.expr(ld)
        kind = self.vendor.dtypes.get(dtype)
        if kind is None:
            raise self.lacks(f"no {dtype}, which this kernel needs")
        memory = _MEMORY[buffer.scope() or "global"]
        stored = int(buffer.shape[-1])
        if self.vendor.lanes and memory != "GLOBAL" and rows != "1" and int(ld) % stored:
            raise self.lacks(
                f"no tile across the lanes: rows of {load.buffer.name} {pitch} elements apart"
            )
        text = self.vendor.operand.format(
            address=address, rows=rows, cols=cols, ld=pitch, dtype=kind, pitch=stored
        )
        return Operand(text, address, rows, cols, pitch, kind, nbytes(dtype), memory, str(stored))

    def multiplies(self, *operands: Any) -> None:
        """Raise C122 where the vendor's matrix engine does not take the operands' type."""
        for dtype in (str(pointer.args[0].buffer.dtype) for pointer in operands):
            if self.vendor.products and dtype not in self.vendor.products:
                some = ", ".join(self.vendor.products)
                raise self.lacks(f"no product of {dtype}, which this kernel needs (of {some} only)")

    def lacks(self, what: str) -> ConfigError:
        """Return the error that the vendor cannot express a kernel."""
        name = self.vendor.name
        return ConfigError.of(
            "C122", f"vendor table {name} has {what}", help=f"see configs/vendors/{name}.yaml"
        )

    def address(self, load: Any) -> str:
        buffer = load.buffer
        memory = _MEMORY[buffer.scope() or "global"]
        index = ""
        for size, i in zip(buffer.shape, load.indices, strict=True):
            text = self.expr(i)
            if index in ("", "0"):
                index = text
            else:
                index = f"({index}) * {int(size)}" + ("" if text == "0" else f" + {text}")
        form = self.vendor.memory[memory]
        if memory == "GLOBAL":
            return form.format(pointer=buffer.name if index == "0" else f"{buffer.name} + {index}")
        size = nbytes(str(buffer.dtype))
        at = buffer.name if index == "0" else f"{buffer.name} + ({index}) * {size}"
        return form.format(offset=at, base=buffer.name, index=index)

    # -- expressions -------------------------------------------------------------------------------

    def expr(self, node: Any) -> str:
        kind = type(node).__name__
        match kind:
            case "int":
                return str(node)
            case "IntImm":
                return str(int(node.value))
            case "FloatImm":
                return _float(float(node.value))
            case "Var":
                return str(node.name)
            case "Min" | "Max":
                return f"dsa_{kind.lower()}({self.expr(node.a)}, {self.expr(node.b)})"
            case "FloorDiv" | "FloorMod":
                name = "div" if kind == "FloorDiv" else "mod"
                return f"dsa_{name}({self.expr(node.a)}, {self.expr(node.b)})"
            case "Call" if node.op.name == "tirx.call_extern":
                name = node.args[0].value
                if name in ("dsa.core_id", "dsa.core_num"):
                    return str(name).removeprefix("dsa.")
        if kind in _OPERATORS:
            return f"({self.expr(node.a)} {_OPERATORS[kind]} {self.expr(node.b)})"
        raise InternalError(f"CodeGenDSA: no rule for expression {kind}")


_OPERATORS = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "EQ": "==",
    "NE": "!=",
    "And": "&&",
    "Or": "||",
}

_HELPERS = """static inline int dsa_min(int a, int b) { return a < b ? a : b; }
static inline int dsa_max(int a, int b) { return a > b ? a : b; }
/* floor division and remainder by a positive number */
static inline int dsa_div(int a, int b) { return a / b - (a % b < 0); }
static inline int dsa_mod(int a, int b) { return a - dsa_div(a, b) * b; }
static inline void dsa_use(void) { (void)dsa_min, (void)dsa_max, (void)dsa_div, (void)dsa_mod; }
"""


def _bytes(buffer: Any) -> int:
    return math.prod(int(d) for d in buffer.shape) * nbytes(str(buffer.dtype))


def _float(value: float) -> str:
    if value != value:
        return '__builtin_nan("")'
    if value in (float("inf"), float("-inf")):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return repr(value)
