"""Passes of DSAs alone."""
