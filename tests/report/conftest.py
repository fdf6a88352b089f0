"""What the tests of the report share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from report.rundirs import RunMaker, write_run


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> RunMaker:
    """Return a function that writes a run directory; options as in ``write_run``."""

    def make(folder: str | None = None, **options: Any) -> Path:
        return write_run(tmp_path_factory.mktemp("runs") / (folder or "run"), **options)

    return make
