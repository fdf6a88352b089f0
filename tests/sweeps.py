"""Many cases in one test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch


def sweep(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[..., Callable[..., None]]:
    """Run a test once per case, like `pytest.mark.parametrize`, but as one test.

    A failure names its case. Each case starts from the same seed, with a folder, patches and
    captured output of its own. A case that skips leaves the others running.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [(case,) if len(keys) == 1 else tuple(case) for case in cases]
    assert rows, f"no cases of {names}"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        fixtures = [each for key, each in signature.parameters.items() if key not in keys]

        @functools.wraps(test)
        def run(*args: Any, **given: Any) -> None:
            skipped = []
            for number, row in enumerate(rows):
                case = dict(zip(keys, row, strict=True))
                torch.manual_seed(0)
                with pytest.MonkeyPatch.context() as patches:
                    try:
                        test(*args, **_fresh(given, number, patches), **case)
                    except pytest.skip.Exception as reason:
                        skipped.append(f"{case}: {reason}")
                    except BaseException as error:
                        error.add_note(f"case {number}: {case}")
                        raise
            if skipped:
                pytest.skip("; ".join(skipped))

        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return run

    return decorate


def _fresh(given: dict[str, Any], number: int, patches: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fixtures for one case."""
    fresh = dict(given)
    if "tmp_path" in given:
        fresh["tmp_path"] = given["tmp_path"] / str(number)
        fresh["tmp_path"].mkdir()
    if "monkeypatch" in given:
        fresh["monkeypatch"] = patches
    if "capsys" in given:
        given["capsys"].readouterr()
    return fresh
