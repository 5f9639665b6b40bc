"""The program between the passes: expressions, statements, specs and their text."""
