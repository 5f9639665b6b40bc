"""Compilers of this machine: found, run confined, and what they made called from Python."""
