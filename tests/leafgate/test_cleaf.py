"""The C-family subset: honest bodies pass and print to themselves; what is not understood is refused with its line."""

from __future__ import annotations

import contextlib
import random
import re
import time

import pytest

from septran.leafgate import Refusal
from septran.leafgate.cleaf import print_body
from septran.leafgate.tokens import tokens
from tests.leafgate.honest import HONEST

NAMES = ("A", "B", "C", "scratch")


def printed(body: str, of: str = "cpp", *, threads: bool = False) -> str:
    return print_body(f"{{\n{body}\n}}", names=NAMES, of=of, threads=threads)


@pytest.mark.parametrize(("name", "of", "body"), HONEST, ids=[h[0] for h in HONEST])
def test_honest_bodies_pass(name: str, of: str, body: str) -> None:
    text = printed(body, of)
    assert print_body(text, names=NAMES, of=of) == text, "printing twice changes nothing"
    assert not re.search(r"[\"'\\$@`]|/[/*]", text)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        # characters and tokens
        ('asm("nop");', "without text"),
        ("C(0, 0) = 1;\\\nC(0, 1) = 2;", "line 2: the character"),
        ("C(0, 0) = 'a';", "outside a comment"),
        ("%:define X 1", "the token %:"),
        ("C(0, 0) = 1; ??= 2", "the token ??"),
        ("C<:0:> = 1;", "the token <:"),
        ("C(0, 0) = 1\u00a0;", "outside a comment"),
        ("C(0, 0) = 0x1.8;\nC(0, 1) = 12q;", "line 3: the number 12q"),
        ("/* never closed", "does not end"),
        ("if (1) {", "not closed"),
        ("}\nvoid f() {", "leaves the function"),
        ("C(0, 0) = 1; #pragma GCC ivdep", "inside a line"),
        ("#pragma GCC optimize(3)\nfor (;;) ;", "#pragma GCC optimize(3)"),
        ("#define float int", "headers and macros are generated"),
        ("#pragma GCC ivdep\nC(0, 0) = 1;", "before no loop"),
        # statements
        ("goto out;", "use a loop"),
        ("out: C(0, 0) = 1;", "the label out"),
        ("switch (long x = 1) { default: ; }", "declare before"),
        ("default: C(0, 0) = 1;", "the label default"),
        ("try { } catch (...) { }", "does not throw"),
        ("struct S { int x; };", "use separate variables"),
        ("typedef float T;", "using V"),
        ("extern int x;", "declare it in the leaf"),
        ("static float kept[4];", "keeps a value between calls"),
        ("thread_local float kept;", "keeps nothing"),
        ("volatile float x = 1;", "leave it out"),
        ("int f(int);", "initialise with"),
        ("float x(3);", "initialise with"),
        ("float (&r)[4] = C.p;", "declares nothing"),
        ("auto [a, b] = C.n;", "name each value"),
        ("float** p = 0;", "one * at most"),
        ("__attribute__((constructor)) int x;", "neither declared"),
        ("[[gnu::optimize(3)]] int x = 0;", "only [[maybe_unused]]"),
        ("[[noreturn]] int x = 0;", "only [[maybe_unused]]"),
        ("using namespace boost;", "only `using namespace st;` and `using namespace std;`"),
        ("if (int x = 1) ;", "declare before"),
        ("for (long i = 0; i < 4; ++i) long j = 0;", "loop's body"),
        ("return 1;", "returns no value"),
        # names
        ("long EOF = 1;", "macro"),
        ("long _x = 1;", "start with a letter"),
        ("C(0, 0) = __builtin_ia32_rdtsc();", "neither declared"),
        ("C(0, 0) = getpid();", "neither declared"),
        ("_Pragma(omp);", "neither declared"),
        ("C(0, 0) = std::system(A.p);", "neither declared"),
        ("C(0, 0) = ::rand();", "leave out the leading ::"),
        ("C(0, 0) = vexp(A(0, 0));", "write st::vexp"),
        ("C(0, 0) = x; float x = 1;", "declare it before"),
        ("{ float x = 1; } C(0, 0) = x;", "declare it before"),
        ("auto f = st::vexp;", "only called"),
        ("auto f = [&] { return 1; };", "expected ("),
        ("auto f = [](auto g) { return 1; }; f([](float x) { return x; });", "a lambda as a value"),
        ("auto f = [x = 1](float y) { return y; };", "write [&]"),
        ("auto f = []<class T>(T x) { return x; };", "auto parameters"),
        # expressions
        ("C(0, 0) = *(float*)1;", "a cast to a pointer"),
        ("C(0, 0) = reinterpret_cast<float&>(A.p);", "element type"),
        ("C(0, 0) = sizeof(C);", "a number's type"),
        ("C(0, 0) = sizeof(st::f32v);", "a number's type"),
        ("switch (1) { C(0, 0) = 1; }", "before the first case"),
        ("switch (1) { case 1: float x = 2; C(0, 0) = x; }", "statements in braces"),
        ("C(0, 0) = A.p - B.p;", "distance of two addresses"),
        ("const float* p = A.p; p -= C.p;", "distance of two addresses"),
        ("auto p = A.p + 1; auto q = p; C(0, 0) = B.p - q;", "distance of two addresses"),
        ("float t[4] = {}; C(0, 0) = A.p - t;", "distance of two addresses"),
        ("C(0, 0) = A.p - (1 ? &B(0, 0) : &B(0, 1));", "distance of two addresses"),
        ("C(0, 0) = A.p - st::row(B, 1);", "distance of two addresses"),
        ("C(0, 0) = A.p - std::min(B.p, A.p);", "made of an address"),
        ("auto f = [&]() { return B.p; }; C(0, 0) = A.p - f();", "distance of two addresses"),
        ("auto f = [&](const float* x) { return A.p - x; }; C(0, 0) = f(B.p);", "distance of"),
        ("case 1: C(0, 0) = 1;", "stands in a switch"),
        ("alignas(4096) float t[4] = {};", "up to 64"),
        ("[[fallthrough]];", "only [[maybe_unused]]"),
        ("C.p->x = 1;", "use . on views"),
        ("C(0, 0) = A.q;", "the member .q"),
        ("C(0, 0) = A.extent(0);", "n p s: v(i, j) is an element, v.n[0] the extent"),
        ("C(0, 0) = new float[4][0];", "local array"),
        ("C(0, 0) = ({ 1; });", "not part of a leaf"),
        ("C(0, 0) = 1 ?: 2;", "name the middle operand"),
        ("C(0, 0) = &A.p[0] - &*1;", "the address of a value"),
        ("a ? b : c = 1;", "neither declared"),
        ("A(0, 0) + 1 = 2;", "parentheses"),
        ("decltype(1) x = 1;", "name the type"),
        ("st::power<100000>(A(0, 0));", "a large template argument"),
        ("st::View x = A;", "without template arguments"),
        ("float;", "expected a name"),
        ("&&out;", "not part of a leaf"),
        ("C(0, 0) = A(0, 0)([](float x) { return x; });", "a lambda as a value"),
    ],
)  # fmt: skip
def test_what_is_refused(body: str, told: str) -> None:
    with pytest.raises(Refusal) as caught:
        printed(body)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "float* p = C;",
        "vl_tile t = *(vl_tile*)1;",
        "vendor_lib_bind(0, 0, 0, 1);",
        "vl_at(0);",
        "auto f = 1;",
        "C.p = 0;",
        "using T = float;",
        "vl_tile t = VL_TILE(VL_G(7), 1, 1, 1, VL_F32);",
    ],
)
def test_plain_c_has_no_addresses(body: str) -> None:
    with pytest.raises(Refusal):
        printed(body, "c")


