"""The delta pages of AMD use the checks of triton_cuda, which compiles for gfx942 too."""

from __future__ import annotations

from tests.dsl_docs.runner_triton_cuda import KINDS, check, unknown_names, versions

__all__ = ["KINDS", "check", "unknown_names", "versions"]
