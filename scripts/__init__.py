"""Tools for those who work on SepTran; not part of the package."""
