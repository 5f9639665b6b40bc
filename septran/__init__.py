"""Logic + mapping -> verified tensor kernels."""

__version__ = "0.1.0"
