"""What weights of 4 bits are: eight in a word, less 8, by the scale of their word."""

import torch


def reference(words, scales):
    found = torch.stack([(words >> bits) & 15 for bits in (0, 16, 4, 20, 8, 24, 12, 28)], 1)
    return ((found - 8).half() * scales[:, None]).reshape(-1)


def get_inputs():
    words = torch.randint(-(2**31), 2**31 - 1, (301,), dtype=torch.int32)
    return [words, torch.randn(301).half()]
