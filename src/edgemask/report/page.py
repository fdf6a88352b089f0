"""The page: one HTML file that needs nothing else, neither a network nor, to be read, scripts.

Its text is in ``templates/``. Whatever a template shows passes through :func:`printable` and is
escaped; only the style sheet and the script, which are files of this package, are not.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from edgemask.errors import MissingExtraError
from edgemask.report.charts import FigureData
from edgemask.report.curves import compared_curves, run_curves
from edgemask.report.describe import lead_sentence, repeat_command, report_title, resume_command
from edgemask.report.escape import printable
from edgemask.report.groups import Group
from edgemask.report.heatmaps import head_over_time, transition_map
from edgemask.report.outcomes import final_value, last_value, noise_facts, status
from edgemask.report.results import comparison_table, run_tables, runs_table
from edgemask.report.review import review_of_run
from edgemask.report.tables import percent
from edgemask.report.trust import gallery, trust, trust_histogram
from edgemask.runs import RunRecord

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["environment", "page", "render"]

_MAX_SCORES = 600_000
"""How many edge scores a page holds at most, over all its runs."""
_MAX_PICTURE_BYTES = 800_000
"""How many bytes of pictures a page holds at most, over all its runs."""


@cache
def environment() -> Environment:
    """Return the templates, which escape all text that they show."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError as error:
        raise MissingExtraError("jinja2", "app", "to write a page", error) from error

    def shown(value: Any) -> Any:
        """Return what an expression of a template shows: safe markup as it is, else one line."""
        if isinstance(value, Markup):
            return value
        return "" if value is None else printable(value)

    made = Environment(
        loader=PackageLoader("edgemask.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    made.filters["whole"] = lambda value: escape(printable(value, max_length=None))
    return made


def render(template: str, *, figures: FigureData, **content: Any) -> str:
    """Return a whole HTML document.

    Args:
        template: The file of its body.
        figures: What its figures show.
        content: What the template shows.
    """
    folder = files("edgemask.report") / "templates"
    style = (folder / "page.css").read_text(encoding="utf-8")
    names = ("page.js", "review.js") if content.get("review") else ("page.js",)
    script = "".join((folder / name).read_text(encoding="utf-8") for name in names)
    # Only this very script may run, and nothing may be loaded: what a name smuggles in stays text.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        environment()
        .get_template(template)
        .render(figures=figures, digest=digest, style=style, script=script, **content)
    )


def page(groups: Sequence[Group]) -> str:
    """Return the whole HTML document for one run or for several."""
    figures = FigureData()
    runs = [run for group in groups for run in group.runs]
    details = [
        _details(figures, group, _MAX_SCORES // len(groups), _MAX_PICTURE_BYTES // len(groups))
        for group in groups
    ]
    content = _one(runs[0]) if len(runs) == 1 else _several(figures, groups, runs)
    review = review_of_run(runs[0]) if len(runs) == 1 else None
    return render(
        "runs.html",
        figures=figures,
        title=report_title(groups),
        runs=details,
        review=review if review and (review.shown or review.data["check"]) else None,
        so_far=runs[0].so_far if len(runs) == 1 else "",
        **content,
    )


def _one(run: RunRecord) -> dict[str, Any]:
    return {
        "lead": lead_sentence(run),
        "badge": status(run),
        "tiles": _tiles(run),
        "comparison": None,
    }


def _several(
    figures: FigureData, groups: Sequence[Group], runs: Sequence[RunRecord]
) -> dict[str, Any]:
    unfinished = sum(not run.finished for run in runs)
    tiles = [("Configs", str(len(groups)), ""), ("Runs", str(len(runs)), "")]
    accuracy = groups[0].final("test/accuracy", "last").value
    if isinstance(accuracy, float):
        note = f"first row: {groups[0].label}"
        tiles.append(("Test accuracy, last epoch", _share(accuracy), note))
    return {
        "lead": "Runs that differ in nothing but their seed are taken together.",
        "badge": f"{unfinished} unfinished" if unfinished else "finished",
        "tiles": tiles,
        "comparison": comparison_table(groups),
        "curves": compared_curves(figures, groups),
        "all_runs": runs_table(groups).pick(
            *("run", "config", "status", "seed", "epochs"),
            *(f"test accuracy: {way}" for way in ("last", "mean of last 10", "best (oracle)")),
            *("wrong labels memorised", "edges retained", "seconds"),
        ),
    }


def _share(value: float | None) -> str:
    return "–" if value is None else f"{percent(value, digits=1).text}\u202f%"


def _tiles(run: RunRecord) -> list[tuple[str, str, str]]:
    """Return the numbers at the top of a run's page: label, value and note."""
    end, facts = final_value(run, "test/accuracy"), noise_facts(run)
    tiles = [
        ("Test accuracy, last epoch", _share(end.last), ""),
        (
            f"Test accuracy, mean of last {min(10, len(run.history)) or 10}",
            _share(end.mean_last_10),
            "",
        ),
    ]
    if facts["realised_rate"] is not None:
        note = "" if facts["rate"] is None else f"nominal {100 * facts['rate']:g} %"
        tiles.append(("Labels that are wrong", _share(facts["realised_rate"]), note))
    else:
        listed = int((trust(run) < 0.5).sum()) if run.samples else None
        note = "labels with a score below one half"
        tiles.append(("Worth checking", "–" if listed is None else f"{listed:,}", note))
    memorised, retention = last_value(run, "memorised"), last_value(run, "head/retention")
    if memorised is not None:
        tiles.append(("Wrong labels memorised", _share(memorised), ""))
    elif retention is not None:
        tiles.append(("Edges retained", _share(retention), ""))
    return tiles


def _remarks(run: RunRecord) -> list[str]:
    """Return what a reader must know to read the numbers."""
    stored = run.summary.get("remarks")
    return [str(text) for text in stored] if isinstance(stored, list) else []


def _details(
    figures: FigureData, group: Group, max_scores: int, max_picture_bytes: int
) -> dict[str, Any]:
    """Return what ``run.html`` shows of a config, by its representative run."""
    run = group.representative
    facts = {
        "Config hash": run.summary.get("config_hash"),
        "seed": run.seed,
        "noise fingerprint": noise_facts(run)["fingerprint"],
    }
    return {
        "label": group.label,
        "which": run.name if run.seed is None else f"seed {run.seed}",
        "status": status(run),
        "problems": run.problems,
        "remarks": _remarks(run),
        "resume": None if run.finished else resume_command(run),
        "curves": run_curves(figures, run),
        "head": head_over_time(figures, run, max_scores),
        "transition": transition_map(figures, run),
        "trust": trust_histogram(figures, run),
        "gallery": gallery(run, max_picture_bytes),
        "command": repeat_command(run),
        "facts": [(name, value) for name, value in facts.items() if value is not None],
        "config_lines": run.config_text.splitlines(),
        **run_tables(run),
    }
