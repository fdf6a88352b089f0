"""A run in words: the title of a report, what was run, the commands that repeat or resume it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgemask.report.groups import Group, flatten
from edgemask.report.outcomes import total_seconds
from edgemask.runs import RunRecord, shell_argument

__all__ = ["lead_sentence", "repeat_command", "report_title", "resume_command"]

_PARTS = ("data", "model", "method", "loss", "head")


def report_title(groups: Sequence[Group]) -> str:
    """Return the title of a report."""
    count = sum(len(group.runs) for group in groups)
    if len(groups) > 1:
        return f"{len(groups)} configs, {count} runs"
    name = groups[0].representative.name
    return name if count == 1 else f"{name}: {count} runs"


def lead_sentence(run: RunRecord) -> str:
    """Return one sentence that describes the run and its data."""
    if not run.config:
        return ""
    flat = flatten(run.config)

    def name(part: str) -> str:
        keys = (f"{part}.name", f"{part}.spec", part)
        return next((str(flat[key]) for key in keys if flat.get(key) is not None), "")

    sentence = f"{name('model') or 'A model'} trained on {name('data') or 'unnamed data'}"
    if name("noise"):
        given = name("noise") == "none"
        sentence += " with labels as given" if given else f" with noise {name('noise')}"
    sentence += "".join(
        f", {part} {name(part)}" for part in ("method", "loss", "head") if name(part)
    )
    facts = [f"{len(run.history)} epochs"] if run.history else []
    if run.seed is not None:
        facts.append(f"seed {run.seed}")
    seconds = total_seconds(run)
    if seconds is not None:
        facts.append(f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min")
    return f"{sentence}; {', '.join(facts)}."


def repeat_command(run: RunRecord) -> str:
    """Return the line that repeats a run from its stored config.

    A run on objects that were made in Python has none, and the text says so.
    """
    flat = flatten(run.config)
    objects = [
        part
        for part in _PARTS
        if any(
            str(value).startswith("object:")
            for key, value in flat.items()
            if key.partition(".")[0] == part
        )
    ]
    if objects:
        return f"# started from Python with its own {', '.join(objects)}: call edgemask.fit again"
    config, out = (
        shell_argument(run.path / "config.yaml"),
        shell_argument(Path(f"{run.path.name}-again")),
    )
    return f"edgemask train --config {config} --out {out}"


def resume_command(run: RunRecord) -> str:
    """Return the command that continues an unfinished run."""
    return f"edgemask resume {shell_argument(run.path)}"
