"""Backbones with a named head."""
