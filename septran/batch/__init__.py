"""Many kernels: operators x targets x sizes, in parallel, resumable."""
