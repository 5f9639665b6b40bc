"""Inline PTX of CUDA files, said in C++ for the emulation."""

from septran.backends.cuda.ptx.shown import shown
from septran.backends.cuda.ptx.statements import translated, untranslated

__all__ = ["shown", "translated", "untranslated"]
