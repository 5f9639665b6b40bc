"""Programs as text, and back."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace

from septran.ir import nodes as ir
from septran.ir.brackets import split_top
from septran.ir.expr import Bin, Const, Expr, Var, to_text


def region_text(r: ir.Region) -> str:
    """Return e.g. `A[(i0 * 64):+min(64, ..)<=64, 0:+32]`; a strided dim ends in `::step`."""
    dims = []
    for o, e, t, s in zip(r.offset, r.extent, r.tile, r.step, strict=True):
        text = f"{to_text(o)}:+{to_text(e)}"
        if e != Const(t):
            text += f"<={t}"
        if s != 1:
            text += f"::{s}"
        dims.append(text)
    version = "" if r.version is None else f"@{to_text(r.version)}"
    guard = f" guard={r.fill!r}" if r.guard and r.fill else " guard" if r.guard else ""
    return f"{r.buffer.name}{version}[{', '.join(dims)}]{guard}{_view_text(r.buffer)}"


def _view_text(b: ir.Buffer) -> str:
    """Return how an array is seen in another layout, e.g. ` seen 2x3 by 1,2 from 0`."""
    if not b.strides and not b.start:
        return ""
    shape = "x".join(map(str, b.shape))
    extent = f" of {', '.join(map(to_text, b.extent))}" if b.extent else ""
    return f" seen {shape} by {','.join(map(str, b.strides))} from {b.start}{extent}"


def buffer_text(b: ir.Buffer) -> str:
    """Return e.g. `A_s: SHARED float32[64, 32] layout=panel_m:14 x2 @0`."""
    text = f"{b.name}: {b.mem} {b.dtype}{list(b.shape)}"
    if b.layout != "row":
        text += f" layout={b.layout}"
    if b.versions != 1:
        text += f" x{b.versions}"
    if b.offset is not None:
        text += f" @{b.offset}" + (f"+{b.size}" if b.size is not None else "")
    if b.extent:
        text += f" of {', '.join(map(to_text, b.extent))}"
    return text


def print_program(p: ir.Program) -> str:
    """Return the Program as text that `parse_program` reads back to an equal Program (spans apart)."""
    lines = [
        f"program {p.name} target={p.target} arch={p.arch or '-'} machine={p.machine}",
        f"options {json.dumps(dict(p.options), sort_keys=True)}",
    ]
    lines += [f"dim {d.name} from {d.low} to {d.high}" for d in p.dims]
    lines += [f"param {q.privilege} {buffer_text(q.buffer)}" for q in p.params]

    def visit(body: tuple[ir.Stmt, ...], depth: int) -> None:
        pad = "  " * depth
        for s in body:
            match s:
                case ir.Alloc():
                    lines.append(f"{pad}alloc {buffer_text(s.buffer)}")
                case ir.Copy():
                    lines.append(f"{pad}{_copy_text(s)}")
                case ir.Sync():
                    lines.append(f"{pad}{_sync_text(s)}")
                case ir.Post() | ir.Await():
                    word = "post" if isinstance(s, ir.Post) else "await"
                    lines.append(f"{pad}{word} {s.event} [{to_text(s.slot)}] {s.engine or '-'}")
                case ir.LeafCall():
                    lines.extend(pad + t for t in _leaf_text(s))
                case ir.For():
                    lines.append(f"{pad}{_for_text(s)}")
                    visit(s.body, depth + 1)
                case ir.When():
                    lines.append(f"{pad}when {s.low} <= {to_text(s.expr)} < {s.high}")
                    visit(s.body, depth + 1)

    visit(p.body, 1)
    return "\n".join(lines) + "\n"


def _copy_text(s: ir.Copy) -> str:
    where = f" on {s.engine}" if s.engine else ""
    parts = [
        f"{to_text(x.first)} to {to_text(x.end)}{' singly' if x.singly else ''}" for x in s.inside
    ]
    inside = f" inside {'; '.join(parts)}" if parts else ""
    return f"copy {region_text(s.dst)} <- {region_text(s.src)}{inside}{where}"


def _sync_text(s: ir.Sync) -> str:
    return (
        f"sync {s.scope}"
        if s.engines is None
        else f"sync {s.scope} of {','.join(s.engines) or '-'}"
    )


def _for_text(s: ir.For) -> str:
    text = f"for {s.var} in {to_text(s.extent)}"
    if s.proc:
        text += f" on {s.proc}"
    if s.parallel:
        text += " parallel"
    if s.pipeline:
        text += f" pipeline={s.pipeline}"
    if s.warpspecialize:
        text += " warpspecialize"
    return text


def _leaf_text(s: ir.LeafCall) -> list[str]:
    called = f" calls {s.symbol}" if s.symbol else ""
    where = f" on {s.engine}" if s.engine else ""
    lines = [f"leaf {s.task} <{s.impl}>{called}{where}"]
    for a in s.args:
        mem = f" -> {a.mem}" if a.mem else ""
        unread = " unread" if a.unread else ""
        lines.append(f"| {a.privilege} {a.param} = {region_text(a.region)}{mem}{unread}")
    for name, value in s.scalars:
        shown = to_text(value) if isinstance(value, Expr) else f"float {value!r}"
        lines.append(f"| scalar {name} = {shown}")
    for p in s.prims:
        data = {
            "name": p.name,
            "out": p.out,
            "ins": list(p.ins),
            "named": dict(p.named),
            "attrs": {k: _plain(v) for k, v in p.attrs},
        }
        lines.append(f"| prim {json.dumps(data)}")
    return lines


def _plain(v: object) -> object:
    if isinstance(v, float) and v in (float("inf"), float("-inf")):
        return {"float": repr(v)}
    return {"tuple": list(v)} if isinstance(v, tuple) else v


def _restored(v: object) -> object:
    if isinstance(v, dict) and "float" in v:
        return float(v["float"])
    if isinstance(v, dict) and "tuple" in v:
        return tuple(v["tuple"])
    return v


def parse_expr(text: str) -> Expr:
    """Return the expression `text` denotes (the inverse of `to_text`)."""
    ops = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%"}

    def visit(node: ast.expr) -> Expr:
        match node:
            case ast.Constant(value=int(value)):
                return Const(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
                return Const(-value)
            case ast.Name(id=name):
                return Var(name)
            case ast.BinOp(left=left, op=op, right=right):
                return Bin(ops[type(op)], visit(left), visit(right))
            case ast.Call(func=ast.Name(id=name), args=[a, b]) if name in ("min", "max"):
                return Bin(name, visit(a), visit(b))
        raise ValueError(f"not an index expression: {text!r}")

    return visit(ast.parse(text.strip(), mode="eval").body)


_BUFFER = re.compile(
    r"(\w+): (\w+) (\w+)\[([\d, ]*)\](?: layout=(\S+))?(?: x(\d+))?(?: @(\d+)(?:\+(\d+))?)?$"
)


def _parse_buffer(text: str) -> ir.Buffer:
    text, _, extent = text.partition(" of ")
    m = _BUFFER.match(text)
    if m is None:
        raise ValueError(f"not a buffer: {text!r}")
    name, mem, dtype, shape, layout, versions, offset, size = m.groups()
    return ir.Buffer(
        name=name,
        shape=tuple(int(n) for n in shape.split(",") if n.strip()),
        dtype=dtype,
        mem=mem,
        layout=layout or "row",
        versions=int(versions or 1),
        offset=None if offset is None else int(offset),
        size=None if size is None else int(size),
        extent=_extent(extent),
    )


def _extent(text: str) -> tuple[Expr, ...]:
    return tuple(parse_expr(e) for e in _split_dims(text))


def _seen(buffer: ir.Buffer, text: str) -> ir.Buffer:
    if not text:
        return buffer
    text, _, extent = text.partition(" of ")
    shape, strides, start = re.match(r"(\S*) by (\S*) from (\d+)$", text).groups()  # type: ignore[union-attr]
    return replace(
        buffer,
        shape=tuple(int(n) for n in shape.split("x") if n),
        strides=tuple(int(n) for n in strides.split(",") if n),
        start=int(start),
        extent=_extent(extent),
    )


def _split_dims(text: str) -> list[str]:
    return [p for p in split_top(text, "(") if p.strip()]


def _parse_inside(text: str) -> ir.Inside:
    first, _, end = text.removesuffix(" singly").partition(" to ")
    return ir.Inside(parse_expr(first), parse_expr(end), singly=text.endswith(" singly"))


class _Parser:
    """Reads lines; buffers are found by name."""

    def __init__(self, text: str) -> None:
        self.lines = [line for line in text.splitlines() if line.strip()]
        self.at = 0
        self.buffers: dict[str, ir.Buffer] = {}

    def region(self, text: str) -> ir.Region:
        head, _, rest = text.strip().partition("[")
        name, _, version = head.partition("@")
        dims, _, tail = rest.rpartition("]")
        tail, _, seen = tail.partition(" seen ")
        guard = re.match(r" guard(?:=(\S+))?$", tail)
        offset, extent, tile, step = [], [], [], []
        for dim in _split_dims(dims):
            body, _, stride = dim.partition("::")
            o, _, e = body.partition(":+")
            e, _, bound = e.partition("<=")
            expr = parse_expr(e)
            offset.append(parse_expr(o))
            extent.append(expr)
            tile.append(int(bound) if bound else expr.value if isinstance(expr, Const) else 0)
            step.append(int(stride or 1))
        return ir.Region(
            buffer=_seen(self.buffers[name], seen),
            offset=tuple(offset),
            extent=tuple(extent),
            tile=tuple(tile),
            step=tuple(step),
            grid=(0,) * len(tile),
            guard=guard is not None,
            fill=float(guard[1] or 0.0) if guard else 0.0,
            version=parse_expr(version) if version else None,
        )

    def buffer(self, text: str) -> ir.Buffer:
        found = _parse_buffer(text)
        self.buffers[found.name] = found
        return found

    def body(self, depth: int) -> tuple[ir.Stmt, ...]:
        out: list[ir.Stmt] = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            indent = (len(line) - len(line.lstrip(" "))) // 2
            if indent < depth:
                break
            self.at += 1
            out.append(self.stmt(line.strip(), depth))
        return tuple(out)

    def stmt(self, line: str, depth: int) -> ir.Stmt:
        word, _, rest = line.partition(" ")
        match word:
            case "alloc":
                return ir.Alloc(buffer=self.buffer(rest))
            case "copy":
                dst, _, src = rest.partition(" <- ")
                src, _, engine = src.partition(" on ")
                src, _, parts = src.partition(" inside ")
                return ir.Copy(
                    dst=self.region(dst),
                    src=self.region(src),
                    engine=engine,
                    inside=tuple(map(_parse_inside, parts.split("; "))) if parts else (),
                )
            case "sync":
                scope, limited, engines = rest.partition(" of ")
                named = () if engines == "-" else tuple(engines.split(","))
                return ir.Sync(scope=scope, engines=named if limited else None)
            case "post" | "await":
                m = re.match(r"(\S+) \[(.*)\] (\S+)$", rest)
                assert m is not None
                kind = ir.Post if word == "post" else ir.Await
                engine = "" if m[3] == "-" else m[3]
                return kind(event=m[1], slot=parse_expr(m[2]), engine=engine)
            case "leaf":
                return self.leaf(rest)
            case "for":
                return self.loop(rest, depth)
            case "when":
                m = re.match(r"(-?\d+) <= (.*) < (-?\d+)$", rest)
                assert m is not None
                return ir.When(
                    expr=parse_expr(m[2]), low=int(m[1]), high=int(m[3]), body=self.body(depth + 1)
                )
        raise ValueError(f"unknown statement: {line!r}")

    def loop(self, rest: str, depth: int) -> ir.For:
        m = re.match(
            r"(\w+) in (.*?)(?: on (\w+))?( parallel)?(?: pipeline=(\d+))?( warpspecialize)?$", rest
        )
        assert m is not None
        return ir.For(
            var=m[1],
            extent=parse_expr(m[2]),
            proc=m[3] or "",
            parallel=bool(m[4]),
            pipeline=int(m[5] or 0),
            warpspecialize=bool(m[6]),
            body=self.body(depth + 1),
        )

    def leaf(self, rest: str) -> ir.LeafCall:
        m = re.match(r"([\w.]+) <(.*?)>(?: calls (\w+))?(?: on (\w+))?$", rest)
        assert m is not None
        args, scalars, prims = [], [], []
        while self.at < len(self.lines) and self.lines[self.at].lstrip().startswith("| "):
            line = self.lines[self.at].strip()[2:]
            self.at += 1
            word, _, tail = line.partition(" ")
            if word == "prim":
                d = json.loads(tail)
                prims.append(
                    ir.Prim(
                        name=d["name"],
                        out=d["out"],
                        ins=tuple(d["ins"]),
                        named=tuple(d["named"].items()),
                        attrs=tuple((k, _restored(v)) for k, v in d["attrs"].items()),
                    )
                )
            elif word == "scalar":
                name, _, value = tail.partition(" = ")
                is_float = value.startswith("float ")
                scalars.append((name, float(value[6:]) if is_float else parse_expr(value)))
            else:
                name, _, value = tail.partition(" = ")
                text, _, mem = value.removesuffix(" unread").partition(" -> ")
                args.append(
                    ir.LeafArg(
                        param=name,
                        region=self.region(text),
                        privilege=word,  # type: ignore[arg-type]
                        mem=mem,
                        unread=value.endswith(" unread"),
                    )
                )
        return ir.LeafCall(
            task=m[1],
            impl=m[2],
            args=tuple(args),
            scalars=tuple(scalars),
            prims=tuple(prims),
            symbol=m[3] or "",
            engine=m[4] or "",
        )


def parse_program(text: str) -> ir.Program:
    """Return the Program that `print_program` printed.

    Raises:
        ValueError: the text is not a Program.
    """
    parser = _Parser(text)
    head = re.match(r"program (\w+) target=(\S+) arch=(\S+) machine=(\S+)", parser.lines[0])
    if head is None:
        raise ValueError(f"not a program: {parser.lines[0]!r}")
    options = json.loads(parser.lines[1].removeprefix("options "))
    parser.at = 2
    dims, params = [], []
    while parser.at < len(parser.lines) and parser.lines[parser.at].startswith("dim "):
        _, name, _, low, _, high = parser.lines[parser.at].split(" ")
        dims.append(ir.Dim(name, int(low), int(high)))
        parser.at += 1
    while parser.at < len(parser.lines) and parser.lines[parser.at].startswith("param "):
        _, privilege, rest = parser.lines[parser.at].split(" ", 2)
        params.append(
            ir.Param(buffer=parser.buffer(rest), privilege=privilege)  # type: ignore[arg-type]
        )
        parser.at += 1
    return ir.Program(
        name=head[1],
        target=head[2],
        arch="" if head[3] == "-" else head[3],
        machine=head[4],
        params=tuple(params),
        body=parser.body(1),
        options=tuple(sorted(options.items())),
        dims=tuple(dims),
    )
