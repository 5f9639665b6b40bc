"""Reading printed kernels back: what the readers of one family of languages share."""
