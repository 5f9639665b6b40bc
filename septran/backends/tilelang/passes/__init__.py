"""Passes of TileLang alone."""
