"""How many cases the tests of promises try."""

from __future__ import annotations

import os


def cases(usual: int, long: int) -> int:
    """Return the number of cases: usual in ``make test``, long in ``make test-long``."""
    return long if os.environ.get("EDGEMASK_LONG") == "1" else usual
