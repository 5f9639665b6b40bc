"""Program -> one Triton source file: kernels, a launcher named `entry`, and a list of launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.backends.text.names import Names
from septran.backends.text.prelude import helpers
from septran.backends.triton.kernel import KernelText, loads_and_stores
from septran.backends.triton.passes import WARPS
from septran.backends.triton.prelude import PRELUDE
from septran.backends.triton.shapes import SIGNATURE_DTYPE, index_text, shape_text
from septran.ir.launch import HostLoop, Launch, Step, launches
from septran.ir.nodes import Alloc, Buffer, For, Program, walk
from septran.kernel import Kernel, Leaf

MAIN = "kernel.py"


@dataclass(slots=True)
class _File:
    """What is collected while the host-level statements are walked."""

    program: Program
    leaves: Mapping[str, Leaf]
    warps: object
    names: Names = field(default_factory=Names)
    kernels: list[str] = field(default_factory=list)
    launches: list[str] = field(default_factory=list)
    host: list[str] = field(default_factory=list)
    buffers: dict[str, str] = field(default_factory=dict)
    workspaces: bool = False

    def steps(self, steps: tuple[Step, ...], indent: int, loops: dict[str, str]) -> None:
        """Emit what the host does: workspaces, sequential loops and launches."""
        pad = "    " * indent
        for step in steps:
            match step:
                case Alloc():
                    self._workspace(step.buffer, pad)
                case Launch():
                    self._launch(step, indent, loops)
                case HostLoop(loop=loop):
                    var = self.names.fresh(loop.var)
                    extent = index_text(loop.extent, loops)
                    self.host.append(f"{pad}for {var} in range({extent}):")
                    self.steps(step.steps, indent + 1, {**loops, loop.var: var})

    def _workspace(self, buffer: Buffer, pad: str) -> None:
        self.workspaces = True
        name = self.names.fresh(buffer.name)
        self.buffers[buffer.name] = name
        first = self.buffers[self.program.params[0].buffer.name]
        shape = shape_text(buffer.shape)
        self.host.append(
            f"{pad}{name} = torch.empty({shape}, dtype=torch.{buffer.dtype}, device={first}.device)"
        )

    def _launch(self, launch: Launch, indent: int, loops: dict[str, str]) -> None:
        body = launch.body
        number = len(self.kernels)
        suffix = "" if number == 0 else f"_{number + 1}"
        name = self.names.fresh(f"{self.program.name}_kernel{suffix}")
        used_buffers = loads_and_stores(body)
        order = [b for b in self.buffers if b in used_buffers]
        kernel = KernelText(
            name=name,
            program=self.program,
            leaves=self.leaves,
            pointers=tuple(order),
            host_vars=tuple(loops),
        )
        text, programs = kernel.render(launch)
        self.kernels.append(text)
        stages = max((s.pipeline for s in walk(body) if isinstance(s, For)), default=0)
        options = f"num_warps={self.warps}"
        if stages:
            options += f", num_stages={stages}"
        args = [self.buffers[b] for b in order] + [loops[v] for v in loops]
        pad = "    " * indent
        self.host.append(f"{pad}{name}[({programs},)]({', '.join(args)}, {options})")
        types = [
            f'"{kernel.pointer(b)}": "{SIGNATURE_DTYPE[used_buffers[b].dtype]}"' for b in order
        ]
        types += [f'"{kernel.host_name(v)}": "i32"' for v in loops]
        chosen = f'{{"num_warps": {self.warps}' + (f', "num_stages": {stages}' if stages else "")
        self.launches.append(f"    ({name}, {{{', '.join(types)}}}, {chosen}}}),")


def emit(program: Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the Triton kernel of a finished `program`; leaves: by symbol, in the order they are printed in.

    Raises:
        MappingError: M170, the mapping asks for something a Triton tile cannot do.
    """
    warps = program.option(WARPS)
    file = _File(program=program, leaves=leaves, warps=warps)
    for param in program.params:
        file.buffers[param.buffer.name] = file.names.fresh(param.buffer.name)
    file.steps(launches(program), 1, {})
    functions = [leaf.source.strip() + "\n" for leaf in leaves.values()]
    code = "\n\n".join([*functions, *file.kernels])
    described = ", ".join(
        f"{file.buffers[p.buffer.name]} {list(p.buffer.shape)} {p.buffer.dtype} ({p.privilege})"
        for p in program.params
    )
    args = ", ".join(file.buffers[p.buffer.name] for p in program.params)
    parts = [
        f'"""{program.name} for {program.target} {program.arch}, emitted by SepTran."""\n',
        ("import torch\n" if file.workspaces else "")
        + "import triton\nimport triton.language as tl\n",
        "",
        helpers(PRELUDE, program),
        code,
        "\n".join(
            [
                f"def entry({args}):",
                f'    """Run on contiguous tensors {described}."""',
                *file.host,
                "",
            ]
        ),
        "\n".join(["LAUNCHES = (", *file.launches, ")", ""]),
    ]
    text = "\n\n".join(p.rstrip("\n") + "\n" for p in parts if p)
    return Kernel.of(
        program,
        entry="entry",
        main=MAIN,
        files=((MAIN, text),),
        leaves=leaves,
        options=(("num_warps", warps),),
    )
