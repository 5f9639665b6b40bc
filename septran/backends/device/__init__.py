"""What families need of GPUs: whether there is one, its assembler's report, loading; and simulators beside kernels."""
