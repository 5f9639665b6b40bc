"""The compiler's import name in the first examples: `import septran_compiler as stc`."""

from septran.api import compile, jit

__all__ = ["compile", "jit"]
