"""Logic x mapping x machine -> Program."""

from septran.bind.bind import ArgType, Arguments, BoundKernel, bind

__all__ = ["ArgType", "Arguments", "BoundKernel", "bind"]
