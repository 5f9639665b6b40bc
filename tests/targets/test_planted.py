"""On every arch of every target: the product as it is printed is right, and with a planted bug it is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from septran import backends
from tests.targets.planted import BUGS, CLASSES, Edit, edited, judged, place, product

ARCHS = [
    (name, arch) for name, _ in backends.BUILTIN for arch in backends.get(name).arches or ("",)
]
PLANTED = [
    (name, arch, kind)
    for name, arch in ARCHS
    for kind in CLASSES
    if isinstance(BUGS[name][kind], Edit)
]
QUICK = {("cuda_c", "sm_80", "wrong slot"), ("triton_cuda", "sm_90", "clipped edge")}


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with what the developer's own `septran doctor --install` has brought."""
    there = Path(os.environ.get("SEPTRAN_TEST_ENVIRONMENTS", "/nowhere"))
    if there.is_dir():
        home = tmp_path / "home"
        home.mkdir()
        (home / "environments").symlink_to(there.resolve(), target_is_directory=True)
        monkeypatch.setenv("SEPTRAN_HOME", str(home))


@pytest.mark.parametrize("name", [name for name, _ in backends.BUILTIN])
def test_every_class_has_a_bug_or_a_reason(name: str) -> None:
    """The bugs are in the text of the target's first arch; the slow tests plant them on all."""
    kernel, _ = product(name, backends.get(name).arches[0] if backends.get(name).arches else "")
    assert set(BUGS[name]) == set(CLASSES)
    for what in BUGS[name].values():
        if isinstance(what, Edit):
            assert edited(kernel, what).source != kernel.source
        else:
            assert len(what.split()) > 5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), ARCHS)
def test_the_product_itself_is_right(name: str, arch: str, tmp_path: Path) -> None:
    if isinstance(found := place(name, arch), str):
        pytest.skip(found)
    verdict = judged(*product(name, arch), found, tmp_path)
    assert verdict.passed, verdict.message


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "arch", "kind"),
    [p if p in QUICK else pytest.param(*p, marks=pytest.mark.slow) for p in PLANTED],
)
def test_a_planted_bug_is_found(name: str, arch: str, kind: str, tmp_path: Path) -> None:
    if isinstance(found := place(name, arch), str):
        pytest.skip(found)
    kernel, problem = product(name, arch)
    bug = BUGS[name][kind]
    assert isinstance(bug, Edit)
    verdict = judged(edited(kernel, bug), problem, found, tmp_path)
    assert not verdict.passed
    assert verdict.status.value != "unavailable", verdict.message
