"""TileLang on NVIDIA and AMD GPUs."""
