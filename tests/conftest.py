"""Options, markers and fixtures shared by all tests.

    --slow            also run tests marked slow or wider (make test-wide)
    --update-golden   rewrite tests/golden/ instead of comparing

Tests need no GPU, no key and no network. A session in which everything was skipped fails.
"""

from __future__ import annotations

import functools
import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from septran.backends.base import Availability
from septran.backends.cpp.backend import emulator
from tests.support.homes import with_tools

GOLDEN = Path(__file__).parent / "golden"
LONGER = {"slow", "wider"}
_CLEARED = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "SEPTRAN_BASE_URL",
    "SEPTRAN_MODEL",
    "SEPTRAN_PROJECT",
    "SEPTRAN_WRITER",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    parser.addoption("--slow", action="store_true", help="also run tests marked slow or wider")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.support.scheduling import ByNeed

    return ByNeed(config, log)


def pytest_collection(session: pytest.Session) -> None:
    gc.disable()  # nearly all that is made until the tests run stays


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collecting made is not looked through again by each full collection while the tests run."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for cells in _marked(items, "each_value"):
        for item in _left_out(cells):
            item.add_marker(pytest.mark.wider)
    for cells in _marked(items, "few"):
        (count,) = next(cells[0].iter_markers("few")).args
        kept = {round(i * (len(cells) - 1) / max(1, count - 1)) for i in range(count)}
        for i, item in enumerate(cells):
            if i not in kept:
                item.add_marker(pytest.mark.wider)
    if not config.getoption("--slow"):
        # not skipped: ten thousand reports of tests that nobody asked for cost a quarter of a minute
        longer = [item for item in items if {m.name for m in item.iter_markers()} & LONGER]
        config.hook.pytest_deselected(items=longer)
        left_out = set(longer)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        reason = _why_not(item)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_not(item: pytest.Item) -> str:
    marks = {mark.name for mark in item.iter_markers()}
    for mark in item.iter_markers("qemu"):
        missing = emulator(*mark.args)
        if isinstance(missing, Availability):
            return f"{mark.args[0]}: {missing.detail}"
    if "browser" in marks and not (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    ):
        return "needs headless Chromium"
    if "gpu" in marks and not (Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists()):
        return "needs a GPU"
    if "npu" in marks and not Path("/dev/davinci_manager").exists():
        return "needs an Ascend NPU"
    if "llm" in marks and not os.environ.get("SEPTRAN_TEST_LLM"):
        return "needs a model server; set SEPTRAN_TEST_LLM to its base URL"
    return ""


def _marked(items: list[pytest.Item], mark: str) -> list[list[pytest.Function]]:
    """Return the cells of each function with `mark`, but for those that do not run by default anyway."""
    found: dict[str, list[pytest.Function]] = {}
    for item in items:
        marks = {m.name for m in item.iter_markers()}
        if isinstance(item, pytest.Function) and marks & {mark, *LONGER} == {mark}:
            found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return list(found.values())


def _left_out(cells: list[pytest.Function]) -> list[pytest.Function]:
    """Return the cells without which every value of every parameter is still in one; the first of equals stays."""
    values = {cell: {(n, id(v)) for n, v in cell.callspec.params.items()} for cell in cells}
    missing = set().union(*values.values())
    kept = set()
    while missing:
        best = max(cells, key=lambda cell: len(values[cell] & missing))
        kept.add(best)
        missing -= values[best]
    return [cell for cell in cells if cell not in kept]


class _Tally:
    """Counts what ran, so that a session of only skips does not look green."""

    def __init__(self) -> None:
        self.ran = 0
        self.skipped = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped += 1
        elif report.when == "call":
            self.ran += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped and not self.ran and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not terminalreporter.config.getoption("--slow"):
            terminalreporter.write_line("slow and wider tests are left out; --slow runs them")
        if self.skipped and not self.ran:
            terminalreporter.write_line("every test was skipped: nothing was shown", red=True)


def pytest_configure(config: pytest.Config) -> None:
    # what `septran doctor --install` has put into the developer's own home, which no test sees
    home = os.environ.get("SEPTRAN_HOME") or str(Path.home() / ".septran")
    os.environ.setdefault("SEPTRAN_TEST_ENVIRONMENTS", f"{home}/environments")
    config.pluginmanager.register(_Tally(), "septran-tally")


@pytest.fixture(scope="session")
def _session_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("septran-home")


@pytest.fixture(autouse=True)
def _quiet_environment(_session_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees the developer's home, project, model or key; caches last for the session.

    A command called in this process puts its options into the environment: none outlasts its test.
    """
    before = dict(os.environ)
    monkeypatch.setenv("SEPTRAN_HOME", str(_session_home))
    for name in _CLEARED:
        monkeypatch.delenv(name, raising=False)
    yield
    monkeypatch.undo()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _short_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `gen` adds about speed, in this process: no test of the suite believes a figure of a busy machine.

    Tests of how kernels are timed call what times them, or a command of its own process.
    """
    one = sys.modules.get("septran.run.one")
    if one is not None:
        quick = functools.partial(one.time_kernel, budget_s=0.05, slot_s=0.002)
        monkeypatch.setattr(one, "time_kernel", quick)


@pytest.fixture
def fresh_home(_session_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A SEPTRAN_HOME for this test alone, without a run, a kernel or a setting."""
    home = with_tools(tmp_path / "fresh-home", _session_home)
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("SEPTRAN_HOME", str(home))
    return home


@pytest.fixture
def in_tmp(tmp_path: Path) -> Iterator[Path]:
    """Run the test in an empty working directory."""
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return check(name, text): `text` equals tests/golden/<name>, which --update-golden rewrites."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.is_file(), f"no golden file {name}; rerun with --update-golden. Text:\n{text}"
        assert text == path.read_text(encoding="utf-8"), f"differs from tests/golden/{name}"

    return check
