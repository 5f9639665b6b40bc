"""The sandbox that the verifier runs kernels in: `septran.sandbox`, which the compile step uses too."""

from septran.sandbox import MIB, STARVED, Confined, Limits, SandboxResult, oom_kills, run

__all__ = ["MIB", "STARVED", "Confined", "Limits", "SandboxResult", "oom_kills", "run"]
