"""What dsa_c reads from a machine file: storage padding, banks for placement, the simulator's figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from septran.errors import ConfigError, closest
from septran.ir.dtypes import nbytes
from septran.ir.nodes import Buffer
from septran.machine import Machine, load_machine
from septran.passes.place_buffers import Bank

_CONFIG = (
    ("VL_CORES", "cores", 4),
    ("VL_SPAD_BANKS", "spad_banks", 16),
    ("VL_ALIGN_BYTES", "align_bytes", 32),
    ("VL_MMA_PITCH", "mma_pitch", 16),
    ("VL_VEC_BYTES", "vec_bytes", 64),
    ("VL_EVENTS", "events", 64),
    ("VL_DMA_BYTES_PER_CYCLE", "dma_bytes_per_cycle", 64),
    ("VL_DMA_LATENCY", "dma_latency", 200),
    ("VL_MMA_LATENCY", "mma_latency", 32),
    ("VL_VEC_LATENCY", "vec_latency", 8),
    ("VL_CLEAR_BYTES_PER_CYCLE", "clear_bytes_per_cycle", 1024),
)
_USUAL = {key: value for _, key, value in _CONFIG} | {"lanes": 1}
_MOST_CORES = 200


@dataclass(frozen=True, slots=True)
class Storage:
    """How a machine stores buffers; made from its file."""

    machine: Machine

    def limit(self, name: str) -> int:
        """Return a figure of the machine file's `limits`, the usual one where it says none."""
        return int(self.machine.limits.get(name, _USUAL[name]))

    @property
    def vendor(self) -> str:
        """Return the name of the vendor table (`limits: {vendor: ...}`)."""
        return str(self.machine.limits.get("vendor", "vendor_lib"))

    def pitch(self, buffer: Buffer) -> int:
        """Return elements between rows: local rows are padded to the machine's granule."""
        if not buffer.shape:
            return 1
        last = buffer.shape[-1]
        if buffer.mem == "GLOBAL" or len(buffer.shape) < 2:
            return last
        step = max(self.limit("align_bytes") // nbytes(buffer.dtype), self.limit("mma_pitch"))
        return -(-last // step) * step

    def stored(self, buffer: Buffer) -> tuple[int, ...]:
        """Return the shape of one version as stored: rows are padded, and fill all lanes where a machine has them.

        A machine with lanes keeps row r of a matrix on lane r % lanes, so each matrix starts on the first one.
        """
        if buffer.mem == "GLOBAL" or not buffer.shape:
            return buffer.shape
        lanes = self.limit("lanes")
        rows = [-(-n // lanes) * lanes for n in buffer.shape[-2:-1]]
        return (*buffer.shape[:-2], *rows, self.pitch(buffer))

    def nbytes(self, buffer: Buffer) -> int:
        """Return bytes of one version as stored, of one lane where a machine has them; versions start at aligned addresses."""
        total = nbytes(buffer.dtype) * math.prod(self.stored(buffer))
        total //= self.limit("lanes") if len(buffer.shape) > 1 else 1
        align = self.limit("align_bytes")
        # versions of a vector are elements apart, so only matrices are rounded
        return total if len(buffer.shape) < 2 else -(-total // align) * align

    def banks(self) -> Mapping[str, Bank]:
        """Return the bounded memories."""
        return {
            m.name: Bank(name=m.name, capacity=m.capacity, align=max(m.align, 1))
            for m in self.machine.memories.values()
            if m.capacity is not None
        }

    def config(self) -> str:
        """Return `vl_config.h`: the figures the simulator is built with."""
        mma = [int(x) for x in self.machine.limits.get("mma", (16, 16, 1))]
        values = {
            "VL_SPAD_BYTES": self._capacity("SHARED"),
            "VL_ACC_BYTES": self._capacity("REGISTER"),
            "VL_MMA_ROWS": mma[0],
            "VL_MMA_COLS": mma[1],
            "VL_MMA_DEPTH": mma[2],
            **{name: self.limit(key) for name, key, _ in _CONFIG},
        }
        lines = [f"/* Facts of machine {self.machine.name}. */", "#ifndef VL_CONFIG_H"]
        lines.append("#define VL_CONFIG_H")
        lines.extend(f"#define {name} {value}" for name, value in values.items())
        return "\n".join([*lines, "#endif", ""])

    def _capacity(self, name: str) -> int:
        memory = self.machine.memory(name)
        return int(memory.capacity or 0) if memory is not None else 0


def storage(machine: str) -> Storage:
    """Return the storage rules of the machine file called `machine`.

    Raises:
        ConfigError: C120, a limit that the machine cannot have or that nothing reads.
    """
    found = load_machine(machine)
    for key, problem in _problems(found):
        from septran import spanyaml
        from septran.assets import find

        span = spanyaml.load(find(f"configs/machines/{machine}.yaml").path).key_span("limits", key)
        raise ConfigError.of("C120", f"machine {machine}: {problem}", span)
    return Storage(found)


def _problems(machine: Machine) -> Iterator[tuple[str, str]]:
    """Yield (limit, what is wrong with it)."""
    lowest = {key: 1 for _, key, _ in _CONFIG} | {"dma_latency": 0, "mma_latency": 0}
    lowest |= {"vec_latency": 0, "lanes": 1}
    for key, value in machine.limits.items():
        if key == "vendor" or key.startswith("peak_"):  # the latter are for bench
            continue
        if key == "mma":
            if not isinstance(value, list) or len(value) != 3 or not all(map(_positive, value)):
                yield key, "mma is [rows, columns, depth per cycle]"
        elif key not in lowest:
            yield key, f"unknown limit {key!r}{closest(key, (*lowest, 'mma', 'vendor'))}"
        elif not isinstance(value, int) or isinstance(value, bool) or value < lowest[key]:
            yield key, f"{key} is a whole number from {lowest[key]}, not {value!r}"
        elif key == "cores" and value > _MOST_CORES:
            yield key, f"cores: the simulator has at most {_MOST_CORES}"
    for name in ("SHARED", "REGISTER"):
        memory = machine.memory(name)
        if memory is None or not memory.capacity:
            yield name, f"memory {name} needs a capacity in bytes"


def _positive(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def machine_name(arch: str) -> str:
    """Return the machine file of an arch: dsa_c.<arch>, or dsa_c for the default."""
    return "dsa_c" if arch in ("", "generic") else f"dsa_c.{arch}"
