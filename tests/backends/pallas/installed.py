"""Where the developer's own `septran doctor --install pallas_tpu` has put jax; tests have homes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def jax_folder() -> Path | None:
    """Return the environment's folder, None when it is not installed."""
    there = Path(os.environ["SEPTRAN_TEST_ENVIRONMENTS"]) / "pallas_tpu"
    return there if list(there.glob("jax-*.dist-info")) else None


def jax_version() -> str:
    """Return the version of the installed jax, "" when there is none."""
    there = jax_folder()
    names = [] if there is None else [p.name for p in there.glob("jax-*.dist-info")]
    return names[0].removeprefix("jax-").removesuffix(".dist-info") if names else ""


@pytest.fixture
def simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the developer's environment of pallas_tpu; skips where there is none."""
    there = jax_folder()
    if there is None:
        pytest.skip("jax is not installed (septran doctor --install pallas_tpu)")
    home = tmp_path / "home"
    (home / "environments").mkdir(parents=True)
    (home / "environments" / "pallas_tpu").symlink_to(there.resolve(), target_is_directory=True)
    monkeypatch.setenv("SEPTRAN_HOME", str(home))
    return home


@pytest.fixture
def simulated_where_asked(request: pytest.FixtureRequest) -> None:
    """`simulated` for a test whose parameters name the target; nothing for the others."""
    callspec = getattr(request.node, "callspec", None)
    if callspec is not None and "pallas_tpu" in callspec.params.values():
        request.getfixturevalue("simulated")
