"""Program -> one self-contained C++20 file: runtime parts, leaves, hierarchy, entry points."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul
from pathlib import Path

from septran.backends.cpp.passes import HOST, open_dims, peak_of, schedule_of
from septran.backends.cpp.spelling import literal
from septran.backends.text.cstyle import (
    C_TYPES,
    CStyle,
    Layout,
    banner,
    identifier,
)
from septran.errors import InternalError
from septran.ir import nodes as ir
from septran.ir.dtypes import compute_dtype
from septran.ir.expr import Const, Expr, bounds
from septran.ir.launch import nest
from septran.kernel import Kernel, Leaf, kernel_params, size_name
from septran.passes.name_leaves import RUNTIME
from septran.passes.place_workspaces import open_bytes, open_place, workspace_rows

_INCLUDES = re.compile(r"^#include <.*>$", re.MULTILINE)


def emit(program: ir.Program, leaves: Mapping[str, Leaf]) -> Kernel:
    """Return the kernel of a finished `program`; leaves: by symbol, in the order in which they are printed.

    Its entry is `extern "C" void <name>_entry(void* const* args)`, args in parameter order. Compiled
    with SEPTRAN_PYBIND the file is also a Python module with `call(*tensors_or_addresses)`.
    """
    entry = f"{identifier(program.name)}_entry"
    writer = CppWriter(program, entry, leaves)
    hierarchy = writer.text()
    sources = "\n".join(f"// {leaf.headline}\n{leaf.source.strip()}\n" for leaf in leaves.values())
    parts = [banner(program), _prelude(program)]
    parts.append("// ---- leaves\n\n" + sources)
    parts.append("// ---- hierarchy\n\n" + hierarchy)
    parts.append(_python_module([p.name for p in kernel_params(program)], entry))
    main = f"{identifier(program.name)}.cpp"
    return Kernel.of(
        program,
        entry=entry,
        main=main,
        files=((main, "\n".join(parts)),),
        leaves=leaves,
    )


def runtime_folder() -> Path:
    """Return the folder with the C++ headers that kernels are made of."""
    return Path(__file__).resolve().parent / "runtime"


def first_includes() -> str:
    """Return the `#include` lines that every kernel begins with."""
    return "\n".join(_INCLUDES.findall((runtime_folder() / "view.h").read_text(encoding="utf-8")))


def _prelude(program: ir.Program) -> str:
    parts = program.option(RUNTIME)
    assert isinstance(parts, list)
    includes: dict[str, None] = {}
    bodies = []
    for part in parts:
        source = (runtime_folder() / f"{part}.h").read_text(encoding="utf-8")
        includes.update(dict.fromkeys(_INCLUDES.findall(source)))
        body = re.sub(r"^#include <.*>\n", "", source, flags=re.MULTILINE).strip()
        bodies.append(f"// ---- runtime: {part}\n{body}\n")
    return "\n".join([*sorted(includes), "", *bodies])


def _python_module(params: Sequence[str], entry: str) -> str:
    names = [identifier(name) for name in params]
    handles = ", ".join(f"pybind11::handle {n}" for n in names)
    pointers = ", ".join(f"address({n})" for n in names)
    return f"""\
// ---- Python module: call(tensor or address, ..)
#ifdef SEPTRAN_PYBIND
#include <pybind11/pybind11.h>

// An address as int, or anything with data_ptr().
static void* address(pybind11::handle x) {{
    static PyObject* const name = PyUnicode_InternFromString("data_ptr");
    if (PyLong_CheckExact(x.ptr())) return PyLong_AsVoidPtr(x.ptr());
    PyObject* const number = PyObject_CallMethodNoArgs(x.ptr(), name);
    if (!number) throw pybind11::error_already_set();
    void* const p = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return p;
}}

