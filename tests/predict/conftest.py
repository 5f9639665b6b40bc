"""The command line, as in tests/cli."""

from tests.cli.conftest import septran

__all__ = ["septran"]
