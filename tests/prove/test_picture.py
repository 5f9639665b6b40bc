"""The picture of a refused proof: on the page of `septran prove`, and on the page of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from septran.ir.text import print_program
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.prove.races import races
from septran.prove.sets import model
from septran.report.data import read_report
from septran.report.picture import pictures
from septran.report.write import write_report
from septran.run.prove import decide_again, prove_request
from tests.batch.test_report_page import run_dir
from tests.cli.conftest import septran as septran
from tests.prove.mutants import mutants

SIZES = {"M": 200, "N": 150, "K": 100}


@pytest.fixture(scope="module")
def sound() -> dict[str, object]:
    request = GenRequest(op="gemm", backend="cuda_c", dims=SIZES)
    return prove_request(request).certificate.to_json()


def broken(sound: dict[str, object], fault: str) -> dict[str, object]:
    """The certificate with a fault in its Program; its rules still say proved."""
    program = lower_plan(resolve(GenRequest(op="gemm", backend="cuda_c", dims=SIZES))).program
    planted = next(m for name, m in mutants(program) if name.startswith(fault))
    return {**sound, "program": print_program(planted)}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("fault", "code", "tensor", "says"),
    [
        ("made parallel: loop k0", "P030", "acc[128, 128]", ("k0 = 0 writes", "k0 = 1 reads")),
        (
            "dim 0 shifted: copy A_s",
            "P010",
            "A_s[128, 32]",
            ("[1:129, 0:32]", "element [128, 31], outside"),
        ),
        ("one iteration less: loop i0", "P020", "C[200, 150]", ("element [128, 0]",)),
        ("dim 1 clipped: copy A_s", "P050", "A_s[128, 32]", ("element [0, 3]",)),
    ],
)
def test_a_witness_has_a_picture(sound, fault: str, code: str, tensor: str, says: tuple[str, ...]):
    found = decide_again(broken(sound, fault)).findings
    drawn = next(f for f in found if f.code == code)
    (picture, *_) = pictures(drawn.to_json())
    texts = re.findall(r"<text [^>]*>(.*?)</text>", picture)
    assert texts[0] == tensor
    assert all(any(part in t for t in texts) for part in says), texts


def test_two_tiles_lie_where_they_are():
    """Rows 0 to 3 and 2 to 5 of 8: half a picture each, and they share two rows."""
    tile = {"does": "writes", "buffer": "T", "shape": [8, 8], "step": [1, 1], "extent": [4, 8]}
    tiles = [{**tile, "statement": s, "offset": [at, 0]} for s, at in (("a", 0), ("b", 2))]
    (picture,) = pictures({"tiles": tiles, "element": [2, 0]})
    boxes = re.findall(
        r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)" fill="(\S+)"', picture
    )
    whole, a, b, element = ([float(x) for x in box[:4]] for box in boxes[:4])
    row = whole[3] / 8
    assert a == [*whole[:3], pytest.approx(4 * row)]
    assert b[1] - a[1] == pytest.approx(2 * row) and element[1] == b[1]
    assert len({box[4] for box in boxes[:4]}) == 4


def test_prove_writes_the_page(septran, sound, tmp_path: Path):
    file, page = tmp_path / "certificate.json", tmp_path / "report.html"
    file.write_text(json.dumps(broken(sound, "made parallel: loop k0")))
    done = septran("prove", "--check", str(file), "-o", str(page))
    assert done.code == 1
    text = page.read_text()
    assert text.count("<svg") >= 1 and "P030" in text and "races" in text
    assert "<script" not in text


def test_the_page_of_a_run_has_the_picture(sound, tmp_path: Path):
    certificate = decide_again(broken(sound, "made parallel: loop k0"))
    proof = {"refused": {"races": "P030"}, "not_asked": {}, "seconds": 0.1}
    run = run_dir(tmp_path, 1, "int a;\n", proof=proof)
    (run.dir / "certificate.json").write_text(json.dumps(certificate.to_json()))
    text = write_report(read_report(run), "html")
    part = text[text.index("<h2>Not proven") : text.index("<h2>Kernels")]
    assert "<svg" in part and "P030" in part
    (run.dir / "certificate.json").write_text("{")
    assert "<h2>Not proven" not in write_report(read_report(run), "html")


def test_every_refusal_of_two_iterations_names_an_element_of_both():
    program = lower_plan(
        resolve(GenRequest(op="gemm", backend="cpp", dims={**SIZES, "K": 1024}))
    ).program
    planted = next(m for name, m in mutants(program) if name.startswith("made parallel"))
    for found in races(model(planted)):
        first, second = found.tiles
        for t in (first, second):
            inside = zip(found.element, t.offset, t.extent, t.step, strict=True)
            assert all((x - o) % s == 0 and 0 <= (x - o) // s < n for x, o, n, s in inside)
