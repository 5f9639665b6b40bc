"""How fast a machine is, as its file says: the `speed:` section of configs/machines/*.yaml.

Everything is in ticks (cycles of the machine). A tick of a machine with a clock is a known part of a second; a
simulated one has none. A word in place of a number names a figure of the same file's `limits`, so that no fact stands twice.

    speed:
      clock: 3.79e9                  # ticks a second; left out: ticks are all there is
      of: AMD EPYC                   # whose figures these are
      sources: [where they are from]
      units: 4                       # processors that work at the same time
      launch: 200                    # ticks that starting a kernel costs, besides what it does
      issue: 2                       # ticks that a processor needs to give out one statement
      engines:                       # queue of the Program -> its figures; PROCESSOR: the processor itself
        LOAD: {row: 64, latency: 200}
        MMA: {tile: [16, 16], products: {float32: 1, float16: 2}, latency: 32}
        VEC: {vector: 64, operations: {other: 1, exp: 4}, elements: {scan: 4}, latency: 8}
      levels:                        # nearest first; the last one holds everything
        - {name: L1, bytes: 49152, read: 128, write: 64, run: 0, first: 0}   # ticks for each piece of what is read with gaps, and for a row that comes unasked; left out: 0
      windows: {engine: MMA, rows: 64, columns: 512, turned: [float32]}   # commands wait for each other; copies run beside products alone, see septran/predict/windows.py
      resident: {blocks: 32, threads: 2048, registers: 65536, shared: 233472, warp: 32, thread_registers: 255}   # a GPU: what one of its units holds at once, and a thread at most

Of a GPU the first level is shared memory, bytes a tick of one unit; the others serve all units together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from septran.errors import SeptranError, closest

PROCESSOR = "PROCESSOR"
"""The engine of statements that name none."""
OTHER = "other"
"""The operation that stands for all that are not listed."""
Wrong = Callable[..., SeptranError]
_NUMBERS = ("clock", "units", "launch", "issue")
_ENGINE = ("row", "vector", "fill", "latency", "tile", "products", "operations", "elements")
_RESIDENT = ("blocks", "threads", "registers", "shared", "warp", "thread_registers")
_LEVEL = ("name", "bytes", "read", "write", "run", "first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What one engine of a processor does in a tick; 0 or nothing: it does not do this.

    row: bytes that a copy moves in a tick; a row of a tile starts a new one. vector: bytes of elements that one element-wise
    operation takes at once, each `operations[name]` ticks; `row_sum`, `row_max`, ..: at the end of each row that is summed. elements: ticks of one element of what goes
    along an axis one element after another: scan, argreduce, gather, scatter_acc, or one of a kind: scan_max. fill: bytes set to one value. tile, products: rows and columns
    that are multiplied together, and per dtype how many steps along k in a tick. latency: ticks from the end of a command to its result.
    """

    row: float = 0.0
    vector: float = 0.0
    fill: float = 0.0
    latency: float = 0.0
    tile: tuple[int, int] = (1, 1)
    products: Mapping[str, float] = field(default_factory=dict)
    operations: Mapping[str, float] = field(default_factory=dict)
    elements: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level of memory: how many bytes it holds (None: everything), and bytes a tick to read and to write.

    run: ticks that each piece costs besides where what is read does not lie in one: hardware foresees no line across a gap.
    first: ticks until a row comes that nothing asked for before it was needed.
    """

    name: str
    bytes: int | None
    read: float
    write: float
    run: float = 0.0
    first: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """A machine whose commands wait for each other, but for copies beside products.

    engine: the queue of products. rows, columns: the largest block of a product's result. turned: dtypes whose operands a DMA moves first.
    """

    engine: str
    rows: int
    columns: int
    turned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The whole section; see the module's text."""

    of: str
    sources: tuple[str, ...]
    clock: float | None
    units: int
    launch: float
    issue: float
    engines: Mapping[str, Rates]
    levels: tuple[Level, ...] = ()
    resident: Mapping[str, float] = field(default_factory=dict)
    windows: Windows | None = None

    def level(self, size: int) -> Level:
        """Return the nearest level that holds `size` bytes."""
        return next(x for x in self.levels if x.bytes is None or x.bytes >= size)


