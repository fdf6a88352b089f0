"""Samples worth checking: pictures, a list, and how well trust finds wrong labels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from edgemask.report.charts import Chart, FigureData, histogram
from edgemask.report.heatmaps import png_address
from edgemask.report.tables import Table, TableCell, TableRow, number, percent
from edgemask.runs import Array, RunRecord, suspicious_order

__all__ = [
    "clean_labels",
    "detection",
    "doubtful_list",
    "gallery",
    "trust",
    "trust_histogram",
]


def clean_labels(run: RunRecord) -> Array | None:
    """Return the clean label of each sample of ``samples.npz``; -1 is outside all classes."""
    samples = run.samples
    if not samples or not len(samples["index"]):
        return None
    if "clean" in samples:
        return samples["clean"]
    if "clean" in run.noise and len(run.noise["clean"]) > samples["index"].max():
        clean: Array = run.noise["clean"][samples["index"]]
        return clean
    return None


def trust(run: RunRecord) -> Array:
    """Return the trust in each given label: a score, higher where it is more likely right."""
    values = np.nan_to_num(run.samples["trust"].astype(np.float64), nan=0.5)
    return np.clip(values, 0, 1)


def detection(run: RunRecord) -> Table | None:
    """Return how well low trust finds wrong labels; only where clean labels are known.

    The area under the ROC curve is the probability that a random wrong label has less trust than
    a random right one (ties count half).
    """
    clean = clean_labels(run)
    if clean is None:
        return None
    values = trust(run)
    wrong = run.samples["given"] != clean
    bad, good = int(wrong.sum()), int((~wrong).sum())
    if not bad or not good:
        return None
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    area = (ranks[~wrong].sum() - good * (good + 1) / 2) / (bad * good)
    flagged = values < 0.5
    hits = int((flagged & wrong).sum())
    return Table(
        ["how well trust finds the wrong labels", "value"],
        [
            ["area under the ROC curve", number(float(area), digits=3)],
            ["samples with trust below 0.5", int(flagged.sum())],
            ["wrong among them, % (precision)", percent(hits / max(int(flagged.sum()), 1))],
            ["found of all wrong labels, % (recall)", percent(hits / bad)],
        ],
    )


def trust_histogram(figures: FigureData, run: RunRecord) -> Chart | None:
    """Return the distribution of trust, by right and wrong labels where those are known."""
    if not run.samples or not len(run.samples["index"]):
        return None
    values = trust(run)
    edges = np.linspace(0, 1, 21)
    parts: list[tuple[str, Array]] = [("all labels", np.ones(len(values), dtype=bool))]
    clean = clean_labels(run)
    if clean is not None:
        right = run.samples["given"] == clean
        parts = [("right labels", right), ("wrong labels", ~right)]
    return histogram(
        figures,
        "Trust in the given labels",
        edges.tolist(),
        [
            (name, (np.histogram(values[part], edges)[0] / part.sum()).tolist())
            for name, part in parts
            if part.any()
        ],
        x_title="samples by trust",
        note="Trust is a score from 0 to 1, higher where a given label is more likely right; "
        "shares are of each kind of label, on a logarithmic axis.",
    )


@dataclass(frozen=True, kw_only=True)
class Card:
    """One picture of the gallery and what is known of its sample."""

    picture: str
    index: int
    name: str
    given: str
    predicted: str
    true: str | None
    right: bool
    trust: float


@dataclass(frozen=True)
class Gallery:
    """Pictures of the samples of lowest trust."""

    cards: list[Card] = field(default_factory=list)
    left_out: int = 0
    """How many pictures there are beside these."""


def gallery(run: RunRecord, budget: int) -> Gallery:
    """Return pictures of the samples of lowest trust, as many as fit into ``budget`` bytes."""
    if not run.thumbnails or not run.samples:
        return Gallery()
    samples, clean, values = run.samples, clean_labels(run), trust(run)
    place_of = {int(index): place for place, index in enumerate(samples["index"])}
    shown = [
        (place_of[int(index)], image)
        for index, image in zip(run.thumbnails["index"], run.thumbnails["images"], strict=True)
        if int(index) in place_of
    ]
    rank = {int(place): number for number, place in enumerate(suspicious_order(samples))}
    drawn = samples.get("check", np.zeros(len(values))) > 0  # pictures for another purpose
    shown = sorted(
        (
            pair
            for pair in shown
            if pair[0] in rank and (values[pair[0]] < 0.5 or not drawn[pair[0]])
        ),
        key=lambda pair: rank[pair[0]],
    )
    cards: list[Card] = []
    used = 0
    for place, image in shown:
        picture = png_address(image)
        used += len(picture)
        if cards and used > budget:
            break
        given = int(samples["given"][place])
        cards.append(
            Card(
                picture=picture,
                index=int(samples["index"][place]),
                name=str(samples["name"][place]) if "name" in samples else "",
                given=run.class_name(given),
                predicted=run.class_name(int(samples["predicted"][place])),
                true=None if clean is None else run.class_name(int(clean[place])),
                right=clean is not None and int(clean[place]) == given,
                trust=float(values[place]),
            )
        )
    return Gallery(cards, len(shown) - len(cards))


def doubtful_list(run: RunRecord, most: int = 100) -> Table | None:
    """Return the samples of lowest trust with all that is known about each."""
    if not run.samples or not len(run.samples["index"]):
        return None
    samples, clean = run.samples, clean_labels(run)
    order = suspicious_order(samples)[:most]
    columns: dict[str, list[TableCell | str | float]] = {
        "row": [int(index) for index in samples["index"][order]]
    }
    if "name" in samples:
        columns = {"sample": [str(name) for name in samples["name"][order]]}
    labels = {"given": samples["given"], "predicted": samples["predicted"], "true": clean}
    for title, column in labels.items():
        if column is not None:
            columns[title] = [run.class_name(int(label)) for label in column[order]]
    text_columns = len(columns)
    for key, title in (
        ("trust", "trust"),
        ("confidence", "confidence in given"),
        ("mean_loss", "mean loss"),
    ):
        if key in samples:
            columns[title] = [number(float(value), digits=3) for value in samples[key][order]]
    rows: list[TableRow] = [
        [column[place] for column in columns.values()] for place in range(len(order))
    ]
    caption = f"The {len(rows)} samples of lowest trust, of {len(samples['index'])}"
    if run.so_far:
        caption += f", {run.so_far}"
    return Table(list(columns), rows, caption, text_columns=text_columns)
