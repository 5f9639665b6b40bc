"""C++20 on CPUs."""
