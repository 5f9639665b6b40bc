"""Pass `place_shared`: where in a block's shared memory each tile and barrier object lies.

Rows of a tile are padded against bank conflicts, panels start at the 1024 bytes that their swizzle counts from, and
everything lies one after another: a kernel's tiles are all alive together.
"""

from __future__ import annotations

import math

from septran.backends.cuda.passes.wgmma import is_panels
from septran.ir.dtypes import nbytes
from septran.ir.launch import Launch, map_kernels
from septran.ir.nodes import Alloc, Buffer, For, Program, Stmt, allocated, walk
from septran.machine import load_machine
from septran.passes.check_memory import Held, check_memory
from septran.passes.place_buffers import with_offsets

SLOTS = "slots"
"""Layout of the barrier objects of a ring of tensor copies: two words a slot."""
RESERVED = 2048
"""Bytes kept for the scratch of block-wide reductions."""


def pitch(buffer: Buffer) -> int:
    """Return the elements from one row of a shared tile to the next.

    A row starts 16-byte aligned and one 16-byte unit is added, so that eight rows read by ldmatrix
    (or four-float loads) fall into different banks.
    """
    unit = max(1, 16 // nbytes(buffer.dtype))
    return -(-buffer.shape[-1] // unit) * unit + unit


def shared_shape(buffer: Buffer) -> tuple[int, ...]:
    """Return the shape of a shared tile with its padded rows; panels and barrier objects have none."""
    if is_panels(buffer) or buffer.layout == SLOTS:
        return buffer.shape
    return (*buffer.shape[:-1], pitch(buffer))


def shared_bytes(buffer: Buffer) -> int:
    """Return the bytes of one version as stored; of a tile a multiple of 128."""
    size = math.prod(shared_shape(buffer)) * nbytes(buffer.dtype)
    return size if buffer.layout == SLOTS else -(-size // 128) * 128


def place_shared(program: Program) -> Program:
    """Return `program` with an offset for everything that its kernels allocate in SHARED.

    Raises:
        MappingError: M011, a block needs more shared memory than the machine has.
    """
    capacity = load_machine(program.machine).capacity("SHARED") - RESERVED

    def kernel(launch: Launch, around: tuple[For, ...]) -> tuple[Stmt, ...]:
        shared = [s for s in walk(launch.body) if isinstance(s, Alloc) and s.buffer.mem == "SHARED"]
        offsets: dict[str, int] = {}
        held: list[Held] = []
        end = 0
        for stmt in shared:
            buffer, start = stmt.buffer, end
            align = 1024 if is_panels(buffer) else 1
            offsets[buffer.name] = -(-end // align) * align
            end = offsets[buffer.name] + shared_bytes(buffer) * buffer.versions
            held.append(Held.of(buffer, end - start, stmt.span))
        check_memory(
            "SHARED",
            "BLOCK",
            capacity,
            held,
            help="reduce pipeline or the block sizes; a row that the logic keeps whole has to fit, or the "
            "logic has to go over it in tiles",
        )
        sizes = {s.buffer.name: shared_bytes(s.buffer) for s in shared}
        return with_offsets(launch.body, offsets, sizes)

    return map_kernels(program, kernel)


def shared_end(body: tuple[Stmt, ...]) -> int:
    """Return the bytes of shared memory that a kernel's body takes, once they are placed."""
    return max(
        (
            (b.offset or 0) + shared_bytes(b) * b.versions
            for b in allocated(body)
            if b.mem == "SHARED"
        ),
        default=0,
    )
