"""The mistakes a fuzzer makes, by family: which kernels, which of their lines, and what becomes of them.

A rule changes one line of the emitted text or exchanges two. Mistakes that cannot show (a hint, a comment) are left
out or told by `hints`; all others change results, race or do nothing, which `tests.attacks.fuzz` finds out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Change = Callable[[re.Match[str]], str]
_NUMBER = r"(?<![\w.<])\d+(?![\w.>])"


@dataclass(frozen=True, slots=True)
class Rule:
    """What is found in a line and what it becomes; or `move`: the line changes places, so many lines away."""

    kind: str
    pattern: str
    change: Change | str = ""
    move: int = 0

    def apply(self, found: re.Match[str]) -> str:
        """Return what stands for the piece that was found."""
        return self.change if isinstance(self.change, str) else self.change(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An honest kernel. headers: the files beside it whose synchronisation is mutated, too."""

    op: str
    dims: Mapping[str, int]
    dtype: str | None = None
    arch: str | None = None
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One backend's mutators.

    backend: its name. builds: how `families.build` calls it. first, last: patterns of the lines between which the
    kernel's own part lies. inert: lines that cannot change results. comment: where one begins. prelude: text put
    before the first of these lines. hints: pieces that change no result, left out when texts are compared.
    """

    backend: str
    builds: str
    cases: Mapping[str, Case]
    rules: tuple[Rule, ...]
    first: str
    last: str
    inert: str
    comment: str
    prelude: str = ""
    header_rules: tuple[Rule, ...] = field(default=())
    hints: str = r"(?!)"


def _shift(by: int) -> Change:
    return lambda m: str(int(m[0]) + by)


INDEX = (
    Rule("index +1", _NUMBER, _shift(1)),
    Rule("index -1", r"(?<![\w.<])[1-9]\d*(?![\w.>])", _shift(-1)),
)


def _calls(names: str) -> str:
    return rf"(?:{names})\([^;]*\);"


def _sync(names: str) -> tuple[Rule, ...]:
    call = _calls(names)
    return (
        Rule("sync dropped", call, ";"),
        Rule("sync moved up", rf"^\s*{call}", move=-1),
        Rule("sync moved down", rf"^\s*{call}", move=1),
    )


_CPP = Family(
    backend="cpp",
    builds="compile",
    cases={
        "gemm": Case(op="gemm", dims={"M": 101, "N": 77, "K": 131}),
        "softmax": Case(op="softmax", dims={"M": 70, "N": 197}),
        "relu": Case(op="relu", dims={"N": 20011}),
        "layernorm": Case(op="layernorm", dims={"M": 33, "N": 131}),
        "col_sum": Case(op="col_sum", dims={"M": 67, "N": 93}),
        "transpose": Case(op="transpose", dims={"M": 67, "N": 93}),
    },
    first=r"// ---- leaves",
    last=r"// ---- Python module",
    # hints, sizes of scratch memory, scheduling
    inert=r"prefetch|scratch<|#pragma|^static void|^extern|reinterpret_cast",
    comment=r"//",
    prelude="""
