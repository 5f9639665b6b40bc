"""Passes: pure functions Program -> Program, run from one visible list per backend."""

from septran.passes.run import PassRun, lower

__all__ = ["PassRun", "lower"]
