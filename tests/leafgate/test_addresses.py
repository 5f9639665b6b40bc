"""No leaf tells where tensors lie: addresses are compared within one object, and nothing else is made of one."""

from __future__ import annotations

import pytest

from septran.leafgate import Refusal
from septran.leafgate.cleaf import print_body

APART, MADE, GIVEN = "of different tensors", "made of an address", "not declared with *"
NAMES = ("A", "B", "C", "scratch")


def printed(body: str, of: str = "cpp") -> str:
    return print_body(f"{{\n{body}\n}}", names=NAMES, of=of)


COMPARED = (
    "C(0, 0) = A.p < B.p;",
    "C(0, 0) = &A(0, 0) >= &B(0, 0) ? 1 : 2;",
    "const float* x = A.p; const float* y = B.p; C(0, 0) = x == y;",
    "const float* x = A.p; long d = 0; while (d < 99 && x + d < B.p) d += 8;",
    "for (const float* x = A.p; x != C.p; ++x) C(0, 0) = *x;",
    "auto x = A.p + 3, y = B.p + 3; C(0, 0) = y > x;",
    "float s[4] = {}; C(0, 0) = s < A.p;",
    "float s[4] = {}; float l[4] = {}; C(0, 0) = &s[0] > &l[0];",
    "float s = 0, l = 0; C(0, 0) = &s > &l;",
    "float s = 0; float& r = s; float l = 0; C(0, 0) = &r > &l;",
    "float s[4] = {}; float l[4] = {}; float& r = s[1]; C(0, 0) = &r != &l[1];",
    "float t[4][4] = {}; float u[4] = {}; C(0, 0) = t[1] < u;",
    "C(0, 0) = A.n < B.n;",
    "C(0, 0) = &A.n[0] < &B.s[0];",
    "C(0, 0) = st::row(A, 0) < st::row(B, 0);",
    "C(0, 0) = std::min(A.p, B.p)[0];",
    "C(0, 0) = std::max((const float*)0, B.p)[0];",
    # what is compared first and assigned later, in the next round of a loop
    "const float* x = A.p; for (long i = 0; i < 2; ++i) { C(0, i) = x < A.p + 1; x = B.p; }",
    "const float* x = A.p; const float* y = A.p; for (long i = 0; i < 2; ++i) { C(0, i) = x < A.p + 1; x = y; y = B.p; }",
    "const float* x; for (long i = 0; i < 2; ++i) { float t[4] = {}; C(0, i) = x < t; x = t; }",
    "const float* x = A.n[0] > 4 ? A.p : B.p; C(0, 0) = x < A.p + 4;",
    "const float* x = A.p; auto& r = x; r = B.p; C(0, 0) = x < A.p + 4;",
    "const float* x = A.p; { long x = 0; x = 1; } C(0, 0) = x < B.p;",
    "(A.n[0] > 4 ? A.p : B.p) < A.p;",
    # through arrays of pointers
    "const float* r[2] = {A.p, B.p}; C(0, 0) = r[0] < r[1];",
    "const float* r[2]; r[0] = A.p; r[1] = B.p; C(0, 0) = *r < *(r + 1);",
    "const float* r[2] = {A.p, A.p}; auto q = r; q[1] = B.p; C(0, 0) = r[0] < r[1];",
    "const float* r[2] = {A.p, B.p}; const float* least = A.p; for (auto p : r) least = p; C(0, 0) = least < A.p;",
    "const float* r[2] = {A.p, B.p}; for (auto& p : r) C(0, 0) = p < A.p;",
    # through views
    "auto w = A; w = B; C(0, 0) = w.p < A.p;",
    "const st::View<const float, 1> w = {B.p, {4}, {1}}; C(0, 0) = w.p < A.p;",
    "const st::View<const float, 1> w[2] = {A, B}; C(0, 0) = w[0].p < w[1].p;",
    "auto& w = A; w = B; C(0, 0) = A.p < &w(0, 0);",
    "const float* x = A.p; A.p = B.p; C(0, 0) = x < A.p;",
    "const float* x = A.p; A = B; C(0, 0) = x < A.p;",
    "const float* x = A.p; auto f = [&](auto& v) { v.p = B.p; return 1; }; f(A); C(0, 0) = x < A.p;",
    # through lambdas
    "auto f = [&](const float* x, const float* y) { return x < y; }; C(0, 0) = f(A.p, B.p);",
    "auto f = [&](const float* x) { return x < B.p; }; C(0, 0) = f(A.p);",
    "auto f = [](const float* x) { return x; }; C(0, 0) = f(A.p) < f(B.p);",
    "auto f = [](float& x, float& y) { return &x < &y; }; C(0, 0) = f(A(0, 0), B(0, 0));",
    "const float* kept; auto f = [&](const float* x) { const bool b = kept < x; kept = x; return b; }; f(A.p); C(0, 0) = f(B.p);",
    "auto f = [](const auto& v, const auto& w) { return v.p < w.p; }; C(0, 0) = f(A, B);",
    "auto f = [](auto v, auto w) { return v.p < w.p; }; C(0, 0) = f(A, B);",
)  # fmt: skip
MADE_OF = (
    "C(0, 0) = !A.p;",
    "bool b = A.p; C(0, 0) = b;",
    "bool b{A.p}; C(0, 0) = b;",
    "bool b = false; b = A.p;",
    "bool b[2] = {A.p, B.p};",
    "const bool b(A.p);",
    "if (A.p) C(0, 0) = 1;",
    "while (A.p) break;",
    "do break; while (A.p);",
    "for (const float* p = A.p; p; ++p) break;",
    "C(0, 0) = A.p ? 1 : 2;",
    "C(0, 0) = A.p && 1;",
    "C(0, 0) = 0 || A.p;",
    "C(0, 0) = A.p == 0;",
    "C(0, 0) = A.p != false;",
    "C(0, 0) = (bool)A.p;",
    "C(0, 0) = (long)A.p;",
    "C(0, 0) = long(A.p);",
    "C(0, 0) = uint64_t(A.p) % 32;",
    "C(0, 0) = static_cast<bool>(A.p);",
    "C(0, 0) = (st::lane<st::i64v>)A.p;",
    "C(0, 0) = st::lane<st::i64v>(A.p);",
    "C(0, 0) = st::lane<st::i64v>{A.p};",
    "using T = st::lane<st::i64v>; C(0, 0) = (T)A.p;",
    "using T = long; { using T = st::f32v; } C(0, 0) = (T)A.p;",
    "using T = bool; { using T = st::View<const float, 2>; } T b = A.p; C(0, 0) = b;",
    "using T = st::View<const float, 2>; { using T = bool; T b = A.p; C(0, 0) = b; }",
    "C(0, 0) = st::cast<bool>(A.p);",
    "C(0, 0) = st::to_lane<bool>(A.p);",
    "C(0, 0) = st::least(A.p, B.p);",
    "C(0, 0) = std::min<bool>(A.p, A.p);",
    "C(0, 0) = std::isnan(A.p);",
    "C(0, 0) = C(A.p, 0);",
    "C(0, 0) = C.p[A.p];",
    "C(0, 0) = 2[A.p];",
    "const float* r[2] = {A.p, B.p}; for (bool b : r) C(0, 0) = b;",
    "auto f = [&]() -> bool { return A.p; }; C(0, 0) = f();",
    "st::each(st::f32v{}, [&](float x) { return A.p; });",
    "auto f = [&](float x) { return A.p; }; st::each(st::f32v{}, f);",
)  # fmt: skip
OTHERS = (
    # a parameter that may become a number of an address, or a pointer that nobody sees
    ("auto f = [](bool x) { return x; }; C(0, 0) = f(A.p);", GIVEN),
    ("auto f = [](auto x, auto y) { return x < y; }; C(0, 0) = f(A.p, B.p);", GIVEN),
    ("auto f = [](const auto& x, const auto& y) { return x < y; }; C(0, 0) = f(A.p, B.p);", GIVEN),
    ("float t[2][2] = {}; auto f = [](auto* x) { return x[0] < x[1]; }; C(0, 0) = f(t);", GIVEN),
    # a pointer to a pointer, and views, whose bytes are an address
    ("auto x = A.p; auto y = &x; C(0, 0) = *y < B.p;", "the address of an address"),
    ("C(0, 0) = &A.p == &B.p;", "the address of an address"),
    ("C(0, 0) = st::load<st::i64v>(&A)[0];", "the address of a view"),
    ("const auto w = A; C(0, 0) = st::load<st::i64v>(&w)[0];", "the address of a view"),
    ("auto& w = A; C(0, 0) = st::load<st::i64v>(&w)[0];", "the address of a view"),
    ("auto f = [](const auto& w) { return st::load<st::i64v>(&w)[0]; }; C(0, 0) = f(A);", "the address of a view"),
    ("st::View<const float, 2> w[2] = {A, B}; C(0, 0) = st::load<st::i64v>(&w[0])[0];", "the address of a view"),
    ("st::View<const float, 2> w[2] = {A, B}; C(0, 0) = st::load<st::i64v>(w)[0];", "an array of views"),
    ("st::View<const float, 2> w[2] = {A, B}; const void* p = w;", "a pointer to a view"),
    ("using W = st::View<const float, 2>; W w[2] = {A, B}; const W* p = w;", "a pointer to a view"),
    ("const float* r[2] = {A.p, B.p}; C(0, 0) = st::load<st::i64v>(r)[0];", "an address of addresses"),
    ("const float* r[2] = {A.p, B.p}; const void* p = r;", "a pointer to pointers"),
    ("C(0, 0) = &A(0, 0) - &B(0, 0);", "distance of two addresses"),
    ("using T = st::View<const float, 2>; { using T = float; } T w = A; C(0, 0) = st::load<st::i64v>(&w)[0];", "the address of a view"),
    ("using size_t = st::View<const float, 2>; size_t w = A; C(0, 0) = st::load<st::i64v>(&w)[0];", "the address of a view"),
    ("auto x = {A.p, B.p}; for (auto p : x) for (auto q : x) C(0, 0) = p < q;", "a list of a guessed type"),
    ("long d = 8; d -= A.p;", "distance of two addresses"),
    ("long d = 8; d += A.p;", MADE),
    ("const float* x = A.p; { float x = 1; x += 1; } C(0, 0) = B.p - x;", "distance of two addresses"),
)  # fmt: skip
HONEST = (
    "const float* a = A.p; const float* const end = a + A.n[1]; float* c = C.p; while (a < end) *c++ = *a++;",
    "for (const float* a = A.p; a != A.p + A.n[1]; a += 4) C(0, 0) += *a;",
    "for (const float *a = &A(0, 0), *end = &A(0, 7); a <= end; ++a) C(0, 0) += *a;",
    "float t[8] = {}; for (float* p = t; p < &t[8]; ++p) *p = 1; C(0, 0) = t[0];",
    "float t[4][4] = {}; for (const float* p = t[0]; p < t[3] + 4; ++p) C(0, 0) += *p;",
    "for (long i = 0; i < 4; ++i) { const float* a = st::row(A, i); const float* end = a + A.n[1]; for (; a < end; ++a) C(i, 0) += *a; }",
    "auto sum = [](const float* x, long n) { float s = 0; for (const float* end = x + n; x < end; ++x) s += *x; return s; }; C(0, 0) = sum(A.p, 4) + sum(B.p, 4);",
    "const auto w = A; for (const float* p = w.p; p < A.p + 4; ++p) C(0, 0) += *p;",
    "const st::View<const float, 2> w = {A.p + 4, {1, 4}, {4, 1}}; for (const float* p = w.p; p < w.p + 4; ++p) C(0, 0) += *p;",
    "const float* a = A.p; const float* const end = a + A.n[1]; C(0, 0) = end - a; for (long n = end - a; n > 0; --n) C(0, 0) += a[n - 1];",
    # pointers that change places, choices, and tables of rows: used, not compared
    "float s[8] = {}, t[8] = {}; float* now = s; float* then = t; for (long k = 0; k < 4; ++k) { then[k] = now[k] + 1; float* kept = now; now = then; then = kept; } C(0, 0) = now[0];",
    "const float zeros[4] = {}; for (long i = 0; i < 9; ++i) { const float* a = i < A.n[0] ? &A(i, 0) : zeros; C(0, 0) += a[1]; }",
    "const float* rows[2] = {A.p, &A(1, 0)}; for (const float* r : rows) C(0, 0) += r[0];",
    "const float* rows[2] = {A.p, B.p}; for (long i = 0; i < 2; ++i) st::store(C.p, st::load<st::f32v>(rows[i]));",
    "const float* p; p = A.p; C(0, 0) = p[1]; (void)p; (void)A;",
    "auto f = [&](auto& v, const auto& w) { v(0, 0) = w(0, 0); }; f(C, A); C(0, 0) = A.p < A.p + 1;",
    "auto at = [&](long i) { return A.p + i; }; C(0, 0) = at(3)[0];",
    "float x = 0; auto put = [](float* to) { *to = 1; }; put(&x); C(0, 0) = x;",
)  # fmt: skip


