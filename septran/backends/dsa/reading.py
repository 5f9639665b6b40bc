"""Reads the printed C over a vendor's calls back: tiles, queues and events, from the text alone.

How calls are spelled comes from the vendor's table, read backwards: each template is parsed, and its fields say what
stands where. A vendor whose templates are more than one plain call is not read, so nothing is claimed of its kernels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from septran.backends.dsa.machine import Storage, storage
from septran.backends.dsa.vendor import Vendor, load_vendor
from septran.backends.reading.c_reading import CReading
from septran.backends.reading.c_syntax import Call, Declare, Do, Name, Node, read_body
from septran.ir.dtypes import nbytes
from septran.ir.expr import Const, Expr
from septran.ir.launch import launches, workspaces
from septran.ir.nodes import CORE_NUM, Buffer, LeafCall, Program, Scalar, buffers
from septran.kernel import Kernel
from septran.machine import load_machine
from septran.prove.printed import Number, Place, Printed, Room, Unread, Unreadable, View

_FIELD = re.compile(r"\{(\w+)\}")
_ARGS = "args->"
_FUNCTIONS = {"dsa_min": "min", "dsa_max": "max", "dsa_div": "//", "dsa_mod": "%"}
_MEMORIES = ("GLOBAL", "SHARED", "REGISTER")
_WATCHED = re.compile(
    r'^ *\{\n *const vl_view given\[\] = \{\n((?: *\{.*\},\n)+) *\};\n *vl_given\(given, "[rw]*"\);\n'
    r'( *leaf_\w+\(.*\);)\n *vl_given\(given, ""\);\n *\}$',
    re.MULTILINE,
)
"""a leaf in C and what the simulator is told around it"""


def read(kernel: Kernel, program: Program) -> Printed:
    """Return the hierarchy of a C kernel as its text says it. `program` only says how buffers are laid out.

    Raises:
        Unreadable: the text is none that the emitter prints. Unread: a call of the vendor is more than a plain one, or
        the kernel has workspaces.
    """
    if workspaces(launches(program)):
        raise Unread("it has workspaces")
    rules = storage(program.machine)
    text = dict(kernel.files)[kernel.main]
    body = re.search(
        r"^static void kernel\(void \*opaque\) \{\n(.*?)^\}\n", text, re.MULTILINE | re.DOTALL
    )
    if body is None:
        raise Unreadable("no function kernel")
    reading = _Reading(load_vendor(rules.vendor))
    cores = int(load_machine(program.machine).limits.get("cores", 1))
    reading.numbers[CORE_NUM] = Const(cores)
    plain = _WATCHED.sub(_unwatched, body.group(1))
    reading.read(read_body(plain, text.count("\n", 0, body.start(1)) + 1))
    return Printed(
        file=kernel.main,
        acts=tuple(reading.acts),
        names=_names(program),
        order=_order(text),
        rooms=reading.rooms,
        places={b.name: place(b, rules) for b in buffers(program)},
        tiled=True,
        symbol=lambda call: call.task if call.task.startswith("dsa.") else call.symbol,
        scalars=scalars,
    )


def _unwatched(found: re.Match[str]) -> str:
    """Return the call of a leaf with its views in their places, on the line where it stands."""
    views = [line.strip().removesuffix(",") for line in found[1].splitlines()]

    def view(at: re.Match[str]) -> str:
        return f"(vl_view){views[int(at[1])]}" if int(at[1]) < len(views) else at[0]

    above = found[0].count("\n", 0, found.start(2) - found.start())
    below = found[0].count("\n") - above
    return "\n" * above + re.sub(r"\bgiven\[(\d+)\]", view, found[2]) + "\n" * below


def _names(program: Program) -> dict[str, str]:
    """Return the text's name of each buffer: TVM's script has modules called I, R and T, so its printer numbers such names."""
    own = {b.name: b.name for b in buffers(program)}
    return own | {f"{n}_1": n for n in ("I", "R", "T") if n in own and f"{n}_1" not in own}


def place(buffer: Buffer, rules: Storage) -> Place:
    """Return how this target lays out one version of a buffer: rows, local ones with the machine's pitch."""
    shape = rules.stored(buffer)
    steps = tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))
    return Place.of_steps(steps, math.prod(shape))


