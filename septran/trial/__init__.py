"""One kernel is built, run and judged."""
