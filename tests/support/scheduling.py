"""Which test files share a worker: those that need the same thing first, made once for all of them."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

TOGETHER = {
    "packaging": "the package's syntax trees",
    "batch/test_bundle": "a finished batch",
    "batch/test_real": "a finished batch",
}


class ByNeed(LoadFileScheduling):  # type: ignore[misc]
    """As by file, but files that need the same thing count as one."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        name = file.removeprefix("tests/").removesuffix(".py")
        return TOGETHER.get(name) or TOGETHER.get(name.partition("/")[0]) or file
