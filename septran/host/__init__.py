"""The static host: one confined C program per kernel, in place of a Python process that loads it.

`link` builds it, `object_gate` reads what goes into it, `process` starts it and rings its doorbell,
`control` is the page both sides share, `chain` repeats what a slot's receipt is made of.
"""