@pytest.mark.parametrize(
    "body",
    [
        "C(0, 0) = clock();",
        "C(0, 0) = blockIdx.x;",
        "C(0, 0) = __cvta_generic_to_shared(A.p);",
        "C(0, 0) = __isGlobal(A.p);",
        "cuemu::order = 0;",
        "if (__CUDA_ARCH__) C(0, 0) = 1;",
        "C(0, 0) = warpSize;",
        "atomicAdd(C.p, 1.0f);",
        "C(0, 0) = *reinterpret_cast<float4*>(A.p);",
        "row<<<1, 1>>>(C);",
    ],
)
def test_cuda_leaves_cannot_tell_where_they_run(body: str) -> None:
    with pytest.raises(Refusal):
        printed(body, "cuda")


def test_threads_only_where_the_contract_allows_them() -> None:
    body = "#pragma omp parallel for\nfor (long i = 0; i < C.n[0]; ++i) C(i, 0) = 1;"
    assert "#pragma omp parallel for\n" in printed(body, threads=True)
    with pytest.raises(Refusal, match="starts none"):
        printed(body)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("C(0,0)=A(0,0)+A(0,1)*2;", "C(0, 0) = A(0, 0) + A(0, 1) * 2;"),
        ("C(0,0)=1<<2+3;", "C(0, 0) = 1 << (2 + 3);"),
        ("C(0,0)=1|2&3;", "C(0, 0) = 1 | (2 & 3);"),
        ("C(0,0)=1<2==3<4;", "C(0, 0) = (1 < 2) == (3 < 4);"),
        ("for(;;)C(0,0)=1;", "for (;;) { C(0, 0) = 1; }"),
        ("if(1)if(0)C(0,0)=1;else C(0,0)=2;", "if (1) { if (0) { C(0, 0) = 1; } else { C(0, 0) = 2; } }"),
        ("C(0,0)= - -1;", "C(0, 0) = - -1;"),
        ("using namespace st; Sum::of(1,2);", "st::Sum::of(1, 2);"),
        ("using namespace std; C(0,0)=max(abs(A(0,0)),exp2f(1));", "C(0, 0) = std::max(std::abs(A(0, 0)), exp2f(1));"),
        ("using namespace std; using namespace st; splat<f32v>(fmin(1,2));", "st::splat<st::f32v>(fmin(1, 2));"),
    ],
)  # fmt: skip
def test_how_it_is_printed(given: str, wanted: str) -> None:
    assert printed(given).split("\n")[1] == wanted


