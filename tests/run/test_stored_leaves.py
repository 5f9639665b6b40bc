"""A leaf in a stored run or a bundle passes the source gate before a compiler runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from septran import settings as settings_
from septran.cli.main import main
from septran.plan.floor import library_leaves
from septran.plan.resolve import GenRequest, lower_plan, resolve
from septran.run import store
from septran.run.gen import gen
from septran.run.stored import stored_kernel
from septran.trial.stored_leaves import read_leaves
from septran.verify.evidence import export_bundle
from septran.verify.verdict import Verdict

EDITS = {
    "asm": 'asm volatile("nop");',
    "a system call": "__builtin_ia32_rdtsc();",
    "hidden by digit separators": "int q = 1'0; asm volatile(\"\"); q = 2'0;",
    "a static": "static int calls; ++calls;",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> store.Run:
    home = tmp_path_factory.mktemp("home")
    request = GenRequest(op="relu", backend="cpp", dims={"N": 65})
    result = gen(
        request, settings=settings_.load(), progress=lambda _: None, into=home / "run", timed=False
    )
    assert result.exit_code == 0
    return store.find(str(result.data["run"]), home)


def _edited(text: str, what: str) -> str:
    """The kernel's text with `what` at the start of its first leaf."""
    body = text.index(") {\n", text.index("// ---- leaves\n")) + 4
    return f"{text[:body]}    {what}\n{text[body:]}"


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_leaf_is_not_compiled(
    run: store.Run, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run.dir / "relu.cpp"
    kept = path.read_text()
    path.write_text(_edited(kept, EDITS[name]))
    before = set(run.dir.glob("verify*"))
    try:
        code = main(["verify", str(run.dir), "--json"])
    finally:
        path.write_text(kept)
    found = json.loads(capsys.readouterr().out)
    assert (code, found["level"]) == (1, "rejected"), found["reason"]
    assert "V210" in found["reason"]
    (folder,) = set(run.dir.glob("verify*")) - before
    assert not (folder / "build").exists()


def test_what_stands_around_the_leaves(run: store.Run) -> None:
    request, kernel, _ = stored_kernel(run)
    plan = resolve(request)
    lowered = lower_plan(plan)
    text = kernel.source

    def read(changed: str) -> tuple[tuple[str, ...], str]:
        assert changed != text
        edited = replace(kernel, files=((kernel.main, changed),))
        found = read_leaves(plan.backend, lowered, edited)
        return found.refused, found.unread

    assert read_leaves(plan.backend, lowered, kernel).refused == ()
    assert read_leaves(plan.backend, lowered, kernel).unread == ""
    more = text.replace("// ---- hierarchy", "static int kept;\n// ---- hierarchy")
    assert read(more)[0]
    assert "no place for them" in read(text.replace("// ---- leaves\n", ""))[1]
    begin = "relu_entry(void* const* args) {\n"
    for extra in ("args = args + 0;\n", "// takes the next line along \\\n"):
        assert "around the leaves" in read(text.replace(begin, f"{begin}{extra}"))[1]
    assert "leaves' text" in read(text.replace("leaf_", "lead_"))[1]


def test_a_leaf_for_a_gpu() -> None:
    plan = resolve(GenRequest(op="relu", backend="cuda_c", dims={"N": 65}))
    lowered = lower_plan(plan)
    leaves = library_leaves(plan.backend, lowered.program, lowered.bound.mapping)
    kernel = plan.backend.emit(lowered.program, leaves)
    assert read_leaves(plan.backend, lowered, kernel).unread == ""
    changed = _edited(kernel.source, EDITS["asm"])
    files = tuple((n, changed if n == kernel.main else t) for n, t in kernel.files)
    edited = replace(kernel, files=files)
    assert "plain ASCII" in read_leaves(plan.backend, lowered, edited).refused[0]


def test_an_edited_leaf_in_a_bundle(
    run: store.Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "home"))
    _, kernel, _ = stored_kernel(run)
    edited = replace(kernel, files=((kernel.main, _edited(kernel.source, EDITS["asm"])),))
    text = (run.dir / "verify" / "verdict.json").read_text(encoding="utf-8")
    verdict = replace(Verdict.from_json(json.loads(text)), kernel_sha=edited.sha)
    path = export_bundle(edited, verdict, tmp_path / "b.json", request={"op": "relu"})
    code = main(["verify", "--bundle", str(path), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["level"]) == (1, "rejected"), found
    assert "V210" in found["reason"]
    assert "plain ASCII" in found["reason"]
    assert not (Path(found["run"]) / "verify" / "build").exists()
