"""What the tests of the report share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from report.browsing import FLAGS
from report.rundirs import RunMaker, write_run


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> RunMaker:
    """Return a function that writes a run directory; options as in ``write_run``."""

    def make(folder: str | None = None, **options: Any) -> Path:
        return write_run(tmp_path_factory.mktemp("runs") / (folder or "run"), **options)

    return make


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()
