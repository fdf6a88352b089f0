"""The page: one HTML file that needs nothing else, neither a network nor, to be read, scripts."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Sequence
from importlib.resources import files

from edgemask.report.charts import Book
from edgemask.report.doubtful import detection, doubtful_list, gallery, trust_histogram
from edgemask.report.escape import as_html, as_json
from edgemask.report.figures import compared_curves, run_curves
from edgemask.report.groups import Group
from edgemask.report.heat import head_over_time, transition_map
from edgemask.report.outcomes import last_value, noise_facts, outcome
from edgemask.report.records import RunRecord
from edgemask.report.repeat import command
from edgemask.report.results import (
    class_table,
    comparison_table,
    config_table,
    noise_table,
    result_table,
    runs_table,
    status,
    versions_table,
)
from edgemask.report.tables import percent
from edgemask.report.titles import lead_sentence, title_of_page

__all__ = ["page"]

_SCORES = 600_000
"""How many edge scores a page holds at most, over all its runs."""
_PICTURES = 800_000
"""How many bytes of pictures a page holds at most, over all its runs."""


def page(groups: Sequence[Group]) -> str:
    """Return the whole HTML document for one run or for several."""
    book = Book()
    single = sum(len(group.runs) for group in groups) == 1
    body = _single(book, groups[0].runs[0]) if single else _several(book, groups)
    return _document(title_of_page(groups), body, book)


def _document(title: str, body: str, book: Book) -> str:
    assets = files("edgemask.report") / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    script = (assets / "page.js").read_text(encoding="utf-8")
    # Only this very script may run, and nothing may be loaded: what a name smuggles in stays text.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta name="generator" content="EdgeMask">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{as_html(title)} · EdgeMask</title>\n<style>\n{style}</style>\n"
        "<noscript><style>.needs-script{display:none!important}</style></noscript>\n"
        f"</head>\n<body>\n<main>\n{body}\n</main>\n"
        f'<script type="application/json" id="figures">{as_json(book.figures)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _section(name: str, title: str, *parts: str) -> str:
    inner = "\n".join(part for part in parts if part)
    return f'<section id="{name}"><h2>{title}</h2>\n{inner}</section>\n' if inner else ""


def _split(left: str, right: str) -> str:
    return f'<div class="split"><div>{left}</div>{right}</div>'


def _tile(label: str, value: str, note: str = "") -> str:
    small = f"<small>{as_html(note)}</small>" if note else ""
    return f"<div><dt>{as_html(label)}</dt><dd>{value}{small}</dd></div>"


def _single(book: Book, run: RunRecord) -> str:
    parts = _details(book, run, scores=_SCORES, pictures=_PICTURES)
    return _header(run.name, lead_sentence(run), status(run), _tiles(run)) + _missing(run) + parts


def _header(title: str, lead: str, badge: str, tiles: str) -> str:
    state = "ok" if badge == "finished" else "warn"
    mark = f'<span class="badge {state}">{as_html(badge)}</span>' if badge else ""
    return (
        f'<header><p class="brand">EdgeMask report {mark}</p><h1>{as_html(title)}</h1>'
        f'<p class="lead">{as_html(lead)}</p><dl class="tiles">{tiles}</dl></header>\n'
    )


def _tiles(run: RunRecord) -> str:
    end, facts = outcome(run, "test/accuracy"), noise_facts(run)

    def share(value: float | None) -> str:
        return "–" if value is None else f"{percent(value, digits=1).text}&#8239;%"

    tiles = [
        _tile("Test accuracy, last epoch", share(end.last)),
        _tile("Test accuracy, mean of last 10", share(end.mean_last_10)),
    ]
    if facts["realised_rate"] is not None:
        nominal = facts["rate"]
        note = "" if nominal is None else f"nominal {100 * nominal:g} %"
        tiles.append(_tile("Labels that are wrong", share(facts["realised_rate"]), note))
    else:
        tiles.append(_tile("Labels wrong, estimated", share(facts["estimated_rate"])))
    memorised = last_value(run, "memorised")
    if memorised is not None:
        tiles.append(_tile("Wrong labels memorised", share(memorised)))
    elif last_value(run, "head/retention") is not None:
        tiles.append(_tile("Edges retained", share(last_value(run, "head/retention"))))
    return "".join(tiles)


def _missing(run: RunRecord) -> str:
    notes = "".join(f"<li>{as_html(note)}</li>" for note in run.missing)
    if not run.finished:
        folder = as_html(shlex.quote(str(run.path)), longest=None)
        notes += f"<li>To go on: <code>edgemask resume {folder}</code></li>"
    if not notes:
        return ""
    return f'<aside class="callout"><h2>What is missing</h2><ul>{notes}</ul></aside>\n'


def _details(book: Book, run: RunRecord, *, scores: int, pictures: int, prefix: str = "") -> str:
    """Return the sections about one run."""
    curves = run_curves(book, run)
    labels = transition_map(book, run)
    trust = trust_histogram(book, run)
    found = detection(run)
    shown = gallery(run, pictures)
    listed = doubtful_list(run)
    classes = class_table(run)
    table = "" if listed is None else f'<div class="tall">{listed.to_html(sortable=True)}</div>'
    if shown and table:
        table = f"<details><summary>As a list</summary>{table}</details>"
    quality = "" if found is None else found.to_html()
    return "".join(
        [
            _section(f"{prefix}results", "Results", result_table(run).to_html()),
            _section(f"{prefix}curves", "Curves", curves and f'<div class="charts">{curves}</div>'),
            _section(f"{prefix}head", "The head", head_over_time(book, run, scores)),
            _section(
                f"{prefix}labels", "Labels and noise", _split(noise_table(run).to_html(), labels)
            ),
            _section(
                f"{prefix}classes",
                "Classes",
                ""
                if classes is None
                else f'<div class="tall">{classes.to_html(sortable=True)}</div>',
            ),
            _section(
                f"{prefix}doubtful",
                "Doubtful samples",
                f'<div class="charts">{trust}<div>{quality}</div></div>' if trust else "",
                shown,
                table,
            ),
            _section(
                f"{prefix}setup", "What was run", config_table(run).to_html() if run.config else ""
            ),
            _repeat(run, prefix),
        ]
    )


def _repeat(run: RunRecord, prefix: str) -> str:
    line = as_html(command(run), longest=None)
    versions = versions_table(run)
    facts = [
        f"Config hash <code>{as_html(run.summary['config_hash'])}</code>"
        if run.summary.get("config_hash")
        else "",
        f"seed <code>{run.seed}</code>" if run.seed is not None else "",
        f"noise fingerprint <code>{as_html(noise_facts(run)['fingerprint'])}</code>"
        if noise_facts(run)["fingerprint"]
        else "",
    ]
    config = "\n".join(as_html(row, longest=None) for row in run.config_text.splitlines())
    return _section(
        f"{prefix}repeat",
        "How to repeat it",
        f'<div class="command"><pre><code>{line}</code></pre>'
        '<button type="button" class="needs-script copy">Copy</button></div>',
        f'<p class="note">{", ".join(fact for fact in facts if fact)}</p>',
        config and f"<details><summary>config.yaml</summary><pre>{config}</pre></details>",
        ""
        if versions is None
        else f"<details><summary>Versions</summary>{versions.to_html()}</details>",
    )


def _several(book: Book, groups: Sequence[Group]) -> str:
    runs = [run for group in groups for run in group.runs]
    unfinished = sum(not run.finished for run in runs)
    badge = f"{unfinished} unfinished" if unfinished else "finished"
    lead = "Runs that differ in nothing but their seed are taken together."
    best = groups[0]
    tiles = _tile("Configs", str(len(groups))) + _tile("Runs", str(len(runs)))
    accuracy = best.outcome("test/accuracy", "last").value
    if isinstance(accuracy, float):
        shown = f"{percent(accuracy, digits=1).text}&#8239;%"
        tiles += _tile("Test accuracy, last epoch", shown, f"first row: {best.label}")
    every = runs_table(groups).pick(
        *("run", "config", "status", "seed", "epochs"),
        *(f"test accuracy: {way}" for way in ("last", "mean of last 10", "best (oracle)")),
        *("wrong labels memorised", "edges retained", "seconds"),
    )
    curves = compared_curves(book, groups)
    band = '<p class="note">Lines are means over seeds, bands ± one standard deviation.</p>'
    parts = [
        _header(title_of_page(groups), lead, badge, tiles),
        _section("comparison", "Comparison", comparison_table(groups).to_html(sortable=True)),
        _section("curves", "Curves", curves and f'<div class="charts">{curves}</div>{band}'),
        _section("runs", "All runs", f'<div class="tall">{every.to_html(sortable=True)}</div>'),
    ]
    details = []
    for place, group in enumerate(groups):
        run = group.speaker
        inner = _missing(run) + _details(
            book,
            run,
            scores=_SCORES // len(groups),
            pictures=_PICTURES // len(groups),
            prefix=f"g{place}-",
        )
        which = f"seed {run.seed}" if run.seed is not None else run.name
        details.append(
            f'<details class="run"><summary>{as_html(group.label)} '
            f'<span class="note">{as_html(which)}, {as_html(status(run))}</span></summary>'
            f"{inner}</details>"
        )
    parts.append(_section("details", "Each config in detail", *details))
    return "".join(parts)
