"""The words at the top of a report."""

from __future__ import annotations

from collections.abc import Sequence

from edgemask.report.groups import Group, flatten
from edgemask.report.outcomes import total_seconds
from edgemask.report.records import RunRecord

__all__ = ["lead_sentence", "title_of_page"]


def title_of_page(groups: Sequence[Group]) -> str:
    """Return the name of the report."""
    runs = [run for group in groups for run in group.runs]
    if len(runs) == 1:
        return runs[0].name
    if len(groups) == 1:
        return f"{groups[0].speaker.name}: {len(runs)} runs"
    return f"{len(groups)} configs, {len(runs)} runs"


def lead_sentence(run: RunRecord) -> str:
    """Return one sentence that says what was run and on what."""
    flat = flatten(run.config)

    def name(part: str) -> str:
        for key in (f"{part}.name", f"{part}.spec", part):
            if flat.get(key) is not None:
                return str(flat[key])
        return ""

    words = [
        f"{name('model') or 'A model'} trained on {name('data') or 'unnamed data'}",
        f" with noise {name('noise')}" if name("noise") else "",
        "".join(f", {part} {name(part)}" for part in ("method", "loss", "head") if name(part)),
    ]
    sentence = "".join(words)
    facts = [
        f"{len(run.history)} epochs" if run.history else "",
        f"seed {run.seed}" if run.seed is not None else "",
        _duration(total_seconds(run)),
    ]
    return f"{sentence}; {', '.join(fact for fact in facts if fact)}." if run.config else ""


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
