"""A file that is believed later is as this home wrote it, or it is not sealed."""

from __future__ import annotations

from pathlib import Path

import pytest

from septran import seal

pytestmark = pytest.mark.usefixtures("fresh_home")


def _edited(folder: Path) -> None:
    (folder / "a.json").write_text('{"level": "accurate"}')


def _swapped(folder: Path) -> None:
    (folder / "b.json").write_bytes((folder / "a.json").read_bytes())
    for name in ("a.json", "b.json"):
        seals = folder / "seals"
        (seals / f"{name}.seal").write_text((seals / "a.json.seal").read_text())
    (folder / "a.json").unlink()
    (folder / "b.json").rename(folder / "a.json")
    (folder / "a.json").write_text((folder / "a.json").read_text().replace("1", "2"))


def _unsealed(folder: Path) -> None:
    (folder / "seals" / "a.json.seal").unlink()


def _strange(folder: Path) -> None:
    (folder / "seals" / "a.json.seal").write_bytes(b"\xff" * 64)


@pytest.mark.parametrize("spoil", [_edited, _swapped, _unsealed, _strange])
def test_what_was_edited_is_not_sealed(tmp_path: Path, spoil) -> None:
    seal.write_sealed(tmp_path, "a.json", '{"n": 1}')
    assert seal.read_sealed(tmp_path, "a.json") == {"n": 1}
    spoil(tmp_path)
    assert not seal.is_sealed(tmp_path, "a.json")
    assert seal.read_sealed(tmp_path, "a.json") is None


def test_a_seal_is_of_one_name_in_one_folder(tmp_path: Path) -> None:
    seal.write_sealed(tmp_path / "one", "cells/a.json", "{}")
    (tmp_path / "one" / "cells" / "a.json").rename(tmp_path / "one" / "cells" / "b.json")
    (tmp_path / "one" / "seals" / "cells" / "a.json.seal").rename(
        tmp_path / "one" / "seals" / "cells" / "b.json.seal"
    )
    assert not seal.is_sealed(tmp_path / "one", "cells/b.json")
    seal.write_sealed(tmp_path / "one", "c.json", "{}")
    (tmp_path / "one").rename(tmp_path / "two")
    assert not seal.is_sealed(tmp_path / "two", "c.json")


def test_another_home_did_not_write_it(tmp_path: Path, monkeypatch) -> None:
    seal.write_sealed(tmp_path / "run", "a.json", "{}")
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "other"))
    assert not seal.is_sealed(tmp_path / "run", "a.json")
    seal.write_sealed(tmp_path / "run", "b.json", "{}")
    assert seal.is_sealed(tmp_path / "run", "b.json")


def test_a_kill_between_seal_and_file_leaves_the_old_file_sealed(
    tmp_path: Path, monkeypatch
) -> None:
    seal.write_sealed(tmp_path, "a.json", '{"n": 1}')
    real = seal.write_atomic

    def killed(path: Path, content: str | bytes) -> Path:
        if path == tmp_path / "a.json":
            raise KeyboardInterrupt
        return real(path, content)

    monkeypatch.setattr(seal, "write_atomic", killed)
    with pytest.raises(KeyboardInterrupt):
        seal.write_sealed(tmp_path, "a.json", '{"n": 2}')
    assert seal.read_sealed(tmp_path, "a.json") == {"n": 1}


def test_without_a_key_the_file_is_written_and_not_sealed(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "none").write_text("no folder")
    monkeypatch.setenv("SEPTRAN_HOME", str(tmp_path / "none" / "home"))
    seal.write_sealed(tmp_path / "run", "a.json", "{}")
    assert (tmp_path / "run" / "a.json").read_text() == "{}"
    assert not seal.is_sealed(tmp_path / "run", "a.json")
    assert not seal.fits("text", seal.mark("text"))
