"""A reply that is the library's own leaf is accepted: by the command writer in a kernel, and alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from septran import backends
from septran.kernel import Leaf
from septran.plan.resolve import GenRequest
from septran.run.gen import gen
from septran.run.inspect import leaf_body
from septran.settings import load
from tests.leafgate import consistency

# answers with the body of the leaf whose symbol stands in the prompt
ECHO = """import json, sys
prompt = sys.stdin.read()
for symbol, body in json.load(open(sys.argv[1])).items():
    if symbol in prompt:
        print("Here it is.\\n```\\n" + body + "\\n```")
"""


def bodies(found: tuple[Leaf, ...]) -> dict[str, str]:
    backend = backends.get(found[0].spec.backend)
    return {leaf.spec.symbol: leaf_body(leaf, backend.signature(leaf.spec)) for leaf in found}


def test_the_command_writer_accepts_the_library(tmp_path: Path) -> None:
    found = consistency.leaves("cpp", "gelu", "float32")
    (tmp_path / "echo.py").write_text(ECHO)
    (tmp_path / "bodies.json").write_text(json.dumps(bodies(found)))
    command = f"{sys.executable} {tmp_path / 'echo.py'} {tmp_path / 'bodies.json'}"
    request = GenRequest(
        op="gelu",
        backend="cpp",
        dims=consistency.OPERATORS["gelu"],
        writer=f"command:{command}",
        attempts=1,
    )
    told: list[str] = []
    result = gen(request, settings=load(), progress=told.append, into=tmp_path / "run", timed=False)
    assert result.exit_code == 0
    verdicts = [json.loads(p.read_text()) for p in (tmp_path / "run").rglob("verdicts/*.json")]
    assert [v["verdict"]["status"] for v in verdicts] == ["ok"] * len(found), told


@pytest.mark.parametrize(
    ("backend", "op"),
    [
        ("cpp", "row_sum"),
        ("cpp", "softmax"),
        ("cuda_c", "gemm"),
        ("triton_cuda", "softmax"),
        ("tilelang_cuda", "relu"),
        ("tilelang_npuir", "relu"),
    ],
)
def test_library_leaves_sent_back_are_right(backend: str, op: str, tmp_path: Path) -> None:
    for number, leaf in enumerate(consistency.leaves(backend, op, "float32")):
        verdict = consistency.sent_back(leaf, op, "float32", tmp_path / str(number))
        assert verdict.verified, verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("backend", consistency.BACKENDS)
def test_all_library_leaves_sent_back_are_right(backend: str) -> None:
    refused = [r for r in consistency.rows((backend,), ("float32", "bfloat16")) if r.told]
    assert refused == []


def test_the_page_names_every_backend() -> None:
    text = consistency.PAGE.read_text(encoding="utf-8")
    assert all(f"| {backend} |" in text for backend in consistency.BACKENDS)
    assert "refused" not in text
