"""One request from operator to verdict."""
