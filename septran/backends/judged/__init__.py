"""Text of kernels that SepTran did not write, read into the accesses of the launches that were made."""
