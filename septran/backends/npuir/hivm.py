"""NPUIR source in Expert form -> HIVM text, the input of the BiShengIR compiler.

One operation of the dialect is one operation of HIVM; slices become subviews, T.serial scf.for,
macros are inlined. What is translated is the emitted text, so a leaf that a model wrote is
translated too. Kernels in Developer form are not: there the compiler chooses memories and cores.

    T.copy(X[i * 2:i * 2 + 2, 0:64], X_r)   %2 = memref.subview %X[%1, 0] [2, 64] [1, 1] : ...
                                            hivm.hir.load ins(%2 : ...) outs(%X_r : ...)
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from septran.backends.npuir.hivm_ops import OPERATIONS, Buf, Flag, NoHivmForm, Operations
from septran.ir.expr import Bin, Const, Expr, Var, make

_INDEX_OPS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}
_ARITH = {
    "+": "arith.addi",
    "-": "arith.subi",
    "*": "arith.muli",
    "//": "arith.floordivsi",
    "min": "arith.minsi",
    "max": "arith.maxsi",
}
_SPACES = {"alloc_ub": "ub", "alloc_L1": "cbuf", "alloc_L0C": "cc"}
Value = Buf | Expr | Flag | float | str | list[Expr]


def hivm_text(source: str, entry: str = "entry") -> str:
    """Return the MLIR module of the vector kernel `entry` in NPUIR source.

    Raises:
        NoHivmForm: the kernel has something that has no form here; the text says what and where.
    """
    tree = ast.parse(source)
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    if entry not in functions:
        raise NoHivmForm(f"no function {entry}")
    if not functions[entry].decorator_list:
        raise NoHivmForm("several kernels and a host function have none here")
    return _Translator(functions).module(functions[entry])


@dataclass(slots=True)
class _Translator:
    functions: dict[str, ast.FunctionDef]
    lines: list[str] = field(default_factory=list)
    depth: int = 2
    count: int = 0
    env: dict[str, Value] = field(default_factory=dict)

    # -- text -------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def let(self, text: str) -> str:
        """Add `%n = text` and return `%n`."""
        self.count += 1
        self.say(f"%{self.count} = {text}")
        return f"%{self.count}"

    def index(self, e: Expr) -> str:
        """Return the SSA value of an index expression."""
        match e:
            case Const(value):
                return self.let(f"arith.constant {value} : index")
            case Var(name):
                return name
            case Bin("%", a, b):
                return self.index(Bin("-", a, Bin("*", Bin("//", a, b), b)))
            case Bin(op, a, b):
                return self.let(f"{_ARITH[op]} {self.index(a)}, {self.index(b)} : index")
        raise NoHivmForm(f"index {e}")

    # -- structure --------------------------------------------------------------------------

    def module(self, fn: ast.FunctionDef) -> str:
        params = []
        for arg in fn.args.args:
            shape, dtype = _tensor(arg)
            buffer = Buf(f"%{arg.arg}", shape, dtype, "gm")
            self.env[arg.arg] = buffer
            params.append(f"{buffer.ssa}: {buffer.type}")
        (launch,) = (s for s in fn.body if isinstance(s, ast.With))
        item, *scopes = launch.items
        if [ast.unparse(s.context_expr) for s in scopes] not in ([], ["T.Scope('Cube')"]):
            raise NoHivmForm(f"line {launch.lineno}: T.Scope of vector cores")
        assert isinstance(item.optional_vars, ast.Tuple)
        cid = item.optional_vars.elts[0]
        assert isinstance(cid, ast.Name)
        block = self.let("hivm.hir.get_block_idx -> i64")
        self.env[cid.id] = Var(self.let(f"arith.index_cast {block} : i64 to index"))
        self.body(launch.body)
        head = "hacc.entry, hacc.function_kind = #hacc.function_kind<DEVICE>"
        return "\n".join(
            (
                "module {",
                f"  func.func @{fn.name}({', '.join(params)}) attributes {{{head}}} {{",
                *self.lines,
                "    return",
                "  }",
                "}",
                "",
            )
        )

    def body(self, statements: list[ast.stmt]) -> None:
        for stmt in statements:
            try:
                self.statement(stmt)
            except NoHivmForm as error:
                if "line" in str(error):
                    raise
                raise NoHivmForm(f"line {stmt.lineno}: {error}") from None

    def statement(self, stmt: ast.stmt) -> None:
        match stmt:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.Expr(value=ast.Call() as call):
                self.call(call)
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(attr=attr)) as call,
            ) if attr.startswith("alloc_"):
                self.env[name] = self.allocate(name, attr, call)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.env[name] = self.value(value)
            case ast.For(target=ast.Name(id=name), iter=ast.Call() as call, body=body):
                self.loop(name, call, body)
            case _:
                raise NoHivmForm(f"{type(stmt).__name__} has no HIVM form here")

    def allocate(self, name: str, attr: str, call: ast.Call) -> Buf:
        if attr not in _SPACES:
            raise NoHivmForm(f"T.{attr}: the compiler chooses the memory")
        shape, dtype = (ast.literal_eval(a) for a in call.args)
        self.count += 1
        buffer = Buf(f"%{name}_{self.count}", tuple(shape), dtype, _SPACES[attr])
        self.say(f"{buffer.ssa} = memref.alloc() : {buffer.type}")
        return buffer

    def loop(self, name: str, call: ast.Call, body: list[ast.stmt]) -> None:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in (
            "serial",
            "Pipelined",
        ):
            raise NoHivmForm(f"loop over {ast.unparse(call.func)}")
        bounds = [self.expr(a) for a in call.args]
        low, high = (Const(0), bounds[0]) if len(bounds) == 1 else bounds
        low_text, high_text, one = self.index(low), self.index(high), self.index(Const(1))
        self.count += 1
        var = f"%{name}_{self.count}"
        self.say(f"scf.for {var} = {low_text} to {high_text} step {one} {{")
        outer = dict(self.env)
        self.env[name] = Var(var)
        self.depth += 1
        self.body(body)
        self.depth -= 1
        self.env = outer
        self.say("}")

    # -- values -----------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Return what an expression is: a buffer (or part of one), an index, a number, a word."""
        match node:
            case ast.Constant(value=bool() as value):
                return Flag("arith.constant true" if value else "arith.constant false")
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                a, b = self.expr(left), self.expr(right)
                return Flag(f"arith.cmpi eq, {self.index(a)}, {self.index(b)} : index")
            case ast.Constant(value=int() as value):
                return Const(int(value))
            case ast.Constant(value=float() | str() as value):
                return value
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                return [self.expr(e) for e in elts]
            case ast.Name(id=name):
                return self.env[name]
            case ast.Subscript():
                return self.part(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.value(operand)
                if isinstance(inner, float):
                    return -inner
                return make("-", 0, _integer(inner))
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.Call(func=ast.Attribute(attr="infinity")):
                return float("inf")
            case ast.Call(func=ast.Attribute(attr="min" | "max" as name), args=[a, b]):
                return make(name, self.expr(a), self.expr(b))
            case ast.Call(func=ast.Attribute(attr="ceildiv"), args=[a, b]):
                return make("//", make("+", self.expr(a), self.expr(b) - 1), self.expr(b))
        raise NoHivmForm(f"{ast.unparse(node)} has no HIVM form here")

    def binary(self, op: ast.operator, a: Value, b: Value) -> Value:
        if isinstance(a, Expr) and isinstance(b, Expr) and type(op) in _INDEX_OPS:
            return make(_INDEX_OPS[type(op)], a, b)
        x, y = (float(v.value) if isinstance(v, Const) else v for v in (a, b))
        if isinstance(x, float) and isinstance(y, float):
            match op:
                case ast.Add():
                    return x + y
                case ast.Sub():
                    return x - y
                case ast.Mult():
                    return x * y
                case ast.Div() if y:
                    return x / y
        raise NoHivmForm("arithmetic on numbers that are known only at run time")

    def expr(self, node: ast.expr) -> Expr:
        return _integer(self.value(node))

    def part(self, node: ast.Subscript) -> Buf:
        """Return a slice of a buffer as a subview."""
        base = self.value(node.value)
        assert isinstance(base, Buf)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        offsets: list[Expr] = []
        sizes: list[Expr] = []
        for d, n in enumerate(base.shape):
            item = items[d] if d < len(items) else ast.Slice()
            if isinstance(item, ast.Slice):
                low = self.expr(item.lower) if item.lower is not None else Const(0)
                size = self.extent(item, low, n)
            else:
                low, size = self.expr(item), Const(1)
            offsets.append(low)
            sizes.append(size)
        if all(o == Const(0) for o in offsets) and sizes == [Const(n) for n in base.shape]:
            return base
        return base.subview(tuple(offsets), tuple(sizes))

    def extent(self, item: ast.Slice, low: Expr, n: int) -> Expr:
        upper = item.upper
        if upper is None:
            return make("-", n, low)
        same = item.lower is not None and isinstance(upper, ast.BinOp)
        if same and isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add):
            assert item.lower is not None
            if ast.dump(upper.left) == ast.dump(item.lower):
                return self.expr(upper.right)
        return make("-", self.expr(upper), low)

    # -- calls ------------------------------------------------------------------------------

    def call(self, call: ast.Call) -> None:
        words = {k.arg: self.value(k.value) for k in call.keywords if k.arg}
        if isinstance(call.func, ast.Name):
            self.macro(self.functions[call.func.id], [self.value(a) for a in call.args], words)
            return
        assert isinstance(call.func, ast.Attribute)
        name = call.func.attr
        if name not in OPERATIONS:
            raise NoHivmForm(f"T.{name} has no HIVM form here")
        operations = Operations(self.say, self.let, self.index)
        given = [self.value(a) for a in call.args]
        try:
            OPERATIONS[name](operations, *given, **words)
        except (TypeError, ValueError, AttributeError, LookupError) as error:
            # arguments that this translation does not foresee; the simulator says what is wrong with them, if anything is
            raise NoHivmForm(f"T.{name} with these arguments has no HIVM form here") from error

    def macro(self, fn: ast.FunctionDef, args: list[Value], words: dict[str, Value]) -> None:
        outer = self.env
        names = [a.arg for a in fn.args.args]
        self.env = dict(zip(names, args, strict=False)) | words
        self.body(fn.body)
        self.env = outer


def _integer(value: Value) -> Expr:
    if isinstance(value, Expr):
        return value
    raise NoHivmForm(f"{value!r} where an index is needed")


def _tensor(arg: ast.arg) -> tuple[tuple[int, ...], str]:
    match arg.annotation:
        case ast.Call(func=ast.Attribute(attr="Tensor"), args=[shape, dtype]):
            dims = ast.literal_eval(shape)
            return tuple(dims) if isinstance(dims, tuple) else (dims,), ast.literal_eval(dtype)
    raise NoHivmForm(f"parameter {arg.arg} is not a T.Tensor of static shape")
