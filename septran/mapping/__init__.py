"""Mapping files: how they are read, what they may say, how they are printed."""
