"""Proofs of the hierarchy: what they accept, and what they refuse."""