def read_speed(data: Any, limits: Mapping[str, Any], wrong: Wrong) -> Speed | None:
    """Return the section, None when the file has none.

    wrong: message, key path below `speed:` -> the error to raise.
    """
    if data is None:
        return None
    reader = _Reader(limits, wrong)
    known = {"of", "sources", "engines", "levels", "resident", "windows", *_NUMBERS}
    found = reader.mapping(data, known)
    sources = found.get("sources") or []
    if not isinstance(sources, list) or not sources or not all(isinstance(s, str) for s in sources):
        raise wrong("sources must be a list of sentences: where the figures are from", "sources")
    for key in ("of", "engines"):
        if not found.get(key):
            raise wrong(f"{key!r} is missing")
    engines = reader.mapping(found["engines"], None, "engines")
    clock = found.get("clock")
    numbers = {key: reader.number(found.get(key, 0), key) for key in ("launch", "issue")}
    return Speed(
        of=str(found["of"]),
        sources=tuple(sources),
        clock=None if clock is None else reader.number(clock, "clock"),
        units=int(reader.number(found.get("units", 1), "units")),
        engines={name: reader.engine(name, facts) for name, facts in engines.items()},
        levels=reader.levels(found.get("levels") or []),
        resident=reader.resident(found.get("resident")),
        windows=reader.windows(found.get("windows"), engines),
        **numbers,
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    limits: Mapping[str, Any]
    wrong: Wrong

    def mapping(self, data: Any, known: Any, *path: str | int) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise self.wrong("a mapping is expected", *path)
        for key in data if known is not None else ():
            if key not in known:
                raise self.wrong(f"unknown key {key!r}{closest(str(key), known)}", *path, key)
        return data

    def number(self, value: Any, *path: str | int) -> float:
        named = self.limits.get(value, value) if isinstance(value, str) else value
        if isinstance(named, bool) or not isinstance(named, int | float) or not named >= 0:
            raise self.wrong(f"{value!r} is neither a number nor a limit of this file", *path)
        return float(named)

    def engine(self, name: str, data: Any) -> Rates:
        facts = self.mapping(data, _ENGINE, "engines", name)
        at = ("engines", name)
        tables = {
            key: {
                word: self.number(n, *at, key, word)
                for word, n in self.mapping(facts.get(key) or {}, None, *at, key).items()
            }
            for key in ("products", "operations", "elements")
        }
        tile = facts.get("tile", [1, 1])
        tile = self.limits.get(tile, tile) if isinstance(tile, str) else tile
        if not isinstance(tile, list) or len(tile) < 2 or not all(isinstance(n, int) and n > 0 for n in tile):  # fmt: skip
            raise self.wrong("tile is [rows, columns], or a limit that starts so", *at, "tile")
        single = {k: self.number(facts.get(k, 0), *at, k) for k in ("row", "vector", "fill", "latency")}  # fmt: skip
        deep = tile[2] if len(tile) > 2 else 1
        products = {dtype: n * deep for dtype, n in tables["products"].items()}
        return Rates(
            tile=(tile[0], tile[1]),
            products=products,
            operations=tables["operations"],
            elements=tables["elements"],
            **single,
        )

    def resident(self, data: Any) -> dict[str, float]:
        if data is None:
            return {}
        facts = self.mapping(data, _RESIDENT, "resident")
        missing = [key for key in _RESIDENT if key not in facts]
        if missing:
            raise self.wrong(f"{missing[0]!r} is missing", "resident")
        return {key: self.number(facts[key], "resident", key) for key in _RESIDENT}

    def windows(self, data: Any, engines: Mapping[str, Any]) -> Windows | None:
        if data is None:
            return None
        facts = self.mapping(data, ("engine", "rows", "columns", "turned"), "windows")
        if facts.get("engine") not in engines:
            raise self.wrong("engine is one of this section's engines", "windows", "engine")
        rows, columns = (int(self.number(facts.get(k), "windows", k)) for k in ("rows", "columns"))
        if not rows or not columns:
            raise self.wrong("rows and columns are above 0", "windows")
        turned = tuple(str(d) for d in facts.get("turned") or ())
        return Windows(engine=str(facts["engine"]), rows=rows, columns=columns, turned=turned)

    def levels(self, data: Any) -> tuple[Level, ...]:
        if not isinstance(data, list):
            raise self.wrong("levels is a list, the nearest first", "levels")
        found = []
        for i, item in enumerate(data):
            facts = self.mapping(item, _LEVEL, "levels", i)
            size = facts.get("bytes")
            last = i == len(data) - 1
            if (size is None) != last:
                raise self.wrong("every level but the last has bytes", "levels", i)
            rates = {key: self.number(facts.get(key, 0), "levels", i, key) for key in ("read", "write")}  # fmt: skip
            waits = {key: self.number(facts.get(key, 0), "levels", i, key) for key in ("run", "first")}  # fmt: skip
            if not all(rates.values()):
                raise self.wrong("read and write are bytes a tick, above 0", "levels", i)
            found.append(
                Level(
                    name=str(facts.get("name", i)),
                    bytes=None if size is None else int(self.number(size, "levels", i, "bytes")),
                    **rates,
                    **waits,
                )
            )
        return tuple(found)
