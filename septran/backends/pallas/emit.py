"""Program -> one Pallas source file: leaves, kernels, and a function `entry` from arrays to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from septran.backends.pallas.blocks import Operand, plan_of
from septran.backends.pallas.kernel import KernelText
from septran.backends.pallas.prelude import PRELUDE
from septran.backends.pallas.shapes import (
    JNP_DTYPE,
    free_names,
    held,
    index_text,
    shape_text,
)
from septran.backends.text.names import Names
from septran.backends.text.prelude import helpers
from septran.ir.access import regions
from septran.ir.dtypes import is_float
from septran.ir.launch import HostLoop, Launch, Step, launches
from septran.ir.nodes import Alloc, Buffer, Param, Program
from septran.kernel import Kernel, Leaf

MAIN = "kernel.py"
_HEAD = '''\
"""{name} for {target} {arch}, emitted by SepTran."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
'''


@dataclass(slots=True)
class _File:
    """What is collected while the host's steps are walked. filled: arrays that hold something already."""

    program: Program
    leaves: Mapping[str, Leaf]
    names: Names = field(default_factory=free_names)
    arrays: dict[str, str] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    kernels: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)

    def steps(self, steps: tuple[Step, ...], indent: int, text: dict[str, str]) -> None:
        """Emit what the host does: launches, and sequential loops that are unrolled while it is traced."""
        for step in steps:
            match step:
                case Alloc(buffer=buffer):
                    self.arrays[buffer.name] = self.names.fresh(buffer.name)
                    if indent > 1:
                        self.nothing(buffer, 1)
                case Launch():
                    self._launch(step, indent, text)
                case HostLoop(loop=loop):
                    parts = {r.buffer.name: r.buffer for r, how in regions(loop) if "w" in how}
                    for name, buffer in parts.items():
                        if buffer.mem == "GLOBAL" and name in self.arrays.keys() - self.filled:
                            self.nothing(buffer, indent)
                    var = self.names.fresh(loop.var)
                    self.host.append(
                        f"{'    ' * indent}for {var} in range({index_text(loop.extent, text, host=True)}):"
                    )
                    self.steps(step.steps, indent + 1, {**text, loop.var: var})

    def nothing(self, buffer: Buffer, indent: int) -> None:
        """An array that later steps fill part by part."""
        value = "jnp.nan" if is_float(buffer.dtype) else "77"
        full = f"jnp.full({shape_text(held(buffer.shape))}, {value}, {JNP_DTYPE[buffer.dtype]})"
        self.host.append(f"{'    ' * indent}{self.arrays[buffer.name]} = {full}")
        self.filled.add(buffer.name)

    def _launch(self, launch: Launch, indent: int, text: dict[str, str]) -> None:
        number = len(self.kernels)
        found = plan_of(self.program, number, launch)
        name = self.names.fresh(
            f"{self.program.name}_kernel" + (f"_{number + 1}" if number else "")
        )
        outs = [o for o in found.operands if o.written]
        kept = frozenset(o.buffer.name for o in outs if o.buffer.name in self.filled)
        kernel = KernelText(
            name=name, plan=found, leaves=self.leaves, host_vars=tuple(text), kept=kept
        )
        self.kernels.append(kernel.render())
        ins = [o for o in found.operands if not o.written or o.buffer.name in kept]
        ins.sort(
            key=lambda o: o.written
        )  # inputs first, in the order in which the kernel takes them
        pad = "    " * indent
        args = [self._padded(o, pad) for o in ins]
        aliases = {i: outs.index(o) for i, o in enumerate(ins) if o.written}
        called = name
        if text:
            given = ", ".join(f"{kernel.vars[v]}={text[v]}" for v in text)
            called = f"functools.partial({name}, {given})"
        order = [v for v, _ in found.grid]
        words = ["parallel" if v in found.parallel else "arbitrary" for v in order]
        meanings = [f'"{word}"' for word in words or ["arbitrary"]]
        sizes = [n for _, n in found.grid] or [1]
        scratch = [_scratch(b) for b in found.scratch]
        scratch += [f"pltpu.SemaphoreType.DMA(({f.tile.versions},))" for f in found.flights]
        lines = [
            f"{called},",
            f"grid={shape_text(sizes)},",
            f"in_specs=({''.join(_spec(o, order) + ', ' for o in ins).rstrip()}),",
            f"out_specs=({''.join(_spec(o, order) + ', ' for o in outs).rstrip()}),",
            f"out_shape=({' '.join(_out(o) + ',' for o in outs)}),",
            f"scratch_shapes=({' '.join(text + ',' for text in scratch)}),",
            *([f"input_output_aliases={aliases},"] if aliases else []),
            f"compiler_params=pltpu.CompilerParams(dimension_semantics={shape_text(meanings)}),",
            "interpret=interpret,",
        ]
        made = {o.buffer.name: self.arrays[o.buffer.name] for o in outs}
        wide = [o.buffer for o in outs if o.padded and o.copied]
        made |= {b.name: self.names.fresh(f"{b.name}_wide") for b in wide}
        targets = "".join(f"{name}, " for name in made.values()).rstrip()
        self.host.append(f"{pad}({targets}) = pl.pallas_call(")
        self.host += [f"{pad}    {line}" for line in lines]
        self.host.append(f"{pad})({', '.join(args)})")
        for b in wide:
            low, high = shape_text((0,) * len(held(b.shape))), shape_text(held(b.shape))
            cut = f"lax.slice({made[b.name]}, {low}, {high})"
            self.host.append(f"{pad}{self.arrays[b.name]} = {cut}")
        self.filled |= {o.buffer.name for o in outs}

    def _padded(self, operand: Operand, pad: str) -> str:
        name = self.arrays[operand.buffer.name]
        if not operand.padded:
            return name
        wide = self.names.fresh(f"{operand.buffer.name}_wide")
        around = shape_text(
            [f"({a}, {b})" for a, b in zip(operand.before, operand.after, strict=True)]
        )
        self.host.append(f"{pad}{wide} = jnp.pad({name}, {around})")
        return wide


def _spec(operand: Operand, order: list[str]) -> str:
    if operand.copied:
        return "pl.BlockSpec(memory_space=pl.ANY)"
    names = ", ".join(order) or "_"
    index = shape_text([var or "0" for var in operand.by])
    return f"pl.BlockSpec({shape_text(operand.block)}, lambda {names}: {index})"


def _out(operand: Operand) -> str:
    shape = operand.block if operand.copied else held(operand.buffer.shape)
    return f"jax.ShapeDtypeStruct({shape_text(shape)}, {JNP_DTYPE[operand.buffer.dtype]})"


def _scratch(buffer: Buffer) -> str:
    slots = (buffer.versions,) if buffer.versions > 1 else ()
    shape = shape_text((*slots, *held(buffer.shape)))
    return f"pltpu.VMEM({shape}, {JNP_DTYPE[buffer.dtype]})"


def emit(program: Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the Pallas kernel of a finished `program`; leaves: by symbol, in the order they are printed in."""
    file = _File(program=program, leaves=leaves)
    for param in program.params:
        file.arrays[param.buffer.name] = file.names.fresh(param.buffer.name)
        if param.privilege != "w":
            file.filled.add(param.buffer.name)
    file.steps(launches(program), 1, {})
    for param in program.params:
        if param.buffer.name not in file.filled:
            file.nothing(param.buffer, 1)  # a step of a leaf that is judged alone: nobody asks
    functions = [leaf.source.strip() + "\n" for leaf in leaves.values()]
    code = "\n\n".join([*functions, *file.kernels])
    takes = [p for p in program.params if p.privilege != "w"]
    gives = [p for p in program.params if p.privilege != "r"]
    args = ", ".join([*(file.arrays[p.buffer.name] for p in takes), "interpret=False"])
    shaped = [
        f"    {file.arrays[p.buffer.name]} = {file.arrays[p.buffer.name]}.reshape"
        f"({shape_text(held(p.buffer.shape))})"
        for p in takes
        if held(p.buffer.shape) != p.buffer.shape
    ]
    results = ", ".join(_result(p.buffer, file.arrays[p.buffer.name]) for p in gives)
    entry = [
        f"def entry({args}):",
        f'    """Return {_described(gives)}; arguments: {_described(takes)}."""',
        *shaped,
        *file.host,
        f"    return ({results},)",
        "",
    ]
    names = [p.buffer.name for p in program.params]
    order = [
        f"TAKES = {shape_text([names.index(p.buffer.name) for p in takes]) if takes else '()'}",
        f"GIVES = {shape_text([names.index(p.buffer.name) for p in gives])}",
        '"""Which of the kernel\'s tensors `entry` takes and returns."""',
        "",
    ]
    head = _HEAD.format(name=program.name, target=program.target, arch=program.arch)
    if "functools." not in "\n".join(file.host):
        head = head.replace("import functools\n\n", "")
    parts = [head, helpers(PRELUDE, program, code), code, "\n".join(entry), "\n".join(order)]
    text = "\n\n".join(p.rstrip("\n") + "\n" for p in parts if p)
    return Kernel.of(program, entry="entry", main=MAIN, files=((MAIN, text),), leaves=leaves)


def _described(params: Sequence[Param]) -> str:
    return ", ".join(f"{p.buffer.name} {list(p.buffer.shape)} {p.buffer.dtype}" for p in params)


def _result(buffer: Buffer, name: str) -> str:
    if held(buffer.shape) == buffer.shape:
        return name
    return f"{name}.reshape({shape_text(buffer.shape) if buffer.shape else '()'})"
