"""Primitives along an axis on the vector unit: a column is picked out with a mask, one after another.

Parts of a buffer's last axis are not aligned as the unit wants them, so every operation works on whole tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from septran.backends.npuir.vectors import Vec, Vectors

_NOWHERE = "16777216.0"
"""A position behind every other; float32 has all whole numbers up to it."""
_FIRST = {
    "sum": "0.0",
    "prod": "1.0",
    "max": '-T.infinity("float32")',
    "min": 'T.infinity("float32")',
}
_COMBINE = {"sum": "vadd", "prod": "vmul", "max": "vmax", "min": "vmin"}


@dataclass(frozen=True, slots=True)
class Along:
    """Operations along dim `axis` of tiles; length: text of the extent there."""

    vectors: Vectors
    axis: int
    length: str

    def positions(self, shape: tuple[int, ...]) -> Vec:
        """Return the position along the axis of every element of a tile."""
        out = self.vectors.scratch(shape, "int32")
        strides = [int(d == self.axis) for d in range(len(shape))]
        self.vectors.op("arange", out.text, str(strides), "0")
        return out

    def filled(self, shape: tuple[int, ...], value: str) -> Vec:
        """Return a tile of one number."""
        out = self.vectors.scratch(shape)
        self.vectors.op("vbrc", value, out.text)
        return out

    def thin(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one column."""
        return tuple(1 if d == self.axis else n for d, n in enumerate(shape))

    def equal(self, a: Vec, b: str, mode: str = "eq") -> Vec:
        """Return where elements compare with others or with a scalar."""
        out = self.vectors.scratch(a.shape or (), "bool")
        self.vectors.op("vcmp", a.text, b, out.text, f'"{mode}"')
        return out

    def column(self, x: Vec, places: Vec, zeros: Vec, r: str, shape: tuple[int, ...]) -> Vec:
        """Return column `r` of x, as often as `shape` has columns; x of one column is that."""
        v = self.vectors
        assert x.shape is not None
        if x.shape[self.axis] == 1:
            thin = Vec(x.text, x.shape, x.dtype)
        else:
            here = self.equal(places, r)
            alone = v.scratch(x.shape)
            v.op("vselect", here.text, x.text, zeros.text, alone.text)
            thin = v.scratch(self.thin(x.shape))
            v.op("reduce", alone.text, thin.text, f"dims=[{self.axis}]", 'reduce_mode="sum"')
            v.release(here, alone)
        return thin if thin.shape == shape else v.buffer(thin, shape)

    def scan(self, x: Vec, op: str, *, reverse: bool) -> Vec:
        """Return the running sums (or the like) of x."""
        v, shape = self.vectors, x.shape or ()
        places, zeros, out = (
            self.positions(shape),
            self.filled(shape, "0.0"),
            self.filled(shape, "0.0"),
        )
        held = self.filled(self.thin(shape), _FIRST[op])
        with self.vectors.loop("r", self.length) as r:
            at = f"{self.length} - 1 - {r}" if reverse else r
            new = self.column(x, places, zeros, at, held.shape or ())
            v.op(_COMBINE[op], held.text, new.text, held.text)
            v.release(new)
            here, full = self.equal(places, at), v.buffer(Vec(held.text, held.shape), shape)
            v.op("vselect", here.text, full.text, out.text, out.text)
            if full.text != held.text:
                v.release(full)
            v.release(here)
        v.release(places, zeros, held)
        return out

    def first(self, x: Vec, best: Vec) -> Vec:
        """Return the first position where x is `best` or NaN."""
        v, shape = self.vectors, x.shape or ()
        index = self.positions(shape)
        where, nowhere = v.scratch(shape), self.filled(shape, _NOWHERE)
        v.op("vcast", index.text, where.text)
        full = v.buffer(best, shape)
        for mode, other in (("eq", full.text), ("ne", x.text)):
            here = self.equal(x, other, mode)
            v.op("vselect", here.text, where.text, nowhere.text, nowhere.text)
            v.release(here)
        found = v.scratch(self.thin(shape))
        v.op("reduce", nowhere.text, found.text, f"dims=[{self.axis}]", 'reduce_mode="min"')
        v.release(index, where, nowhere, full)
        return found

    def scatter(self, y: Vec, x: Vec, which: Vec, op: str) -> Vec:
        """Return y combined with the columns of x, each where its position says, one after another."""
        v, shape = self.vectors, y.shape or ()
        places, zeros = self.positions(x.shape or ()), self.filled(x.shape or (), "0.0")
        own, out = v.scratch(shape), v.scratch(shape)
        index, asked = self.positions(shape), v.buffer(v.wide(which), x.shape or ())
        v.op("vcast", index.text, own.text)
        v.op("copy", y.text, out.text)
        with v.loop("r", self.length) as r:
            new = self.column(x, places, zeros, r, shape)
            at = self.column(asked, places, zeros, r, shape)
            here = self.equal(own, at.text)
            if op != "last":
                v.op(_COMBINE[op], out.text, new.text, new.text)
            v.op("vselect", here.text, new.text, out.text, out.text)
            v.release(new, at, here)
        v.release(places, zeros, own, index)
        return out

    def asked(self, which: Vec, shape: tuple[int, ...]) -> Vec:
        """Return positions as 32-bit integers, those far outside as some that are outside."""
        v = self.vectors
        near = v.buffer(v.wide(which), shape)
        if near.text == which.text:
            near = v.scratch(shape)
            v.op("copy", which.text, near.text)
        v.op("vmax", near.text, "-1.0", near.text)
        v.op("vmin", near.text, _NOWHERE, near.text)
        out = v.scratch(shape, "int32")
        v.op("vcast", near.text, out.text, 'round_mode="trunc"')
        v.release(near)
        return out

    def gather(self, x: Vec, which: Vec, shape: tuple[int, ...]) -> Vec:
        """Return x at the positions `which`, 0 where they are outside."""
        v = self.vectors
        places, zeros = self.positions(x.shape or ()), self.filled(x.shape or (), "0.0")
        out, asked = self.filled(shape, "0.0"), self.asked(which, shape)
        with self.vectors.loop("r", self.length) as r:
            found = self.column(x, places, zeros, r, shape)
            here = self.equal(asked, r)
            v.op("vselect", here.text, found.text, out.text, out.text)
            v.release(found, here)
        v.release(places, zeros, asked)
        return out
