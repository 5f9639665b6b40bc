"""Is this kernel right? Untrusted code runs confined, the parent judges the bytes it leaves behind."""
