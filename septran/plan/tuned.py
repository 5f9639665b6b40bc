"""What a tuner found for an operator at its sizes on a machine: `configs/tuned/<backend>.yaml`, one entry a result.

Every layer may have the file (project, user, packages, bundled); the first entry that fits counts. An entry fits the
same logic text, dtype, policy file, machine and class of sizes: each dim has as many binary digits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from septran import assets, spanyaml
from septran.errors import ConfigError
from septran.mapping.schema import Policy

COMMENT = "What `septran tune` found. `septran gen` takes it by itself (--no-tuned: not); an entry may be removed, copied or shared."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """One result. values: choice (`instance.tunable`) -> value, {} where the default is best.

    logic, mapping: hashes of the logic's text and of the policy file. machine: see `resolve.machine_of`. default, found: of the default and of
    `values`, in `unit`. low, high: interval of default / found. trials: kernels that were verified. how: timed, counted or predicted (of a
    model alone: it gives way to a result of the other kinds). file: where it stands.
    """

    op: str
    logic: str
    arch: str
    dtype: str
    dims: Mapping[str, int]
    machine: str
    mapping: str
    values: Mapping[str, object]
    unit: str
    default: float
    found: float
    low: float
    high: float
    trials: int
    how: str = ""
    file: str = field(default="", compare=False)

    def key(self) -> tuple[object, ...]:
        """Return what a request is compared with."""
        return (self.op, self.logic, self.arch, self.dtype, self.machine, self.mapping, size_class(self.dims))  # fmt: skip

    @property
    def predicted(self) -> bool:
        """Whether nobody has measured it."""
        return self.how == "predicted"

    def text(self) -> str:
        """Return the values, and where and at which sizes they were found."""
        values = ", ".join(f"{name}={value}" for name, value in self.values.items())
        sizes = " ".join(f"{name}={size}" for name, size in self.dims.items())
        gain = f"{self.default / self.found:.2f} x the default" if self.values else "nothing better"
        if self.predicted:
            gain = f"predicted, not measured: {gain}"
        return f"{values or 'the default'} (found at {sizes}: {gain}; {self.file})"

    def to_json(self) -> dict[str, Any]:
        """Return plain values, as the file has them."""
        found = asdict(self)
        del found["file"]
        return found


def size_class(dims: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the class of sizes: each dim's number of binary digits."""
    return tuple(sorted((name, size.bit_length()) for name, size in dims.items()))


def policy_sha(policy: Policy) -> str:
    """Return the hash of a policy's file."""
    return hashlib.sha256(Path(policy.file).read_bytes()).hexdigest()[:16]


def entries(backend: str) -> tuple[Tuned, ...]:
    """Return the entries of all layers, the strongest layer first.

    Raises:
        ConfigError: C010 and its kind, from the file; C123, an entry that cannot be read.
    """
    name = f"configs/tuned/{backend}.yaml"
    return tuple(e for asset in assets.every(name) for e in read(asset.path))


def read(path: Path) -> tuple[Tuned, ...]:
    """Return the entries of one file.

    Raises:
        ConfigError: C010 and its kind; C123, an entry that cannot be read.
    """
    doc = spanyaml.load(path)
    found = []
    rows = doc.value or []
    for i, row in enumerate(rows if isinstance(rows, list) else [rows]):
        try:
            found.append(Tuned(**row, file=str(path)))
            size_class(found[-1].dims), float(found[-1].default), dict(found[-1].values)
        except (TypeError, ValueError, AttributeError) as e:
            raise ConfigError.of(
                "C123",
                f"entry {i + 1} is not what `septran tune` writes: {e}",
                doc.span(i) if isinstance(rows, list) else doc.span(),
                help="remove the entry, and tune again",
            ) from e
    return tuple(found)


def added(path: Path, entry: Tuned) -> str:
    """Return the text of the file at `path` with `entry` in the place of one that fits the same requests.

    What was measured stays beside what is predicted, and counts (`results_for`).
    """
    old = read(path) if path.is_file() else ()
    kept = [e for e in old if e.key() != entry.key() or (entry.predicted and not e.predicted)]
    return spanyaml.dump([e.to_json() for e in (*kept, entry)], comment=COMMENT, flow_depth=2)
