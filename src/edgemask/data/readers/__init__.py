"""Readers: one dataset or file format per file, each a function that returns a ``DataBundle``."""