def scalars(call: LeafCall) -> list[Scalar]:
    """Return the numbers that the vendor's call of an operation takes."""
    prim = call.prims[0]
    match call.task:
        case "dsa.mma":
            turned = 2 * bool(prim.attr("trans_a")) + 4 * bool(prim.attr("trans_b"))
            return [Const(int(prim.name != "gemm_acc") + turned)]
        case "dsa.fill" if not call.scalars:
            return [float(prim.attr("value"))]  # type: ignore[arg-type]
        case "dsa.vec_index":
            return []
    return [v for _, v in call.scalars]


def _order(text: str) -> tuple[str, ...]:
    fields = re.search(r"^typedef struct \{\n(.*?)^\} kernel_args;", text, re.MULTILINE | re.DOTALL)
    entry = re.search(r"^  kernel_args args = \{\n(.*?)^  \};", text, re.MULTILINE | re.DOTALL)
    if fields is None or entry is None:
        raise Unreadable("no kernel_args")
    names = re.findall(r"\*(\w+);", fields.group(1))
    if re.findall(r"pointers\[(\d+)\],", entry.group(1)) != [str(i) for i in range(len(names))]:
        raise Unreadable("parameters out of order")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Spelled:
    """One operation's template: what stands for an argument is its field ("" = the text itself)."""

    op: str
    arguments: tuple[tuple[str, str], ...]

    def fields(self, args: tuple[Node, ...]) -> dict[str, Node] | None:
        """Return field -> argument when a call fits, else None."""
        if len(args) != len(self.arguments):
            return None
        found: dict[str, Node] = {}
        for (field, text), arg in zip(self.arguments, args, strict=True):
            if field:
                found[field] = arg
            elif arg != Name(text):
                return None
        return found


def spellings(vendor: Vendor) -> dict[str, list[Spelled]]:
    """Return the operations that each function of a vendor may be called for.

    Raises:
        Unread: a template is more than one plain call.
    """
    found: dict[str, list[Spelled]] = {}
    for op, template in vendor.calls.items():
        call, arguments = _template(template)
        found.setdefault(call, []).append(Spelled(op, arguments))
    return found


