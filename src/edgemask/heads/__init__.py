"""Layers that stand where the last linear layer stood."""
