"""Readers: one dataset or file format a file, each a function that returns a ``DataBundle``."""
