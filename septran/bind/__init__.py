"""Logic x mapping x machine -> Program."""

from septran.bind.bind import ArgType, Arguments, BoundKernel, bind
from septran.bind.layout import check_layouts

__all__ = ["ArgType", "Arguments", "BoundKernel", "bind", "check_layouts"]
