"""The straight line from operator to verdict, and its record."""
