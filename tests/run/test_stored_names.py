"""A stored run is a folder that anybody may have written: its names are contained, and export looks for itself."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from septran import settings as settings_
from septran.document import plain_text, read_object
from septran.errors import ConfigError, SeptranError
from septran.plan.resolve import GenRequest
from septran.report import history
from septran.report.data import read_report
from septran.run import store
from septran.run.bundle import export_run
from septran.run.gen import gen
from septran.run.stored import stored_kernel
from septran.verify.evidence import bad_name


def _quiet(_: str) -> None: ...


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> store.Run:
    home = tmp_path_factory.mktemp("home")
    settings = settings_.load(flags={})
    request = GenRequest(op="relu", backend="cpp", dims={"N": 65})
    result = gen(request, settings=settings, progress=_quiet, into=home / "run", timed=False)
    assert result.exit_code == 0
    return store.find(str(result.data["run"]), home)


@pytest.mark.parametrize(
    "name",
    ["../../outside.cpp", "/etc/passwd", "-wrapper", "@options", "a/../../b.cpp", "", "a/-x.cpp"],
)
def test_a_file_name_that_is_more(run: store.Run, name: str) -> None:
    path = run.dir / "kernel.json"
    text = path.read_text()
    about = json.loads(text)
    path.write_text(json.dumps(about | {"files": [*about["files"], name]}))
    try:
        with pytest.raises(ConfigError) as caught:
            stored_kernel(run)
    finally:
        path.write_text(text)
    assert "C136" in caught.value.codes
    assert "plain name" in str(caught.value)


def test_names_of_kernels() -> None:
    assert bad_name(["a.cpp", "sub/b_c.h"], "a.cpp", "gemm_entry") == ""
    assert "no file" in bad_name(["a.cpp"], "b.cpp", "f")
    assert "entry" in bad_name(["a.cpp"], "a.cpp", "f -o /tmp/x")


def test_a_link_is_not_followed(run: store.Run, tmp_path: Path) -> None:
    main = run.dir / json.loads((run.dir / "kernel.json").read_text())["main"]
    kept = main.read_text()
    (tmp_path / "elsewhere").write_text(kept)
    main.unlink()
    main.symlink_to(tmp_path / "elsewhere")
    try:
        with pytest.raises(ConfigError, match="link"):
            stored_kernel(run)
    finally:
        main.unlink()
        main.write_text(kept)


@pytest.mark.wider
def test_export_signs_what_it_sees_now(run: store.Run, tmp_path: Path) -> None:
    """A stored verdict that says accurate, beside a kernel that is wrong, is not signed."""
    settings = settings_.load(flags={})
    main = run.dir / json.loads((run.dir / "kernel.json").read_text())["main"]
    good = main.read_text()
    assert export_run(run, tmp_path / "good.json", settings=settings, progress=_quiet).is_file()
    head = good.index("relu_entry(void* const* args)")
    end = good.index("\n}\n", head)
    main.write_text(f"{good[:end]}\n    static_cast<float*>(args[0])[3] += 1.0f;{good[end:]}")
    try:
        with pytest.raises(SeptranError) as caught:
            export_run(run, tmp_path / "bad.json", settings=settings, progress=_quiet)
    finally:
        main.write_text(good)
    assert "V220" in caught.value.codes
    assert not (tmp_path / "bad.json").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"op": None},
        {"op": ["relu"]},
        {"dims": [65]},
        {"dims": {"N": "many"}},
        {"mapping": 3},
        {"leaves": 3},
        {"op": "\ud800"},
    ],
)
def test_a_request_that_is_none(run: store.Run, change: dict[str, object]) -> None:
    info = run.info()
    run.update(request=info["request"] | change)
    try:
        with pytest.raises(ConfigError) as caught:
            stored_kernel(run)
    finally:
        run.update(request=info["request"])
    assert "C136" in caught.value.codes


def test_a_kernel_without_a_name(run: store.Run) -> None:
    path = run.dir / "kernel.json"
    text = path.read_text()
    about = json.loads(text)
    about.pop("name")
    path.write_text(json.dumps(about))
    try:
        with pytest.raises(ConfigError, match="C136"):
            stored_kernel(run)
    finally:
        path.write_text(text)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [_pipe, _device])
def test_what_is_no_plain_file_is_not_waited_for(
    put: Callable[[Path], None], tmp_path: Path
) -> None:
    put(tmp_path / "result.json")
    with pytest.raises(OSError, match="no plain file"):
        plain_text(tmp_path / "result.json")
    assert read_object(tmp_path / "result.json") is None


@pytest.mark.parametrize("name", ["kernel.json", "result.json", "relu.cpp"])
def test_a_pipe_in_the_place_of_a_runs_file(run: store.Run, tmp_path: Path, name: str) -> None:
    copied = store.Run(Path(shutil.copytree(run.dir, tmp_path / "copied")))
    (copied.dir / name).unlink()
    _pipe(copied.dir / name)
    with pytest.raises(ConfigError) as caught:
        stored_kernel(copied)
    assert "no plain file" in str(caught.value)
    if name == "result.json":
        with pytest.raises(SeptranError):
            read_report(copied)


def test_a_report_shows_no_file_of_elsewhere(run: store.Run, tmp_path: Path) -> None:
    """Who is sent a run, and sends its report on, sends no other file of his."""
    secret = tmp_path / "secret.txt"
    secret.write_text("mine alone\n")
    copied = store.Run(Path(shutil.copytree(run.dir, tmp_path / "copied")))
    data = json.loads((copied.dir / "result.json").read_text())
    assert [s.text for s in history.sources(read_report(copied), ()).values()] != [""]
    (copied.dir / "result.json").write_text(json.dumps(data | {"kernel": str(secret)}))
    shown = history.sources(read_report(copied), ())
    assert [s.text for s in shown.values()] == [""]


def test_a_certificate_that_nests_without_end(run: store.Run, tmp_path: Path) -> None:
    copied = store.Run(Path(shutil.copytree(run.dir, tmp_path / "copied")))
    (copied.dir / "certificate.json").write_text("[" * 100_000)
    data = json.loads((copied.dir / "result.json").read_text())
    data["proof"] = (data.get("proof") or {}) | {"refused": ["bounds"]}
    (copied.dir / "result.json").write_text(json.dumps(data))
    assert read_report(copied).rows
