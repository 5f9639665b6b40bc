"""What runs and batches left behind, as pages, tables and plots."""