def test_lines_keep_their_numbers() -> None:
    body = "// one\nfloat x = 1;\n\n/* a\nb */ C(0, 0) = x +\n    2;\n#pragma GCC unroll 4\nfor (;;)\n    break;"
    text = printed(body).split("\n")
    for number, line in enumerate(f"{{\n{body}\n}}".split("\n")):
        words = set(re.findall(r"\b(x|2|unroll|for|break)\b", line.partition("//")[0]))
        assert words <= set(re.findall(r"\w+", text[number])), (number, line, text[number])


@pytest.mark.parametrize(
    "bomb",
    [
        "C(0, 0) = " + "(" * 20_000 + "1" + ")" * 20_000 + ";",
        "C(0, 0) = " + "-" * 20_000 + "1;",
        "C(0, 0) = " + "- " * 20_000 + "1;",
        "C(0, 0) = " + "!" * 20_000 + "1;",
        "{" * 20_000 + "}" * 20_000,
        "if (1) " * 8_000 + ";",
        "for (;;) " * 6_000 + ";",
        "C(0, 0) = " + "1 ? 1 : " * 7_000 + "1;",
        "C(0, 0) " + "= C(0, 0) " * 5_000 + "= 1;",
        "C(0, 0) = " + "1'" * 25_000 + "1;",
        "C(0, 0) = " + "(float)" * 8_000 + "1;",
        "C(0, 0) = " + "(C<" * 15_000 + ";",
        "st::View<" * 6_000 + ";",
        "long x = 1" + ", x1 = 1" * 6_000 + ";",
        "C(0, 0) = 1" + " + 1" * 14_000 + ";",
        "/*" * 29_000,
    ],
    ids=range(16),
)
def test_bombs_end_quickly(bomb: str) -> None:
    start = time.process_time()
    with contextlib.suppress(Refusal):
        printed(bomb)
    assert time.process_time() - start < 4


def test_mutants_never_crash_and_print_to_themselves() -> None:
    """Tokens of honest bodies dropped, doubled, exchanged: refused, or printed to a text that prints to itself."""
    rng = random.Random(7)
    accepted = 0
    for _ in range(1500):
        _, of, body = rng.choice(HONEST)
        words = [t.text for t in tokens(body)[:-1]]
        for _ in range(rng.randint(1, 2)):
            at = rng.randrange(len(words))
            other = rng.randrange(len(words))
            match rng.randrange(4):
                case 0:
                    del words[at]
                case 1:
                    words.insert(at, words[at])
                case 2:
                    words[at], words[other] = words[other], words[at]
                case _:
                    words.insert(at, words[other])
            if not words:
                break
        lines = "".join(f"\n{w}\n" if w.startswith("#") else f"{w} " for w in words)
        try:
            text = printed(lines, of)
        except Refusal:
            continue
        accepted += 1
        assert print_body(text, names=NAMES, of=of) == text, lines
        flat = [t.text for t in tokens(text)]
        assert "[[" not in "".join(flat).replace("[[maybe_unused]]", "")
    assert accepted > 50


@pytest.mark.parametrize(
    ("of", "body", "wanted"),
    [
        ("cpp", "int32_t k;", "int32_t k{};"),
        ("cpp", "float a, b = 2, *p;", "float a{}, b = 2,*p{};"),
        ("cpp", "for (long i; i < 3; ++i) { ; }", "for (long i{}; i < 3; ++i) {; }"),
        ("cpp", "float t[4];", "float t[4];"),  # V223 shows it, and filling it takes time
        ("cuda", "float t[4];", "float t[4]{};"),
        ("cuda", "constexpr int W = 2; float t[2 * W][3];", "constexpr int W = 2; float t[2 * W][3]{};"),
        ("cuda", "int n = 3; float t[n];", "int n = 3; float t[n];"),
        ("cuda", "__shared__ float t[4];", "__shared__ float t[4];"),
        ("c", "int32_t k; vl_tile t;", "int32_t k = {0}; vl_tile t = {0};"),
        ("cpp", "float t[2] = {1, 2}; for (float x : t) { ; }", "float t[2] = {1, 2}; for (float x : t) {; }"),
    ],
)  # fmt: skip
def test_what_nobody_sets_is_zero_on_every_machine(of: str, body: str, wanted: str) -> None:
    text = printed(body, of)
    assert " ".join(text.split()) == f"{{ {wanted} }}"
    assert print_body(text, names=NAMES, of=of) == text
