"""What a call of a kernel from Python means, and how torch.compile sees it."""
