"""What is asked: an operator, a target, sizes, and the Program they give."""