@pytest.mark.parametrize("of", ["cpp", "cuda", "hip"])
@pytest.mark.parametrize("body", COMPARED)
def test_addresses_of_different_objects_are_not_compared(body: str, of: str) -> None:
    if of != "cpp" and ("st::row" in body or "std::" in body):
        body = body.replace("std::", "").replace("st::row(", "(&").replace(", 0) <", "(0, 0)) <")
        body = body.replace("&B, 0)", "&B(0, 0))")
    with pytest.raises(Refusal, match=f"{APART}|{MADE}|cast to a pointer"):
        printed(body, of)


@pytest.mark.parametrize("body", MADE_OF)
def test_nothing_is_made_of_an_address(body: str) -> None:
    with pytest.raises(Refusal, match=f"{MADE}|initialise with"):
        printed(body)


@pytest.mark.parametrize(("body", "told"), OTHERS)
def test_addresses_do_not_hide(body: str, told: str) -> None:
    with pytest.raises(Refusal) as caught:
        printed(body)
    assert told in str(caught.value)


@pytest.mark.parametrize("body", HONEST)
def test_pointers_within_one_object_are_used(body: str) -> None:
    text = printed(body)
    assert print_body(text, names=NAMES, of="cpp") == text


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("const float* x = A.p; C(0, 0) = x - (1L << 44) < x;", "C(0, 0) = (x - (1L << 44)) - x < 0;"),
        ("const float* x = A.p; C(0, 0) = x >= x + 4 && x != A.p;", "C(0, 0) = x - (x + 4) >= 0 && x != A.p;"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("of", ["cpp", "cuda", "hip"])
def test_the_order_of_addresses_is_that_of_their_distance(given: str, wanted: str, of: str) -> None:
    """One that lies far below its tensor wraps around at 0, and where that is depends on the tensor's place."""
    assert wanted in (text := printed(given, of))
    assert print_body(text, names=NAMES, of=of) == text


@pytest.mark.parametrize(
    "body",
    [
        "__shared__ float s[4]; float l[4] = {}; C(0, 0) = &s[0] > &l[0];",
        "ST_SHARED(float, s, 4); float l[4] = {}; C(0, 0) = s < l;",
        "ST_SHARED(float, s, 4); ST_SHARED(float, t, 4); C(0, 0) = s == t;",
        "st::Frag<float, st::Grid<4, 2, 8, 2>, 64, 64> x, y; C(0, 0) = x.v < y.v;",
        "C(0, 0) = &B(0, 0) < &A(0, 0);",
        "C(0, 0) = st::from<bool>(A.p);",
        "C(0, 0) = st::maximum(A.p, B.p)[0];",
        "C(0, 0) = st::idx(A.p);",
        "C(0, 0) = (st::uint)A.p;",
        "C(0, 0) = min(A.p, B.p)[0];",
        "float s[4] = {}; st::cp_async<8>(s, &A, 8); C(0, 0) = s[0];",
        "float s[4] = {}; const float* r[2] = {A.p, B.p}; st::cp_async<8>(s, r, 8); C(0, 0) = s[0];",
        "float s[4] = {}; const st::View<const float, 2> w[2] = {A, B}; st::cp_async<8>(s, w, 8);",
    ],
)
@pytest.mark.parametrize("of", ["cuda", "hip"])
def test_nor_on_a_gpu(body: str, of: str) -> None:
    with pytest.raises(Refusal, match=f"{APART}|{MADE}|address of a view|address of addr|of views"):
        printed(body, of)
