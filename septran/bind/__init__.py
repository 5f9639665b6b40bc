"""Logic x mapping x machine -> Program."""

from septran.bind.bind import ArgType, Arguments, BoundKernel, bind
from septran.bind.layout import check_layouts, check_primitives

__all__ = ["ArgType", "Arguments", "BoundKernel", "bind", "check_layouts", "check_primitives"]
