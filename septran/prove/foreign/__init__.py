"""Bounds and races of kernels that SepTran did not write, from statements that were read from their text."""
