"""The command line: thin commands over `septran.run`; the only place for click and rich."""
