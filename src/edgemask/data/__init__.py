"""Datasets, readers, views and loaders that carry the sample index."""
