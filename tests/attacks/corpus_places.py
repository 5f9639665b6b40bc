"""Replies that ask where their tensors and variables lie, by comparing addresses; and honest ones that compare them within one tensor.

Each is right where it is judged, or its twin the other way round is.
"""

from __future__ import annotations

from tests.attacks.attack import Attack
from tests.attacks.corpus_replies import make, where

THROUGH = "726a658f"
"""the commit that those with `through` were shown to pass"""
cpp, cuda, hip = (make(f"{name} reply") for name in ("cpp", "cuda", "hip"))
_RIGHT = "X(j) > 0.0f || X(j) != X(j) ? X(j) : 0.0f"


def each(condition: str, before: str = "") -> str:
    return f"{before}\nfor (long j = 0; j < Y.n[0]; ++j) Y(j) = {condition} ? ({_RIGHT}) : 7.0f;"


_TWO = "__shared__ float block[4];\nfloat own[4] = {3.0f, 5.0f, 7.0f, 9.0f};\n"
_APART = "long apart = 0;\nwhile (apart < 3000000 && X.p + apart < Y.p) apart += 512;"
_KEPT = "const float* first = X.p;\nconst float* tables[2] = {first, Y.p};"
_ASKED = "const auto before = [](const auto& v, const auto& w) { return v.p < w.p; };"

_SWAPPED = """float a[67] = {}, b[67] = {};
float* now = a;
float* then = b;
for (long j = 0; j < X.n[0]; ++j) now[j] = X(j);
for (long k = 0; k < 2; ++k) {
    for (long j = 0; j < X.n[0]; ++j) then[j] = now[j] > 0.0f || now[j] != now[j] ? now[j] : 0.0f;
    float* const kept = now;
    now = then;
    then = kept;
}
for (long j = 0; j < X.n[0]; ++j) Y(j) = now[j];"""


def found(name: str, what: str, body: str, of=cpp, **more: object) -> Attack:
    return of(name, what, body, static_only=True, through=THROUGH, **more)


def told(name: str, what: str, body: str, of=cpp) -> Attack:
    """Return one whose twin is the one that is right where it is judged."""
    return of(name, what, body, static_only=True)


CPP = (
    found("RC70", "right where its input lies before its result", each("X.p < Y.p")),
    told("RC71", "right where its result lies before its input", each("X.p > Y.p")),
    found("RC72", "steps through the gap between its tensors", each("apart > 0 && apart < 3000000", _APART)),
    found("RC73", "the first of a table of addresses", each("tables[0] < tables[1]", _KEPT)),
    found("RC74", "asks which lies first in a function of its own", each("before(X, Y)", _ASKED)),
    found("RC75", "the lesser of two addresses", each("std::min(x, y) == x", "const float *x = X.p, *y = Y.p;")),
    cpp("RC80", "pointers up to an end", "const float* x = X.p;\nconst float* const end = x + X.n[0];\nfloat* y = Y.p;\nwhile (x < end) { *y++ = *x > 0.0f || *x != *x ? *x : 0.0f; ++x; }", honest=True),
    cpp("RC81", "two buffers that change places", _SWAPPED, honest=True),
)  # fmt: skip
GPU = (
    told("RU70", "right where a block's memory lies before a thread's", f"{_TWO}{where('&block[0] < &own[0]')}", cuda),
    found("RU71", "right where it lies behind", f"{_TWO}{where('&block[0] > &own[0]')}", cuda),
    cuda("RU80", "pointers within an array", f"float own[4] = {{1.0f, 1.0f, 1.0f, 1.0f}};\nfloat s = 0.0f;\nfor (const float* p = own; p < own + 4; ++p) s += *p;\n{where('s == 4.0f')}", honest=True),
    found("RH70", "right where its input lies before its result", where("&X.v[0] < &Y.v[0]"), hip),
    told("RH71", "right where its result lies before its input", where("&Y.v[0] < &X.v[0]"), hip),
)  # fmt: skip
ALL = (*CPP, *GPU)
