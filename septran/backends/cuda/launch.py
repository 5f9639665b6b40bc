"""Prints the host code that launches a Program's kernels."""

from __future__ import annotations

from septran.backends.cuda.dialect import dialect
from septran.backends.cuda.kernel import KernelWriter
from septran.backends.cuda.passes.place_shared import shared_end
from septran.backends.text.cstyle import CStyle, identifier
from septran.ir.access import regions, writes
from septran.ir.expr import bounds
from septran.ir.launch import HostLoop, Launch, Step, launches, workspaces
from septran.ir.nodes import Buffer, Program, Stmt

STATIC_LIMIT = 48 * 1024
"""Bytes of shared memory that a kernel may take without asking."""
TENSOR_COPY = 16
"""Bytes that the address of a tensor has to be a multiple of where tensor copies read it."""


class HostWriter(CStyle):
    """Prints kernels and the function that launches them in order."""

    def __init__(self, program: Program, products: frozenset[str]) -> None:
        """products: leaves that are one product of warpgroups and wait for nothing else."""
        super().__init__()
        self.program = program
        self.products = products
        self.dialect = dialect(program.target)
        self.kernels: list[str] = []
        self.shared_bytes = 0
        self.alignment: int | None = None
        self.host_vars: dict[str, int] = {}
        self.written = writes(program.body)

    def text(self, entry: str) -> str:
        """Return kernels, launch function and entry."""
        self.depth = 1
        api = self.dialect.api
        steps = launches(self.program)
        self.steps(steps)
        host = "\n".join(self.lines)
        params = [
            f"    {self._pointer_type(p.buffer.name, p.buffer)} = "
            f"static_cast<{self._kind(p.buffer.name, p.buffer)}>(args[{i}]);"
            for i, p in enumerate(self.program.params)
        ]
        room = []
        for b in workspaces(steps):
            kind = self.dialect.types[b.dtype]
            room.append(f"    {kind}* {identifier(b.name)} = nullptr;")
            room.append(
                f'    if ({api}MallocAsync(&{identifier(b.name)}, {b.nbytes}, stream)) return "out of device memory";'
            )
        free_ = [f"    {api}FreeAsync({identifier(b.name)}, stream);" for b in workspaces(steps)]
        outputs = ", ".join(
            f"{{args[{i}], {p.buffer.nbytes}}}"
            for i, p in enumerate(self.program.params)
            if "w" in p.privilege
        )
        return "\n".join(
            [
                *self.kernels,
                "// ---- launch: device pointers in parameter order; returns an error text or nullptr",
                f"static const char* {entry}_launch(void* const* args, {api}Stream_t stream) {{",
                *params,
                *room,
                host,
                *free_,
                f"    const {api}Error_t error = {api}GetLastError();",
                f"    return error == {api}Success ? nullptr : {api}GetErrorString(error);",
                "}",
                "",
                f'extern "C" __attribute__((visibility("default"))) const char* {entry}_on(void* const* args, void* stream) {{',
                f"    return {entry}_launch(args, static_cast<{api}Stream_t>(stream));",
                "}",
                "",
                f'extern "C" __attribute__((visibility("default"))) void {entry}(void* const* args) {{',
                "#ifdef SEPTRAN_EMULATE",
                f"    cuemu::in_every_order({{{outputs}}}, [&] {{ {entry}_launch(args, nullptr); }});",
                "#else",
                f"    if (const char* error = {entry}_launch(args, nullptr)) {{",
                '        fprintf(stderr, "launch failed: %s\\n", error);',
                "        abort();",
                "    }",
                "#endif",
                "}",
                "",
            ]
        )

    def _kind(self, name: str, buffer: Buffer) -> str:
        const = "" if name in self.written else "const "
        return f"{const}{self.dialect.types[buffer.dtype]}*"

    def _pointer_type(self, name: str, buffer: Buffer) -> str:
        return f"{self._kind(name, buffer)} const {identifier(name)}"

    def steps(self, steps: tuple[Step, ...]) -> None:
        """Print what the host does: launches and loops around them."""
        for step in steps:
            match step:
                case Launch():
                    self._launch(step)
                case HostLoop():
                    self.host_vars[step.loop.var] = bounds(step.loop.extent, self.ranges)[1]
                    self.begin(step.loop)
                    self.steps(step.steps)
                    self.close()
                    del self.host_vars[step.loop.var]

    def _launch(self, launch: Launch) -> None:
        body = launch.body
        writer = KernelWriter(self.program, self.host_vars, self.products)
        buffers = {r.buffer.name: r.buffer for r, _ in regions(*body) if r.buffer.mem == "GLOBAL"}
        declared = [self._argument(b, body) for b in buffers.values()]
        declared += [f"const st::idx {identifier(v)}" for v in self.host_vars]
        passed = [identifier(n) for n in (*buffers, *self.host_vars)]
        number = len(self.kernels) or ""
        name = f"{identifier(self.program.name)}_kernel{number}"
        self.kernels.append(writer.kernel(name, launch, ", ".join(declared)))
        for map_name, (buffer, box) in writer.maps.items():
            self.alignment = TENSOR_COPY
            self._tensor_map(f"{map_name}{number}", buffer, box)
            passed.append(f"{map_name}{number}")
        shared = shared_end(body)
        if shared > STATIC_LIMIT:
            api = self.dialect.api
            kernel = f"reinterpret_cast<const void*>({name})" if self.dialect.by_address else name
            self.line(
                f"{api}FuncSetAttribute({kernel}, {api}FuncAttributeMaxDynamicSharedMemorySize, {shared});"
            )
        self.line(
            f"ST_LAUNCH({name}, dim3({launch.blocks}), dim3(SEPTRAN_THREADS), {shared}, stream, "
            f"{', '.join(passed)});"
        )
        self.shared_bytes = max(self.shared_bytes, shared)

    def _tensor_map(self, name: str, buffer: Buffer, box: tuple[int, ...]) -> None:
        shape, tile = (", ".join(map(str, x)) for x in (buffer.shape, box))
        self.line(f"st::TensorMap {name};")
        self.line(
            f"if (const char* error = st::tensor_map({name}, {identifier(buffer.name)}, "
            f"{{{shape}}}, {{{tile}}})) return error;"
        )

    def _argument(self, buffer: Buffer, body: tuple[Stmt, ...]) -> str:
        kind, name = self.dialect.types[buffer.dtype], identifier(buffer.name)
        if buffer.name in writes(body):
            return f"{kind}* __restrict__ {name}"
        return f"const {kind}* __restrict__ {name}"
