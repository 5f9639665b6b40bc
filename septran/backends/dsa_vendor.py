"""Vendor tables: how a vendor's C calls are spelled, read from configs/vendors/<name>.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from septran.errors import ConfigError, closest

_VEC_UNARY = "copy neg abs exp exp2 log sqrt rsqrt tanh sigmoid erf".split()
_VEC_BINARY = "add sub mul div pow max min lt le gt ge eq ne".split()
_REVERSED = "sub div pow".split()
_REDUCE = "sum prod max min".split()

OPERATIONS: tuple[str, ...] = (
    "dsa.dma_copy",
    "dsa.dma_cast",
    "dsa.dma_fill",
    "dsa.fill",
    "dsa.mma",
    "dsa.set",
    "dsa.wait",
    "dsa.sync",
    "dsa.barrier",
    "dsa.vec_select",
    "dsa.vec_index",
    "dsa.vec_transpose",
    *(f"dsa.vec_{n}" for n in _VEC_UNARY),
    *(f"dsa.vec_{n}" for n in _VEC_BINARY),
    *(f"dsa.vec_{n}s" for n in _VEC_BINARY),
    *(f"dsa.vec_r{n}s" for n in _REVERSED),
    *(f"dsa.vec_reduce_{n}" for n in _REDUCE),
)
"""Every operation a kernel can contain."""
REQUIRED = ("dsa.dma_copy", "dsa.set", "dsa.wait", "dsa.sync", "dsa.barrier")
"""Operations no table may leave out; an operator that needs another missing one is refused (C122)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor's call set.

    calls: operation -> C statement template; "" = nothing to emit. families: "{op}" shorthands.
    memory: GLOBAL/SHARED/REGISTER -> address template. operand: how a tile is written.
    headers, sources: file names in the runtime folder; sources make it run here (the simulator).
    """

    name: str
    calls: Mapping[str, str]
    memory: Mapping[str, str]
    operand: str
    dtypes: Mapping[str, str]
    queues: Mapping[str, str]
    headers: tuple[str, ...]
    sources: tuple[str, ...]
    core_id: str
    core_num: str
    launch: str
    bind: str
    texts: Mapping[str, str] = field(default_factory=dict)
    """file name -> text, for headers the table carries itself."""


def load_vendor(name: str) -> Vendor:
    """Return the vendor table `configs/vendors/<name>.yaml`.

    Raises:
        ConfigError: C012 no such file, C121 a call or key is missing or unknown.
    """
    from septran import spanyaml
    from septran.assets import find

    doc = spanyaml.load(find(f"configs/vendors/{name}.yaml").path)
    return vendor_of(name, doc.value)


def vendor_of(name: str, data: object) -> Vendor:
    """Return the vendor of parsed YAML `data`."""

    def wrong(message: str) -> ConfigError:
        found = ConfigError.of("C121", f"vendor table {name}: {message}")
        assert isinstance(found, ConfigError)
        return found

    if not isinstance(data, dict):
        raise wrong("the file must hold a mapping")
    calls: dict[str, str] = {}
    for op, template in data.get("calls", {}).items():
        if isinstance(template, dict):  # a family: {template: "f({op}, ...)", ops: {add: VL_ADD}}
            for short, word in template["ops"].items():
                calls[op.split(" ")[0].replace("*", short)] = template["template"].replace(
                    "{op}", str(word)
                )
        else:
            calls[op] = template or ""
    unknown = sorted(set(calls) - set(OPERATIONS))
    if unknown:
        raise wrong(f"unknown operation {unknown[0]!r}{closest(unknown[0], OPERATIONS)}")
    missing = sorted(set(REQUIRED) - set(calls))
    if missing:
        raise wrong(f"no call for {', '.join(missing)}")
    try:
        return Vendor(
            name=name,
            calls=calls,
            memory=dict(data["memory"]),
            operand=data["operand"],
            dtypes=dict(data["dtypes"]),
            queues=dict(data.get("queues") or {}),
            headers=tuple(data["headers"]),
            sources=tuple(data.get("sources") or ()),
            core_id=data["core_id"],
            core_num=data["core_num"],
            launch=data["launch"],
            bind=data.get("bind", ""),
            texts=dict(data.get("texts") or {}),
        )
    except KeyError as e:
        raise wrong(f"key {e.args[0]!r} is missing") from e
