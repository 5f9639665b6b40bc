"""The memory a kernel works in: shared files that the parent fills, poisons and reads.

Each tensor lies in pages of its own. The child maps them between pages it may not touch, once so that the
tensor ends at the page's end (overruns fault), once so that it starts at the page's start (underruns
fault), and once a few elements further in, as a view of a user's tensor may lie. Inputs are in a file that the kernel (the operating system's) has sealed against writing by anybody
but the mapping the parent already holds, so no mprotect in the child can make them writable.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from septran.ir.dtypes import is_float
from septran.kernel import KernelParam
from septran.verify.cases import numpy_dtype

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

PAGE = mmap.PAGESIZE
PLACEMENTS = ("end", "start", "loose")
Placement = Literal["end", "start", "loose"]
Held = Literal["nan", "numbers", "zeros"]
_F_ADD_SEALS, _SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW, _SEAL_FUTURE_WRITE = 1033, 1, 2, 4, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where a tensor lies in its file for one placement: `offset` is a page's, `lead` bytes precede it."""

    name: str
    file: Literal["inputs", "outputs"]
    offset: int
    pages: int
    lead: int
    nbytes: int


class Arena:
    """Both files, mapped by the parent. `alignment`: bytes that every tensor's address is a multiple of.

    guard: for kernels that run on copies in device memory, the bytes before and after each tensor that
    are copied with it, and back, inputs included; 0 when the child works on these very pages.
    again: among the inputs lies room for what tensors that are read and written hold before a call, `sources`,
    so that the child can make many calls on the same inputs.
    """

    def __init__(
        self,
        params: tuple[KernelParam, ...],
        *,
        alignment: int | None = None,
        guard: int = 0,
        again: bool = False,
    ) -> None:
        self._params = params
        self._alignment = alignment
        self._guarded = bool(guard)
        self.slots: dict[str, tuple[Slot, ...]] = {}
        sizes: dict[Literal["inputs", "outputs"], int] = {"inputs": 0, "outputs": 0}
        for placement in PLACEMENTS:
            found = []
            for param in params:
                which: Literal["inputs", "outputs"] = (
                    "inputs" if param.privilege == "r" and not guard else "outputs"
                )
                slot = _slot(param, which, sizes[which], placement, alignment, guard)
                sizes[which] += slot.pages * PAGE
                found.append(slot)
            self.slots[placement] = tuple(found)
        self.sources: dict[str, Slot] = {}
        for param in params:
            if again and param.privilege == "rw":
                slot = _slot(param, "inputs", sizes["inputs"], "start", alignment, 0)
                sizes["inputs"] += slot.pages * PAGE
                self.sources[param.name] = slot
        self.not_enforced: tuple[str, ...] = ()
        self._files: dict[str, int] = {}
        self._maps: dict[str, mmap.mmap] = {}
        for name, size in sizes.items():
            fd = os.memfd_create(f"septran-{name}", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
            os.ftruncate(fd, max(size, PAGE))
            self._files[name] = fd
            self._maps[name] = mmap.mmap(fd, max(size, PAGE))
            seals = _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL
            self._seal(fd, seals | (_SEAL_FUTURE_WRITE if name == "inputs" else 0))

    def _seal(self, fd: int, seals: int) -> None:
        try:
            fcntl.fcntl(fd, _F_ADD_SEALS, seals)
        except OSError as error:
            self.not_enforced = (f"sealed inputs: {error.strerror}",)

    def unit_of(self, name: str) -> int:
        """Return what a tensor's address is a multiple of, wherever it lies."""
        param = next(p for p in self._params if p.name == name)
        return _unit(param, self._alignment)

    @property
    def descriptors(self) -> tuple[int, int]:
        """File descriptors (inputs, outputs) for the child."""
        return self._files["inputs"], self._files["outputs"]

    def close(self) -> None:
        """Give the memory back."""
        for which, view in self._maps.items():
            with contextlib.suppress(BufferError):
                view.close()
            os.close(self._files[which])
        self._maps, self._files = {}, {}

    def fill(
        self,
        placement: Placement,
        inputs: Mapping[str, Array],
        noise: np.random.Generator,
        *,
        held: Held = "nan",
    ) -> None:
        """Write the inputs; poison outputs and all slack bytes with random NaN bits and noise.

        held: what outputs hold before: NaN, ordinary numbers as an earlier result would be, or zeros as fresh memory
        does: a kernel may not take them for its own, nor tell that they are not its users'.
        """
        import numpy as np

        for param, slot in zip(self._params, self.slots[placement], strict=True):
            whole = self.bytes_of(slot)
            if slot.file == "outputs":
                # random bytes around the tensor show writes beside it; on a device, where nothing
                # stops a read beside it, they are NaN
                for part in (whole[: slot.lead], whole[slot.lead + slot.nbytes :]):
                    kind = param.dtype if self._guarded else "uint8"
                    part[:] = poison(kind, part.size, noise)
            body = whole[slot.lead : slot.lead + slot.nbytes]
            if param.name in inputs:
                body[:] = inputs[param.name].reshape(-1).view(np.uint8)
            else:
                body[:] = poison(param.dtype, slot.nbytes, noise, held)

    def keep(self, inputs: Mapping[str, Array]) -> None:
        """Write what tensors that are read and written hold before each of many calls."""
        import numpy as np

        for name, slot in self.sources.items():
            body = self.bytes_of(slot)[slot.lead : slot.lead + slot.nbytes]
            body[:] = inputs[name].reshape(-1).view(np.uint8)

    def snapshot(self, placement: Placement) -> dict[str, bytes]:
        """Return output name -> its pages (slack included), as they are now; with guards also inputs."""
        return {
            slot.name: self.bytes_of(slot).tobytes()
            for slot in self.slots[placement]
            if slot.file == "outputs"
        }

    def bytes_of(self, slot: Slot) -> Array:
        """Return the slot's pages, as they are and writable by the parent alone."""
        import numpy as np

        return np.frombuffer(
            self._maps[slot.file], dtype=np.uint8, count=slot.pages * PAGE, offset=slot.offset
        )


def tensor_bytes(slot: Slot, pages: bytes) -> bytes:
    """Return the tensor's own bytes out of a snapshot."""
    return pages[slot.lead : slot.lead + slot.nbytes]


def slack_bytes(slot: Slot, pages: bytes) -> bytes:
    """Return the bytes beside the tensor out of a snapshot."""
    return pages[: slot.lead] + pages[slot.lead + slot.nbytes :]


def poison(dtype: str, nbytes: int, noise: np.random.Generator, held: Held = "nan") -> Array:
    """Return bytes that are a random NaN of `dtype` in each element; random bytes for integers.

    held: normal random numbers or zeros instead of NaNs.
    """
    import numpy as np

    kind = numpy_dtype(dtype)
    if held == "zeros":
        return np.zeros(nbytes, dtype=np.uint8)
    if held == "numbers" and is_float(dtype):
        numbers: Array = noise.standard_normal(nbytes // kind.itemsize).astype(kind)
        return numbers.view(np.uint8)
    raw = noise.integers(0, 256, nbytes, dtype=np.uint8)
    exponent = {"float64": (np.uint64, 0x7FF8 << 48), "float32": (np.uint32, 0x7FC0 << 16)}
    exponent |= {"float16": (np.uint16, 0x7E00), "bfloat16": (np.uint16, 0x7FC0)}
    if dtype == "bool":
        return raw & 1
    if dtype not in exponent:
        return raw
    word, bits = exponent[dtype]
    raw.view(word)[:] |= word(bits)
    return raw


def _unit(param: KernelParam, alignment: int | None) -> int:
    item: int = numpy_dtype(param.dtype).itemsize
    return max(alignment or item, item)


def _slot(
    param: KernelParam,
    which: Literal["inputs", "outputs"],
    offset: int,
    placement: str,
    alignment: int | None,
    guard: int,
) -> Slot:
    count = 1
    for extent in param.shape:
        count *= extent
    item = numpy_dtype(param.dtype).itemsize
    nbytes = count * item
    if guard:
        # device allocations are aligned, so both placements are; they differ in where they lie
        lead = guard + (PAGE if placement == "end" else 0)
        pages = -(-(lead + nbytes + guard) // PAGE)
        return Slot(
            name=param.name, file=which, offset=offset, pages=pages, lead=lead, nbytes=nbytes
        )
    step = _unit(param, alignment)
    loose = secrets.choice((1, 3, 5, 7)) * step if placement == "loose" else 0
    pages = max(1, -(-(loose + nbytes) // PAGE))
    lead = (pages * PAGE - nbytes) // step * step if placement == "end" else loose
    return Slot(name=param.name, file=which, offset=offset, pages=pages, lead=lead, nbytes=nbytes)
