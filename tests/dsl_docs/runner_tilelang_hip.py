"""dsl_docs/tilelang_hip is a delta of tilelang_cuda and is checked the same way."""

from tests.dsl_docs.runner_tilelang_cuda import KINDS, check, unknown_names, versions

__all__ = ["KINDS", "check", "unknown_names", "versions"]
