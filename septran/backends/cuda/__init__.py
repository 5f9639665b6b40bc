"""CUDA C++ on NVIDIA GPUs, and its emulation on a CPU."""
