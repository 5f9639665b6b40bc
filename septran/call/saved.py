"""A compiled module on disk: kernels, what their parameters are, the graph they are judged against, and weights.

    DIR/module.json     septran.module/2: signed; one entry for each set of input shapes
    DIR/weights.bin     the weights' bytes one after another; module.json has names, places and the hash

Nothing in it is code that a reader runs: plain values only, never pickle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septran.aten.graph import parse_graph
from septran.aten.once import PREFIX
from septran.atomic import write_atomic
from septran.call.structure import structured
from septran.errors import InputError
from septran.kernel import Kernel, KernelParam
from septran.verify.evidence import bad_name, kernel_json, signed, signer

if TYPE_CHECKING:
    import torch

SCHEMA = "septran.module/2"
_READ = ("septran.module/1", SCHEMA)
"""The first has no kernels of prepared tensors."""
_MAIN, _WEIGHTS = "module.json", "weights.bin"
_MOST_TEXT = 256 << 20
_ALIGN = 64
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A result of the graph. kind: user_output, or what is written: buffer_mutation and user_input_mutation (of `target`); plain: what is no tensor; name: the node's."""

    kind: str
    target: str
    shape: tuple[int, ...] | None
    plain: Any = None
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The open sizes of a kernel. shapes: parameter -> sizes over the dims. domain: dim -> ends, in the kernel's order."""

    shapes: Mapping[str, tuple[str, ...]]
    domain: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedKernel:
    """What a call with one set of shapes runs.

    key: shape and dtype, or text, of each flattened argument. parameters: of the kernel -> (kind, name). order: user
    inputs, as the flattened tensors come. structure: how results hang together; numbers stand for the results.
    file: the name of the module's file. graph: JSON of the exported graph, which is the kernel's meaning. opened: None
    where all sizes are fixed. prepared: JSON of the graph that makes the tensors that are prepared once of the module's own;
    empty where there are none.
    """

    key: tuple[Any, ...]
    kernel: Kernel
    parameters: Mapping[str, tuple[str, str]]
    order: tuple[str, ...]
    results: tuple[Result, ...]
    structure: Any
    file: str
    graph: str
    opened: Opened | None = None
    prepared: str = ""

    @property
    def reads(self) -> frozenset[str]:
        """Names of the module's own tensors that a call needs: the kernel's, what is prepared of them, and what it changes."""
        found = {name for kind, name in self.parameters.values() if kind != "user_input"}
        if self.prepared:
            found -= {n for n in found if n.startswith(PREFIX)}
            found |= {i.target for i in parse_graph(self.prepared, self.file, {}).inputs}
        return frozenset(found | {r.target for r in self.results if r.kind == "buffer_mutation"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A module on disk, read. place: the SepTran and machine that judged it. signer: its public key, hex."""

    name: str
    backend: str
    arch: str
    mode: str
    place: str
    kernels: tuple[SavedKernel, ...]
    weights: Mapping[str, torch.Tensor] | None
    signer: str = ""


def write_saved(saved: Saved, folder: Path) -> None:
    """Write the folder.

    Raises:
        InputError: V220, a result's structure is none that can be written.
    """
    raw, rows = _packed(saved.weights or {})
    data = {
        "schema": SCHEMA,
        "name": saved.name,
        "backend": saved.backend,
        "arch": saved.arch,
        "mode": saved.mode,
        "place": saved.place,
        "kernels": [_kernel_to_json(k) for k in saved.kernels],
        "weights": None if saved.weights is None else rows,
        "weights_sha256": hashlib.sha256(raw).hexdigest(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / _WEIGHTS, raw)
    write_atomic(folder / _MAIN, signed(data) + "\n")


def read_saved(folder: Path) -> Saved:
    """Return what `folder` holds once its signature and hashes are checked; nothing of it is run.

    Raises:
        InputError: V221 not a saved module, V222 it was changed.
    """
    main = folder / _MAIN
    try:
        data = json.loads(_read(main, _MOST_TEXT))
        key = signer(data, main)
        if data["schema"] not in _READ:
            raise ValueError(f"its schema is {data['schema']!r}, not {SCHEMA}")
        raw = _read(folder / _WEIGHTS)
        if hashlib.sha256(raw).hexdigest() != data["weights_sha256"]:
            raise InputError.of(
                "V222", f"{folder / _WEIGHTS}: these are not the weights that were saved"
            )
        return Saved(
            name=str(data["name"]),
            backend=str(data["backend"]),
            arch=str(data["arch"]),
            mode=str(data["mode"]),
            place=str(data["place"]),
            kernels=tuple(_kernel_from_json(k, main) for k in data["kernels"]),
            weights=None if data["weights"] is None else _unpacked(raw, data["weights"]),
            signer=key,
        )
    except _BROKEN as e:
        raise InputError.of("V221", f"{main} is not a saved module: {type(e).__name__}: {e}") from e


def _read(path: Path, most: int | None = None) -> bytes:
    if path.is_symlink() or not path.is_file():
        raise ValueError(f"{path.name} is no plain file")
    if most is not None and path.stat().st_size > most:
        raise ValueError(f"{path.name} is larger than {most} bytes")
    return path.read_bytes()


def _kernel_to_json(one: SavedKernel) -> dict[str, Any]:
    return {
        "key": one.key,
        "kernel": kernel_json(one.kernel),
        "parameters": {n: list(p) for n, p in one.parameters.items()},
        "order": list(one.order),
        "results": [asdict(r) for r in one.results],
        "structure": one.structure,
        "file": one.file,
        "graph": one.graph,
        "opened": None if one.opened is None else asdict(one.opened),
        "prepared": one.prepared,
    }


def _kernel_from_json(data: Mapping[str, Any], path: Path) -> SavedKernel:
    about = data["kernel"]
    kernel = Kernel(
        name=str(about["name"]),
        backend=str(about["backend"]),
        arch=str(about["arch"]),
        entry=str(about["entry"]),
        params=tuple(
            KernelParam(
                name=str(p["name"]),
                shape=tuple(map(int, p["shape"])),
                dtype=str(p["dtype"]),
                privilege=p["privilege"],
            )
            for p in about["params"]
        ),
        main=str(about["main"]),
        files=tuple((str(name), str(text)) for name, text in about["files"]),
        leaves=(),
        options=tuple((str(name), value) for name, value in about["options"]),
    )
    wrong = bad_name(dict(kernel.files), kernel.main, kernel.entry)
    if wrong:
        raise InputError.of("V221", f"{path}: {wrong}")
    if kernel.sha != about["sha"]:
        raise InputError.of("V222", f"{path}: the sources are not those that were judged")
    structured(data["structure"], list(range(len(data["results"]))))  # it is one, or ValueError
    return SavedKernel(
        key=_tuples(data["key"]),
        kernel=kernel,
        parameters={
            str(n): (str(kind), str(name)) for n, (kind, name) in data["parameters"].items()
        },
        order=tuple(map(str, data["order"])),
        results=tuple(
            Result(
                kind=str(r["kind"]),
                target=str(r["target"]),
                shape=None if r["shape"] is None else tuple(map(int, r["shape"])),
                plain=r["plain"],
                name=str(r.get("name", "")),
            )
            for r in data["results"]
        ),
        structure=data["structure"],
        file=str(data["file"]),
        graph=str(data["graph"]),
        opened=_opened_from_json(data.get("opened")),
        prepared=str(data.get("prepared", "")),
    )


def _opened_from_json(data: Mapping[str, Any] | None) -> Opened | None:
    if data is None:
        return None
    return Opened(
        shapes={str(n): tuple(map(str, s)) for n, s in data["shapes"].items()},
        domain={str(n): (int(low), int(high)) for n, (low, high) in data["domain"].items()},
    )


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _packed(weights: Mapping[str, torch.Tensor]) -> tuple[bytes, list[dict[str, Any]]]:
    """Return the bytes of all weights, and where each lies."""
    import torch

    raw, rows = bytearray(), []
    for name, tensor in weights.items():
        whole = tensor.detach().cpu().contiguous()
        body = whole.reshape(-1).view(torch.uint8).numpy().tobytes() if whole.numel() else b""
        raw += b"\0" * (-len(raw) % _ALIGN)
        rows.append(
            {
                "name": name,
                "dtype": str(whole.dtype).removeprefix("torch."),
                "shape": list(whole.shape),
                "offset": len(raw),
                "bytes": len(body),
            }
        )
        raw += body
    return bytes(raw), rows


def _unpacked(raw: bytes, rows: list[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    import torch

    from septran.ir.dtypes import DTYPES

    memory = bytearray(raw)
    found = {}
    for row in rows:
        if row["dtype"] not in DTYPES:
            raise ValueError(f"weight {row['name']} has dtype {row['dtype']}")
        shape, at, size = tuple(map(int, row["shape"])), int(row["offset"]), int(row["bytes"])
        dtype = getattr(torch, row["dtype"])
        if at < 0 or size < 0 or at + size > len(memory):
            raise ValueError(f"weight {row['name']} ends outside the file")
        if size == 0:
            found[str(row["name"])] = torch.empty(shape, dtype=dtype)
            continue
        part = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=at)
        found[str(row["name"])] = part.view(dtype).reshape(shape)
    return found
