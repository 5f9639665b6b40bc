"""Time of a Program on a machine from the machine's figures, without running it."""
