"""Losses that withstand wrong labels."""
