"""The samples whose labels look wrong: pictures, a list, and how far the doubt can be trusted."""

from __future__ import annotations

import numpy as np

from edgemask.report.arrays import Array
from edgemask.report.charts import Book, bars
from edgemask.report.escape import as_html
from edgemask.report.png import data_uri
from edgemask.report.records import RunRecord
from edgemask.report.tables import Cell, Table, number, percent

__all__ = ["detection", "doubtful_list", "gallery", "known_clean", "trust_histogram"]


def known_clean(run: RunRecord) -> Array | None:
    """Return the clean label of each sample of ``samples.npz``; -1 is outside all classes."""
    samples = run.samples
    if not samples:
        return None
    clean = samples.get("clean")
    if clean is None and "clean" in run.noise and len(run.noise["clean"]) > samples["index"].max():
        clean = run.noise["clean"][samples["index"]]
    return clean


def detection(run: RunRecord) -> Table | None:
    """Return how well low trust finds wrong labels; only where clean labels are known.

    The area under the ROC curve is the probability that a random wrong label has less trust than
    a random right one (ties count half).
    """
    clean = known_clean(run)
    if clean is None:
        return None
    trust = np.nan_to_num(run.samples["trust"].astype(np.float64), nan=0.5)
    wrong = run.samples["given"] != clean
    bad, good = int(wrong.sum()), int((~wrong).sum())
    if not bad or not good:
        return None
    _, place, counts = np.unique(trust, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    area = (ranks[~wrong].sum() - good * (good + 1) / 2) / (bad * good)
    flagged = trust < 0.5
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


def trust_histogram(book: Book, run: RunRecord) -> str:
    """Return the distribution of trust, apart for right and wrong labels where those are known."""
    if not run.samples:
        return ""
    trust = np.clip(np.nan_to_num(run.samples["trust"].astype(np.float64), nan=0.5), 0, 1)
    edges = np.linspace(0, 1, 21)
    parts: list[tuple[str, Array]] = [("all labels", np.ones(len(trust), dtype=bool))]
    clean = known_clean(run)
    if clean is not None:
        right = run.samples["given"] == clean
        parts = [("right labels", right), ("wrong labels", ~right)]
    layers = [
        (name, (np.histogram(trust[part], edges)[0] / part.sum()).tolist())
        for name, part in parts
        if part.any()
    ]
    return bars(
        book,
        "Trust in the given labels",
        edges.tolist(),
        layers,
        x_title="samples by trust",
        note="Trust is the probability that a given label is right, as the training sees it; "
        "shares are of each kind of label, on a logarithmic axis.",
    )


def gallery(run: RunRecord, budget: int) -> str:
    """Return pictures of the most doubtful samples, as many as fit into ``budget`` bytes."""
    if not run.thumbnails or not run.samples:
        return ""
    place_of = {int(index): place for place, index in enumerate(run.samples["index"])}
    clean = known_clean(run)
    shown = [
        (place_of[int(index)], image)
        for index, image in zip(run.thumbnails["index"], run.thumbnails["images"], strict=True)
        if int(index) in place_of
    ]
    shown.sort(key=lambda pair: float(run.samples["trust"][pair[0]]))
    cards: list[str] = []
    used = 0
    for place, image in shown:
        uri = data_uri(image)
        used += len(uri)
        if cards and used > budget:
            break
        cards.append(_card(run, place, uri, None if clean is None else int(clean[place])))
    if not cards:
        return ""
    left = len(shown) - len(cards)
    more = f'<p class="note">{left} more pictures are in thumbnails.npz.</p>' if left else ""
    return f'<div class="gallery">{"".join(cards)}</div>{more}'


def _card(run: RunRecord, place: int, uri: str, clean: int | None) -> str:
    samples = run.samples
    given = as_html(run.class_name(int(samples["given"][place])))
    predicted = as_html(run.class_name(int(samples["predicted"][place])))
    index = int(samples["index"][place])
    truth = ""
    if clean is not None:
        verdict = "wrong" if clean != int(samples["given"][place]) else "right"
        name = as_html(run.class_name(clean))
        truth = f'<span class="{verdict}">label is {verdict}: {name}</span>'
    return (
        f'<figure><img src="{uri}" alt="sample {index}, given as {given}">'
        f"<figcaption><span>given <b>{given}</b></span><span>predicted <b>{predicted}</b></span>"
        f'{truth}<span class="note">trust {float(samples["trust"][place]):.3f}'
        f"<br>no. {index}</span></figcaption></figure>"
    )


def doubtful_list(run: RunRecord, most: int = 100) -> Table | None:
    """Return the samples of least trust with all that is known about each."""
    if not run.samples or not len(run.samples["index"]):
        return None
    samples, clean = run.samples, known_clean(run)
    order = np.argsort(samples["trust"], kind="stable")[:most]
    columns = ["sample", "given", "predicted"]
    extra = [key for key in ("confidence", "mean_loss") if key in samples]
    titles = {"confidence": "confidence in given", "mean_loss": "mean loss"}
    rows: list[list[Cell | str | float | None]] = []
    for place in order:
        row: list[Cell | str | float | None] = [
            Cell(text=str(int(samples["index"][place])), value=int(samples["index"][place])),
            run.class_name(int(samples["given"][place])),
            run.class_name(int(samples["predicted"][place])),
        ]
        if clean is not None:
            row.append(run.class_name(int(clean[place])))
        row.append(number(float(samples["trust"][place]), digits=3))
        row += [number(float(samples[key][place]), digits=3) for key in extra]
        rows.append(row)
    columns += ["true"] if clean is not None else []
    return Table(
        [*columns, "trust", *(titles[key] for key in extra)],
        rows,
        f"The {len(rows)} samples of least trust, of {len(samples['index'])}",
        text_columns=4 if clean is not None else 3,
    )
