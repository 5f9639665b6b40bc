"""The compiler's other import name in the first examples: `import tasklevel_compiler as tlc`."""

from septran.api import compile, jit

__all__ = ["compile", "jit"]
