"""Every DSL document tells the truth: its code runs, its errors occur, its names exist, it is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from septran.agent.chat import estimate_tokens
from septran.agent.docs import FILES, Block, Doc, row_regex
from septran.leafgate import Refusal
from tests.dsl_docs.gate import admitted, admitted_module, leaves
from tests.dsl_docs.runner import docs_of, dsls, runner_of

ALL = [(dsl, doc) for dsl in dsls() for doc in docs_of(dsl)]
HEADS = {
    "api": ("Contract", "Launch", "Memory", "Movement", "Compute", "Sync", "do NOT exist"),
    "basic_docs": ("Mental model", "Skeleton", "Checked kernels", "Boundar", "Mapping", "Host"),
    "suggestion": ("Decision", "Resource", "Performance", "Numeric", "Error", "trap", "Do not"),
}


def _ids(pairs: list[tuple[str, Doc]]) -> list[str]:
    return [doc.file.removeprefix("dsl_docs/") for _, doc in pairs]


def _blocks() -> list[tuple[str, Doc, Block]]:
    return [(dsl, doc, block) for dsl, doc in ALL for block in doc.blocks]


@pytest.mark.parametrize("dsl", dsls())
def test_the_three_files_are_there(dsl: str) -> None:
    names = {str(doc.front["file"]) for doc in docs_of(dsl)}
    assert set(FILES) <= names


@pytest.mark.parametrize(("dsl", "doc"), ALL, ids=_ids(ALL))
def test_front_matter_and_heads(dsl: str, doc: Doc) -> None:
    assert doc.front["dsl"] == dsl
    assert doc.file.endswith(f"/{doc.front['file']}.md")
    verified = doc.front["verified"]
    assert isinstance(verified, dict)
    assert {"date", "how", "machine"} <= set(verified)
    if "extends" in doc.front:
        return
    titles = [section.title for section in doc.sections]
    for head in HEADS[str(doc.front["file"])]:
        assert any(head.lower() in t.lower() for t in titles), f"no section on {head!r}"


@pytest.mark.parametrize(("dsl", "doc"), ALL, ids=_ids(ALL))
def test_token_budget(dsl: str, doc: Doc) -> None:
    used = estimate_tokens(doc.body)
    limit = doc.front["tokens_max"]
    assert isinstance(limit, int)
    assert used <= limit, f"{doc.file}: {used} estimated tokens, {limit} allowed"


@pytest.mark.parametrize(("dsl", "doc"), ALL, ids=_ids(ALL))
def test_every_block_is_tagged(dsl: str, doc: Doc) -> None:
    known = {*runner_of(dsl).KINDS, "error", "none"}
    for block in doc.blocks:
        where = f"{doc.file}:{block.line}"
        assert block.test in known, f"{where}: test={block.test!r} is none of {sorted(known)}"
        if block.test == "error":
            assert block.attrs.get("re"), f"{where}: an error block needs re="
        if block.test == "none":
            assert block.attrs.get("reason"), f"{where}: test=none needs reason="


@pytest.mark.few(18)
@pytest.mark.parametrize(
    ("dsl", "doc", "block"),
    _blocks(),
    ids=[f"{d.file.removeprefix('dsl_docs/')}:{b.line}" for _, d, b in _blocks()],
)
def test_block(dsl: str, doc: Doc, block: Block, tmp_path: Path) -> None:
    if block.test == "none":
        return
    outcome = runner_of(dsl).check(block, tmp_path)
    where = f"{doc.file}:{block.line}"
    if block.test == "error":
        assert not outcome.ok, f"{where}: was expected to fail"
        assert re.search(block.attrs["re"], outcome.log), f"{where}:\n{outcome.log[-2000:]}"
    else:
        assert outcome.ok, f"{where}:\n{outcome.log[-3000:]}"


WHOLE = [
    (doc, block)
    for _, doc, block in _blocks()
    if block.lang == "python" and block.test not in ("error", "none")
]


@pytest.mark.parametrize(("dsl", "doc"), ALL, ids=_ids(ALL))
def test_names_exist(dsl: str, doc: Doc) -> None:
    allowed = "\n".join(s.text for s in doc.sections if "do not exist" in s.title.lower())
    rest = doc.body.replace(allowed, "") if allowed else doc.body
    unknown = runner_of(dsl).unknown_names(rest)
    assert not unknown, f"{doc.file} names what does not exist: {sorted(unknown)}"


@pytest.mark.parametrize(("dsl", "doc"), ALL, ids=_ids(ALL))
def test_version_lock(dsl: str, doc: Doc) -> None:
    stated = doc.front["version"]
    assert isinstance(stated, dict)
    installed = runner_of(dsl).versions()
    for name, version in stated.items():
        if name in installed:
            found = installed[name]
            known = version if isinstance(version, list) else [version]
            assert found.startswith(tuple(map(str, known))), (
                f"{doc.file} was verified with {name} {version}, installed is {found}: "
                "re-verify the docs, then change version and verified in the front matter"
            )


def error_rows(doc: Doc) -> list[list[str]]:
    """Return the cells of each row of the error table (first cell: the regex; a bar in it is escaped)."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        for section in doc.sections
        if "error" in section.title.lower()
        for line in [row for row in section.text.splitlines() if row.lstrip().startswith("|")][2:]
    ]


@pytest.mark.parametrize(
    ("dsl", "doc"),
    [p for p in ALL if p[1].front["file"] == "suggestion"],
    ids=_ids([p for p in ALL if p[1].front["file"] == "suggestion"]),
)
def test_error_table_regexes(dsl: str, doc: Doc) -> None:
    rows = error_rows(doc)
    assert rows or "extends" in doc.front, f"{doc.file} has no error table"
    for row in rows:
        assert len(row) == 3, f"{doc.file}: error | cause | fix expected, found {row}"
        re.compile(row_regex(row[0]))
    quoted = [b.attrs["re"] for b in doc.blocks if b.test == "error"]
    for message in quoted:
        assert any(row_regex(r[0]) == message for r in rows), f"no row for {message!r}"


@pytest.mark.parametrize(
    ("doc", "block"),
    WHOLE,
    ids=[f"{d.file.removeprefix('dsl_docs/')}:{b.line}" for d, b in WHOLE],
)
def test_the_gate_sees_a_leaf_in_each_module(doc: Doc, block: Block) -> None:
    assert leaves(block.code), f"{doc.file}:{block.line} shows a kernel without a leaf"


def test_the_gate_in_front_of_examples_refuses() -> None:
    macro = "@T.macro\ndef leaf_f(Y, X):\n    {}\n"
    assert "T.copy" in admitted_module(macro.format("T.copy(X, Y)"), "npuir")
    for line in ("T.copy(Y, X)", "T.call_extern(Y)", "import os"):
        with pytest.raises(Refusal):
            admitted_module(macro.format(line), "npuir")
    signature = "static void leaf(st::View<float, 2> C)"
    assert "C(0, 0)" in admitted(
        f"{signature} {{\nC(0, 0) = 1;\n}}\n", signature, "cpp", [("C", True)]
    )
    with pytest.raises(Refusal, match="neither declared"):
        admitted(f"{signature} {{\nputs(C);\n}}\n", signature, "cpp", [("C", True)])
