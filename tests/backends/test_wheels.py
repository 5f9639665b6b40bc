"""Files out of a wheel: the hash decides before anything is unpacked, and only what was named is kept."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from septran.errors import EnvironmentProblem
from septran.toolchain import wheels
from septran.toolchain.wheels import Wheel

MEMBERS = {
    "pkg/lib/model.so": b"\x7fELF",
    "pkg/include/a.h": b"int a;",
    "pkg/include/deep/b.h": b"int b;",
    "pkg/other.py": b"import os",
    "pkg/include/../../../evil": b"no",
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name, data in MEMBERS.items():
            file.writestr(name, data)
    return path


def wheel(archive: Path) -> Wheel:
    return Wheel(
        requirement="pkg==1.0",
        python="3.10",
        sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
        megabytes=1,
        licence="MIT",
        files=("pkg/lib/model.so", "pkg/include/"),
    )


def test_only_what_was_named_is_kept(archive: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    wheels.unpack(wheel(archive), archive, there)
    found = sorted(str(p.relative_to(there)) for p in there.rglob("*") if p.is_file())
    assert found == ["pkg/include/a.h", "pkg/include/deep/b.h", "pkg/lib/model.so"]
    assert not (tmp_path / "evil").exists()
    assert wheel(archive).missing(there) == ()


def test_another_wheel_is_refused(archive: Path, tmp_path: Path) -> None:
    other = replace(wheel(archive), sha256="0" * 64)
    with pytest.raises(
        EnvironmentProblem, match=r"pkg==1.0 could not be brought: its sha256 is"
    ) as told:
        wheels.unpack(other, archive, tmp_path / "there")
    assert told.value.codes == ("V112",)
    assert not (tmp_path / "there").exists()


def test_a_wheel_without_a_file_is_refused(archive: Path, tmp_path: Path) -> None:
    more = replace(wheel(archive), files=("pkg/lib/model.so", "pkg/lib/other.so"))
    with pytest.raises(EnvironmentProblem, match=r"it has no pkg/lib/other.so"):
        wheels.unpack(more, archive, tmp_path / "there")


def test_what_was_there_is_replaced_as_a_whole(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "_downloaded", lambda _wheel, _folder: archive)
    there = tmp_path / "home" / "there"
    there.mkdir(parents=True)
    (there / "old").write_text("", encoding="utf-8")
    assert wheels.fetch(wheel(archive), there) == there
    assert wheels.is_here(wheel(archive), there)
    assert not wheels.is_here(replace(wheel(archive), sha256="0" * 64), there)
    assert not (there / "old").exists() and (there / "pkg/lib/model.so").exists()
    assert list(there.parent.iterdir()) == [there]
