"""Leaf tasks as an environment: contracts out, replies in, reward vectors back; for trainers and coding agents."""
