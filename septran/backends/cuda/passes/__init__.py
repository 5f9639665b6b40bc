"""Passes of CUDA C++ alone."""
