"""Running compilers, confined, and what of a GPU this machine has."""
