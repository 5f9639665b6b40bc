"""The delta pages of Ascend use the checks of triton_cuda: they have no compiler of their own here."""

from __future__ import annotations

from tests.dsl_docs.runner_triton_cuda import KINDS, check, unknown_names, versions

__all__ = ["KINDS", "check", "unknown_names", "versions"]
