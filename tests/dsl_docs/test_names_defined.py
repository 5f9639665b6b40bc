"""Every name that an example of a prompt uses is defined: in the example, by the language, or by the target's subset."""

from __future__ import annotations

import ast
import builtins
import re

import pytest

from septran import spanyaml
from septran.agent.docs import Block, Doc
from tests.dsl_docs.runner import DOCS, docs_of, dsls

SUBSETS = {
    "cpp": "cpp",
    "cuda_c": "cuda",
    "dsa_c": "c",
    "hip_c": "hip",
    "pallas_tpu": "pallas",
    "tilelang_cuda": "tilelang",
    "tilelang_hip": "tilelang",
    "tilelang_npuir": "npuir",
    "triton_cuda": "triton",
    "triton_hip": "triton",
    "triton_npu": "triton",
}
"""documentation folder -> configs/leaves/<subset>.yaml"""

PYTHON = [
    (doc, block)
    for dsl in dsls()
    for doc in docs_of(dsl)
    for block in doc.blocks
    if block.lang == "python" and block.test not in ("error", "none")
]


@pytest.mark.parametrize(
    ("doc", "block"),
    PYTHON,
    ids=[f"{d.file.removeprefix('dsl_docs/')}:{b.line}" for d, b in PYTHON],
)
def test_python_examples_define_what_they_use(doc: Doc, block: Block) -> None:
    assert undefined(block.code) == set()


@pytest.mark.parametrize("dsl", dsls())
def test_what_the_gate_tells_of_examples_stands_in_them(dsl: str) -> None:
    """The line that a refusal names for `V` is a line of the target's page, and no example has another."""
    subset = spanyaml.load(DOCS.parent / "configs" / "leaves" / f"{SUBSETS[dsl]}.yaml").value
    lines = {
        line.strip() for doc in docs_of(dsl) for b in doc.blocks for line in b.code.splitlines()
    }
    for name, told in (subset.get("examples") or {}).items():
        same = {line for line in lines if re.match(rf"(using|constexpr \w+) {name} =", line)}
        assert same == {told}


def test_an_undefined_name_is_found() -> None:
    assert undefined("def f(x):\n    return keep(x) + y\n") == {"keep", "y"}


def undefined(code: str) -> set[str]:
    """Return names that a Python text loads and never binds (imports, parameters, assignments, definitions)."""
    bound, loaded = set(dir(builtins)), set[str]()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                loaded.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name):
                bound.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound |= {(n.asname or n.name).split(".")[0] for n in names}
    return loaded - bound


def _words(subset: str) -> set[str]:
    value = spanyaml.load(DOCS.parent / "configs" / "leaves" / f"{subset}.yaml").value
    return set(re.findall(r"[A-Za-z_]\w*", str(value)))


@pytest.mark.parametrize("dsl", dsls())
def test_calls_in_the_text_exist(dsl: str) -> None:
    """`name(...)` between backticks is one a leaf may call (one letter: an operand, which is indexed so)."""
    known = {"float", "int"} | _words(SUBSETS[dsl]) | _words("macros")
    found: dict[str, str] = {}
    for doc in docs_of(dsl):
        text = re.sub(r"```.*?```", "", doc.body, flags=re.DOTALL)
        for section in doc.sections:
            if any(word in section.title.lower() for word in ("do not", "error", "host")):
                text = text.replace(section.text, "")
        for span in re.findall(r"`([^`\n]+)`", text):
            for name in re.findall(r"(?<![\w.:>])(?!leaf_)([A-Za-z_]\w+)\(", span):
                found.setdefault(name, f"{doc.file}: {span}")
    unknown = {name: where for name, where in found.items() if name not in known}
    assert not unknown, unknown
