"""Triton on NVIDIA and AMD GPUs."""
