"""What a judged file is told when it asks which version of a package there is.

Lies beside a judged kernel as septran_versions.py.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import types
from collections.abc import Iterable
from typing import Any

KNOWN = ("triton", "torch", "tilelang")


def answer(versions: Iterable[tuple[str, str]], file: str) -> None:
    """Have packages say the versions (package, version), and show the judged file of them no more than these when it asks by name.

    file: whose calls are answered so; a package that the file may not import is not there for it. Call it before the file is imported.
    """
    for name, version in versions:
        module = importlib.import_module(name)
        kind = type(module.__version__)  # torch's compares with numbers
        module.__version__ = kind(version)  # type: ignore[attr-defined,unused-ignore]
    stock, stock_version = importlib.import_module, importlib.metadata.version

    def asked() -> bool:
        return sys._getframe(2).f_code.co_filename == file

    def import_module(name: str, package: str | None = None) -> Any:
        if not asked():
            return stock(name, package)
        if name not in KNOWN:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return types.SimpleNamespace(__version__=stock(name).__version__)

    def version_of(distribution_name: str) -> str:
        if not asked():
            return stock_version(distribution_name)
        if distribution_name not in KNOWN:
            raise importlib.metadata.PackageNotFoundError(distribution_name)
        return str(stock(distribution_name).__version__)

    importlib.import_module = import_module
    importlib.metadata.version = version_of
