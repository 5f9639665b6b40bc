"""Fetch, serve and measure a real local model."""
