"""Write Task Lang text: one template per kind of anchor, and the program around the kernels."""

from septran.frontend.write.program import Written, write

__all__ = ["Written", "write"]