PYBIND11_MODULE(SEPTRAN_PYBIND, module) {{
    module.def("call", []({handles}) {{
        void* const args[] = {{{pointers}}};
        {entry}(args);
    }});
}}
#endif
"""


class CppWriter(CStyle):
    """Prints the hierarchy of one Program."""

    def __init__(self, program: ir.Program, entry: str, leaves: Mapping[str, Leaf]) -> None:
        super().__init__()
        self.program = program
        self.entry = entry
        self.leaves = leaves
        self.workspaces = {row.buffer.name for row in workspace_rows(program)}
        self.region = "host"
        """which scratch block allocations come from: "host", or "core" inside a parallel loop."""

    def text(self) -> str:
        """Return the C++ text of the entry function."""
        self.open(
            f'extern "C" __attribute__((visibility("default"))) '
            f"void {self.entry}(void* const* args)"
        )
        for at, param in enumerate(self.program.params):
            kind = C_TYPES[param.buffer.dtype]
            const = "const " if param.privilege == "r" else ""
            name = identifier(param.buffer.name)
            self.line(f"{const}{kind}* const {name} = static_cast<{const}{kind}*>(args[{at}]);")
        for at, dim in enumerate(self.program.dims, len(self.program.params)):
            name = self.words[dim.name] = identifier(size_name(dim.name))
            self.ranges[dim.name] = (dim.low, dim.high)
            self.line(f"const long {name} = st::size(args[{at}]);")
        self._scratch(0, HOST)
        self.body(self.program.body)
        self.close()
        return "\n".join(self.lines) + "\n"

    # ---- memory
    def _scratch(self, number: int, block: str) -> None:
        """Print the block of scratch memory that `place_scratch` found to be needed, if any."""
        size: Expr = Const(peak_of(self.program, block))
        arena = open_place(self.program, "") if block == HOST else None
        if arena is not None:  # behind all that has a place already
            size = arena + size
        if size != Const(0):
            self.line(f"char* const {self.region} = st::scratch<{number}>({self.expr(size)});")

    def alloc(self, stmt: ir.Alloc) -> None:
        """Print a buffer as a slice of the scratch block; workspaces share their bytes with others."""
        buffer = stmt.buffer
        kind, name = C_TYPES[buffer.dtype], identifier(buffer.name)
        layout = "" if buffer.layout == "row" else f" as {buffer.layout}"
        versions = f" x{buffer.versions}" if buffer.versions > 1 else ""
        place, size = open_place(self.program, buffer.name), str(buffer.size)
        if place is None:
            room = f"{self.region} + {buffer.offset}"
        else:
            room = f"{self.region} + {self.expr(place + peak_of(self.program, HOST))}"
            size = self.expr(open_bytes(buffer))
        if buffer.name in self.workspaces:
            room = f"st::fresh({room}, {size})"
        self.line(
            f"{kind}* const {name} = reinterpret_cast<{kind}*>({room});"
            f"  // {buffer.mem} {buffer.dtype}{list(buffer.shape)}{layout}{versions}"
        )

    # ---- loops
    def loop(self, stmt: ir.For) -> None:
        """Print a loop; independent CORE iterations become one OpenMP region."""
        schedule = schedule_of(self.program, stmt) if self.region == "host" else ""
        if not schedule:
            super().loop(stmt)
            return
        grid, _ = nest(stmt, open_dims(self.program))
        threads = self.program.option("threads")
        clause = f" num_threads({threads})" if isinstance(threads, int) else ""
        blocks = reduce(mul, (level.extent for level in grid))
        if not isinstance(blocks, Const):  # a single block stays on its thread
            clause += f" if({self.expr(blocks)} > 1)"
        self.line(f"#pragma omp parallel{clause}")
        self.open("")
        self.region = "core"
        self._scratch(1, stmt.var)
        collapse = f" collapse({len(grid)})" if len(grid) > 1 else ""
        self.line(f"#pragma omp for{collapse} schedule({schedule})")
        for level in grid:
            var = identifier(level.var)
            self.ranges[level.var] = (0, bounds(level.extent, self.ranges)[1] - 1)
            head = f"for (long {var} = 0; {var} < {self.expr(level.extent)}; ++{var})"
            if level is grid[-1]:
                self.open(head)
            else:
                self.line(head)
        self.body(grid[-1].body)
        self.close()
        self.region = "host"
        self.close()

    # ---- work
    def _view(self, region: ir.Region, *, const: bool) -> str:
        kind = ("const " if const else "") + C_TYPES[region.buffer.dtype]
        return f"st::View<{kind}, {region.rank}>{self._view_body(region)}"

    def _view_body(self, region: ir.Region) -> str:
        steps = self.braces(self.view_strides(region))
        return f"{{{self.pointer(region)}, {self.braces(region.extent)}, {steps}}}"

    def copy(self, stmt: ir.Copy) -> None:
        """Print a copy, a padded copy or a packing."""
        dst, src = stmt.dst, stmt.src
        if dst.rank != src.rank:
            raise InternalError(f"copy {src.buffer.name} -> {dst.buffer.name}: ranks differ")
        if Layout.of(src.buffer) is not None:
            raise InternalError(f"copy from packed {src.buffer.name}: not supported")
        source = self._padded(src) if src.guard else self._view(src, const=True)
        layout = Layout.of(stmt.dst.buffer)
        if layout is None:
            name = "copy_planes" if dst.buffer.strides and dst.buffer.steps[-1] != 1 else "copy"
            self.line(f"st::{name}({self._view(dst, const=False)}, {source});")
            return
        name = "pack_rows" if layout.over_rows else "pack_cols"
        stride = layout.stride(stmt.dst.buffer.shape)
        self.line(f"st::{name}<{layout.width}>({self.pointer(stmt.dst)}, {stride}, {source});")

    def buffer_steps(self, buffer: ir.Buffer) -> tuple[Expr | int, ...]:
        """Return the strides of a buffer: those of one with open sizes follow from its extents."""
        if buffer.strides or not buffer.extent:
            return buffer.steps
        found: list[Expr | int] = [1]
        for size in reversed(buffer.extent[1:]):
            found.append(size * found[-1])
        return tuple(reversed(found))

    def _padded(self, region: ir.Region) -> str:
        buffer = region.buffer
        steps = self.braces(self.buffer_steps(buffer))
        first = identifier(buffer.name) + (f" + {buffer.start}" if buffer.start else "")
        fill = f", {literal(region.fill, compute_dtype((buffer.dtype,)))}" if region.fill else ""
        return (
            f"st::padded<const {C_TYPES[buffer.dtype]}, {region.rank}>({first}, "
            f"{self.braces(region.extent)}, {steps}, "
            f"{self.braces(buffer.extent or buffer.shape)}, "
            f"{self.braces(region.offset)}, {self.braces(region.step)}{fill})"
        )

    def leaf_call(self, stmt: ir.LeafCall) -> None:
        """Print the call of a leaf with a view per tensor argument."""
        spec = self.leaves[stmt.symbol].spec
        args = [self._view_body(a.region) for a in stmt.args]
        for (_, value), (_, kind) in zip(stmt.scalars, spec.scalars, strict=True):
            args.append(self.expr(value) if isinstance(value, Expr) else f"float({kind})")
        self.line(f"{spec.symbol}({(',' + ' ').join(args)});")

    def synchronise(self, stmt: ir.Sync | ir.Post | ir.Await) -> None:
        """Print nothing: a core's copies have landed when they return."""
