"""What the tests of the command line share."""

from __future__ import annotations

SMALL = ("--data", "digits", "--noise", "sym:0.4", "--head", "sem", "--epochs", "2")
"""Arguments of a run that takes a second."""