template <class V> static inline V fuzz_chop(V v) {
    typedef int I __attribute__((vector_size(sizeof(V))));
    return (V)((I)v & ~0x1fff);
}
""",
    rules=(
        *INDEX,
        Rule("tail short", r"\brest\w* = n\w* - j\w*(?=;)", lambda m: f"{m[0]} - 1"),
        Rule(
            "tail dropped", r"for \(; (j\w*) < (n\w*);", lambda m: f"for (; {m[1]} + L <= {m[2]};"
        ),
        Rule("tail too long", r"store_n\((.*), rest\w*\);", lambda m: f"store({m[1]});"),
        Rule("extent", r"st::least\((\d+), [^)]*\)", lambda m: m[1]),
        Rule("dropped copy", r"^\s*(st::(pack|copy|transpose)\w*<?.*|store(_n)?\(.*);$"),
        Rule("dropped leaf", r"^\s*leaf_\w+\(.*\);$"),
        Rule("constant", r"\d+\.\d+f?\b", lambda m: f"({m[0]} + 0.01f)"),
        Rule("sign", r"(?<=\w) - (?=\w+\))", " + "),
        Rule("operation", r"\bMax\b", "Min"),
        Rule("operation", r"\bvmax\(", "vmin("),
        Rule("operation", r"(?<=\w) / (?=\w)", " * "),
        Rule("dtype", r"\bload(_n)?<F>\([^()]*\)", lambda m: f"fuzz_chop({m[0]})"),
    ),
)

_CUDA_SYNC = _sync(
    r"__syncthreads|__syncwarp|(?:st::)?cp_(?:wait<\d>|commit)|slots_\w+\.(?:wait|release)"
    r"|(?:if \(threadIdx\.x % 32 == 0\) )?barrier_(?:wait|arrive|expect|fence_init)"
    r"|wgmma_(?:fence|commit|wait<\d>)"
)
_CUDA = Family(
    backend="cuda_c",
    builds="cuda",
    cases={
        "gemm": Case(op="gemm", dims={"M": 40, "N": 36, "K": 77}),
        "gemm_f16": Case(op="gemm", dims={"M": 72, "N": 72, "K": 200}, dtype="float16"),
        "gemm_wgmma": Case(
            op="gemm",
            dims={"M": 136, "N": 136, "K": 264},
            dtype="float16",
            arch="sm_90a",
            headers=("st_bulk.cuh", "st_wgmma.cuh"),
        ),
        "softmax": Case(op="softmax", dims={"M": 5, "N": 777}, headers=("st_reduce.cuh",)),
        "col_sum": Case(op="col_sum", dims={"M": 301, "N": 37}, headers=("st_reduce.cuh",)),
        "transpose": Case(op="transpose", dims={"M": 67, "N": 36}),
        "layernorm": Case(op="layernorm", dims={"M": 9, "N": 131}),
    },
    first=r"// ---- leaves",
    last=r"// ---- launch",
    inert=r"#pragma|asm volatile|cuemu::|^ST_DEVICE|__launch_bounds__",
    comment=r"//",
    rules=(
        *INDEX,
        *_CUDA_SYNC,
        Rule("wait for less", r"(?<=cp_wait<)\d(?=>)", _shift(1)),
        Rule("slot", r"(k0 % )(\d)", lambda m: f"{m[1]}{int(m[2]) - 1 or 2}"),
        Rule("extent", r"st::least\((\d+), [^)]*\)", lambda m: m[1]),
        Rule("extent short", r"st::least\([^()]*\)", lambda m: f"({m[0]} - 1)"),
        Rule("dropped copy", r"^\s*st::copy\w*(<.*>)?\(.*\);$", ";"),
        Rule("dropped leaf", r"^\s*(leaf_\w+|st::reduce_\w+<.*>)\(.*\);$", ";"),
        Rule("constant", r"\d+\.\d+f?\b", lambda m: f"({m[0]} + 0.01f)"),
        Rule("operation", r"\bst::Max\b", "st::Min"),
        Rule("operation", r"(?<=\)) / (?=\w)", " * "),
        Rule("sign", r"(?<=\)) - (?=st::)", " + "),
        Rule("dtype", r"st::to\([^()]*\)", lambda m: f"st::to(st::from<__half>({m[0]}))"),
    ),
    header_rules=_CUDA_SYNC,
)

_DSA = Family(
    backend="dsa_c",
    builds="dsa",
    # the machine has four cores: most kernels give each more than one block, so that slots are used again
    cases={
        "gemm": Case(op="gemm", dims={"M": 101, "N": 40, "K": 131}),
        "gemm_blocks": Case(op="gemm", dims={"M": 900, "N": 500, "K": 140}),
        "softmax": Case(op="softmax", dims={"M": 500, "N": 197}),
        "layernorm": Case(op="layernorm", dims={"M": 700, "N": 131}),
        "col_sum": Case(op="col_sum", dims={"M": 67, "N": 1493}),
        "transpose": Case(op="transpose", dims={"M": 467, "N": 393}),
    },
    first=r"static void kernel\(",
    last=r"void \w+_entry\(",
    inert=r"\(void\)|^static void|const args|args->|vendor_lib_core_",
    comment=r"/\*",
    rules=(
        *INDEX,
        *_sync("vendor_lib_(?:set|wait|sync)"),
        Rule("event", r"(vendor_lib_(?:set|wait)\(.*), ", lambda m: f"{m[1]}, 1 + "),
        Rule("queue", r"VL_Q_(?:LOAD|STORE)", lambda m: "VL_Q_VEC"),
        Rule("version", r"dsa_mod\([^()]*(\([^()]*\))?[^()]*, 2\)", "0"),
        Rule(
            "version", r"(dsa_mod\()([^()]*(\([^()]*\))?[^()]*, 2\))", lambda m: f"{m[1]}1 + {m[2]}"
        ),
        Rule("placement", r"(?<== )\d+(?= \})", lambda m: str(max(0, int(m[0]) - 64))),
        Rule("extent", r"dsa_min\((\d+), (?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", lambda m: m[1]),
        Rule("dropped copy", r"^\s*vendor_lib_dma_copy\(.*\);$", ";"),
        Rule("dropped step", r"^\s*vendor_lib_(vec|mma|fill)\w*\(.*\);$", ";"),
        Rule("constant", r"\d+\.\d+\b", lambda m: f"({m[0]} + 0.01)"),
        Rule("operation", r"\bVL_RMAX\b", "VL_RMIN"),
        Rule("operation", r"\bVL_(DIV|SUB)\b", "VL_MUL"),
        Rule("dtype", r"\bVL_F32\b", "VL_F16"),
    ),
)

_PYTHON_INERT = r'^"""|^    """|^@|^import|^from|^def |LAUNCHES|num_warps|^    \(\w+_kernel'
_STAGES = (
    Rule("stages", r"(?<=num_stages=)\d", lambda m: str(int(m[0]) + 1)),
    Rule("stages", r"(?<=num_stages=)\d", "1"),
    Rule("stages", r"(?<=num_stages=)\d", "64"),
)
_TRITON = Family(
    backend="triton_cuda",
    builds="triton",
    cases={
        "gemm": Case(op="gemm", dims={"M": 70, "N": 40, "K": 90}),
        "gemm_f16": Case(op="gemm", dims={"M": 70, "N": 40, "K": 90}, dtype="float16"),
        "softmax": Case(op="softmax", dims={"M": 19, "N": 197}),
        "layernorm": Case(op="layernorm", dims={"M": 33, "N": 131}),
        "col_sum": Case(op="col_sum", dims={"M": 67, "N": 93}),
        "transpose": Case(op="transpose", dims={"M": 67, "N": 93}),
    },
    first=r"@triton\.jit",
    last=r"LAUNCHES",
    inert=_PYTHON_INERT.replace("num_warps|", ""),
    comment=r"  # ",
    hints=r"(?<=num_stages=)\d+|(?<=num_warps=)\d+",
    rules=(
        *INDEX,
        *_STAGES,
        Rule("offset", r"tl\.arange\([^()]*\)(?=$)", lambda m: f"{m[0]} + 1"),
        Rule("mask dropped", r", mask=.*(?=\)$)"),
        Rule("mask dropped", r"(?<=mask=)\(.*?\]+ & "),
        Rule(
            "mask dropped",
            r"tl\.where\([^,]*, [^,]* < [^,]*, (\w+), [^,()]*(\([^()]*\))?\)",
            lambda m: m[1],
        ),
        Rule("other dropped", r", other=0"),
        Rule("dropped copy", r"^(\s*)tl\.store\(.*\)$", lambda m: f"{m[1]}pass"),
        Rule("dropped leaf", r"^(\s*)acc = leaf_\w+\(acc.*\)$", lambda m: f"{m[1]}pass"),
        Rule("constant", r"\b\d+\.\d+\b", lambda m: f"({m[0]} + 0.01)"),
        Rule("operation", r"\btl\.maximum\b", "tl.minimum"),
        Rule("operation", r"(?<=\w) / (?=\w)", " * "),
        Rule("sign", r"(?<=\w) - (?=\w+\))", " + "),
        Rule("dtype", r'"ieee"', '"tf32"'),
        Rule("dtype", r"\btl\.float32\b", "tl.float16"),
        Rule("dtype", r"tl\.load\(.*\)$", lambda m: f"{m[0]}.to(tl.bfloat16).to(tl.float32)"),
    ),
)

_TILELANG = Family(
    backend="tilelang_cuda",
    builds="tilelang",
    cases={
        "gemm": Case(op="gemm", dims={"M": 40, "N": 36, "K": 77}),
        "gemm_f16": Case(op="gemm", dims={"M": 100, "N": 77, "K": 264}, dtype="float16"),
        "softmax": Case(op="softmax", dims={"M": 70, "N": 197}),
        "layernorm": Case(op="layernorm", dims={"M": 33, "N": 131}),
        "col_sum": Case(op="col_sum", dims={"M": 67, "N": 93}),
        "transpose": Case(op="transpose", dims={"M": 67, "N": 93}),
    },
    first=r"@T\.macro",
    last=r"(?!)",
    inert=_PYTHON_INERT + r"|T\.Tensor\(|threads=\d+\) as \(\)|use_swizzle",
    comment=r"  # ",
    hints=r"(?<=num_stages=)[0-8]\b",
    rules=(
        *INDEX,
        *_STAGES,
        Rule("offset", r"(?<=[\[,])( ?)(\w+ \* \d+)(?=[\],])", lambda m: f"{m[1]}{m[2]} + 1"),
        Rule("extent", r"T\.min\((\d+), [^()]*\)", lambda m: m[1]),
        Rule("extent short", r"T\.min\([^()]*\)", lambda m: f"({m[0]} - 1)"),
        Rule("mask dropped", r"T\.if_then_else\((.*?), (.*), [^,]*\)$", lambda m: m[2]),
        Rule("mask dropped", r"\(\w+ < \w+\) & "),
        Rule("dropped copy", r"^(\s*)T\.copy\(.*\)$", lambda m: f"{m[1]}pass"),
        Rule(
            "dropped leaf",
            r"^(\s*)(leaf_|T\.(fill|gemm|reduce_))\w*\(.*\)$",
            lambda m: f"{m[1]}pass",
        ),
        Rule("constant", r"\b\d+\.\d+\b", lambda m: f"({m[0]} + 0.01)"),
        Rule("operation", r"reduce_max\b", "reduce_min"),
        Rule("operation", r"(?<=\]) / (?=\w)", " * "),
        Rule("sign", r"(?<=\]) - (?=\w+\[)", " + "),
        Rule("dtype", r'(?<=, )"float32"(?=\)$)', '"float16"'),
        Rule("dtype", r"(?<=\+= )A\[i, k\]", 'T.cast(T.cast(A[i, k], "bfloat16"), "float32")'),
    ),
)

FAMILIES = {"cpp": _CPP, "cuda": _CUDA, "dsa": _DSA, "triton": _TRITON, "tilelang": _TILELANG}
