"""Logic x mapping x machine -> Program."""

from septran.bind.bind import Arguments, ArgType, BoundKernel, bind

__all__ = ["ArgType", "Arguments", "BoundKernel", "bind"]