def _template(template: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return (call, (field or "", text) per argument) of a template that is one plain call."""
    text = template if template.endswith(";") else template + ";"
    try:
        body = read_body(_FIELD.sub(r"field_\1", text), 1)
    except Unreadable as e:
        raise Unread(f"the call {template!r}") from e
    match body:
        case (Do(Call(Name(call), args)),) if all(isinstance(a, Name) for a in args):
            words = [a.text for a in args if isinstance(a, Name)]
            return call, tuple(
                (w.removeprefix("field_") if w.startswith("field_") else "", w) for w in words
            )
    raise Unread(f"the call {template!r}")


class _Reading(CReading):
    functions = _FUNCTIONS

    def __init__(self, vendor: Vendor) -> None:
        super().__init__()
        self.calls = spellings(vendor)
        self.memories = {_template(vendor.memory[m])[0]: m for m in _MEMORIES}
        self.addresses = {m: Spelled(m, _template(vendor.memory[m])[1]) for m in _MEMORIES}
        self.operand, parts = _template(vendor.operand)
        self.parts = Spelled(self.operand, parts)
        self.dtypes = {text: dtype for dtype, text in vendor.dtypes.items()}
        self.queues = {text: queue for queue, text in vendor.queues.items()}
        self.core = {"core_id": vendor.core_id, CORE_NUM: vendor.core_num}

    def declare(self, line: Declare) -> None:
        match line.value:
            case Name(text) if line.kind == "enum" and text.isdigit():
                room = Room(memory="", offset=int(text), scope=self.scope, line=line.line)
                self.room(line.name, room)
            case Name("opaque"):
                pass
            case Name(text) if text == _ARGS + line.name:
                pass
            case Call(Name(text), ()) if self.core.get(line.name) == f"{text}()":
                pass
            case _:
                super().declare(line)

    def call(self, call: Call, line: int) -> None:
        self.needs = []
        for spelled in self.calls.get(call.name.text, ()):
            fields = spelled.fields(call.args)
            if fields is not None:
                self.operation(spelled.op, fields, line)
                return
        if not call.name.text.startswith("leaf_"):
            super().call(call, line)
            return
        views = tuple(self.view(a) for a in call.args if isinstance(a, Call) and a.braces)
        numbers = (self.number(a) for a in call.args if not (isinstance(a, Call) and a.braces))
        self.act("leaf", call.name.text, line, views, tuple(numbers))

    def operation(self, op: str, fields: Mapping[str, Node], line: int) -> None:
        """Keep one operation."""
        if op in ("dsa.set", "dsa.wait"):
            ends = [fields[x] for x in ("source", "target")]
            queues = [self.queues.get(x.text, x.text) for x in ends if isinstance(x, Name)]
            slot = self.index(fields["event"])
            self.act("post" if op == "dsa.set" else "await", ">".join(queues), line, (), (slot,))
            return
        if op in ("dsa.sync", "dsa.barrier"):
            self.act("sync", "GRID" if op == "dsa.barrier" else "CORE", line)
            return
        views = tuple(self.tile(fields[x]) for x in "dabc" if x in fields)
        numbers: list[Number] = [
            self.number(fields[x]) for x in ("s", "value", "flags") if x in fields
        ]
        copy = op in ("dsa.dma_copy", "dsa.dma_cast", "dsa.dma_fill")
        self.act("copy" if copy else "leaf", op, line, views, tuple(numbers))

    def tile(self, node: Node) -> View:
        """Return the tile of `VL_TILE(address, rows, cols, ld, dtype)`."""
        fields = None
        if isinstance(node, Call) and node.name.text == self.operand:
            fields = self.parts.fields(node.args)
        if fields is None or not isinstance(fields["dtype"], Name):
            raise Unreadable(f"the operand {node}")
        pitch = self.index(fields["ld"])
        if not isinstance(pitch, Const):
            raise Unreadable(f"the pitch {pitch}")
        return self.placed(
            fields["address"],
            fields["dtype"].text,
            (self.index(fields["rows"]), self.index(fields["cols"])),
            (pitch.value, 1),
            flat=True,
        )

    def view(self, node: Node) -> View:
        """Return the operand of `(vl_view){address, dtype, rank, {extents}, {strides}}`."""
        match node:
            case Call(Name("vl_view"), (address, Name(dtype), Name(rank), extent, steps), True):
                extents = self.indices(extent)
                if rank != str(len(extents)):
                    raise Unreadable(f"a view of rank {rank} with {len(extents)} extents")
                return self.placed(address, dtype, extents, self.whole(steps), flat=False)
        raise Unreadable(f"the operand {node}")

    def placed(
        self,
        address: Node,
        dtype: str,
        extent: tuple[Expr, ...],
        strides: tuple[int, ...],
        *,
        flat: bool,
    ) -> View:
        """Return an operand by its address, which counts elements in global memory and bytes elsewhere."""
        if not isinstance(address, Call) or address.name.text not in self.memories:
            raise Unreadable(f"the address {address}")
        memory = self.memories[address.name.text]
        name = self.dtypes.get(dtype, dtype)
        parts = self.addresses[memory].fields(address.args)
        if parts is None:
            raise Unreadable(f"the address {address}")
        counts = memory == "GLOBAL"
        if "index" in parts:
            (base, at), counts = self.based(parts["base"]), True
            at = at + self.index(parts["index"])
        else:
            base, at = self.based(address.args[0])
        return View(
            base=base,
            at=at,
            extent=extent,
            strides=strides,
            unit=1 if counts else nbytes(name),
            dtype=name,
            memory=memory,
            flat=flat,
        )
