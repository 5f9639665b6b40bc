"""Passes of Pallas alone."""
