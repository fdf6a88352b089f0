"""The review panel: samples worth checking, one at a time, and the decisions about them.

The panel itself is ``templates/review.html`` and ``templates/review.js``; here is what it shows.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from edgemask.errors import MissingExtraError
from edgemask.report.escape import printable
from edgemask.report.heatmaps import png_address
from edgemask.report.tables import Table, number
from edgemask.report.trust import clean_labels, trust
from edgemask.runs import SUSPECT_REASONS, Array, AuditRecord, RunRecord, suspicious_order

__all__ = ["MAX_PICTURES", "Review", "review_of_audit", "review_of_run"]

MAX_PICTURES = 2_000
"""How many samples of a page have their picture in it,"""
MAX_PICTURE_BYTES = 12_000_000
"""as long as these are not more bytes than this."""
MAX_ROWS = 20_000
"""How many samples a page lists."""
_MAX_TEXT = 4_000
_SMALL_PNG = 1_500
_WITHOUT_SCRIPT = 200


@dataclass(frozen=True, kw_only=True)
class Review:
    """Samples to decide on, as the script of the page reads them."""

    data: Mapping[str, Any]
    """Columns of the samples, class names, reasons, earlier decisions."""
    listed: int
    """How many samples are worth checking,"""
    shown: int
    """and how many of them are on the page."""
    pictures: int
    """How many samples have their picture in the page."""
    links: int
    """How many have a link to their file instead."""
    table: Table
    """The first samples, for a page without scripts."""


def review_of_audit(audit: AuditRecord, folder: Path) -> Review:
    """Return the samples that an audit lists, and those drawn at random to be checked.

    Args:
        audit: The audit.
        folder: Where the page will be; links to files start there.
    """
    samples = audit.samples
    order = audit.order[samples["listed"][audit.order]]
    return _review(
        ids=samples["id"],
        given=_as_reviewed(audit),
        suggested=samples["suggested"],
        score=samples["trust"],
        reason=samples["reason"],
        reasons=[str(text) for text in audit.facts["reasons"]],
        class_names=audit.class_names,
        order=order,
        check=audit.check,
        thumbnails=audit.thumbnails,
        items=_with_files(
            audit.facts.get("data"),
            samples["id"],
            [*order[:MAX_ROWS].tolist(), *audit.check.tolist()],
            {int(item["index"]): item for item in audit.items},
        ),
        folder=folder,
        decisions=audit.decisions,
    )


def _as_reviewed(audit: AuditRecord) -> Array:
    """Return the given labels; of samples that were decided on before, those of that time.

    The audit has the corrected labels of these, and decisions are about the labels as they came.
    """
    given = audit.samples["given"].copy()
    number = {_line(name): n for n, name in enumerate(audit.class_names)}
    former = {
        row["id"]: number[row["given"]] for row in audit.decisions if row.get("given") in number
    }
    if former:
        for place, name in enumerate(audit.samples["id"].tolist()):
            given[place] = former.get(_line(name), given[place])
    return given


def _with_files(
    spec: object, ids: Array, places: Sequence[int], items: dict[int, Mapping[str, Any]]
) -> dict[int, Mapping[str, Any]]:
    """Return what to show of samples; those named by files of the data get the path of theirs.

    Args:
        spec: The data by name.
        ids: What each sample is called.
        places: Positions of the samples to show.
        items: What is known to be shown of samples, by position.
    """
    kind, _, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if kind not in ("imagefolder", "csv"):
        return items
    base = Path(rest).expanduser()
    if base.is_file():  # a table beside its files, or an archive that was unpacked
        base = base.parent if kind == "csv" else base.with_suffix("")
    for place in places:
        item = items.get(place, {})
        if "path" not in item:
            file = base / str(ids[place])
            if file.is_file():
                items[place] = {**item, "path": str(file)}
    return items


def review_of_run(run: RunRecord) -> Review | None:
    """Return the samples of a run with less than half of the trust; None where trust is unknown."""
    samples = run.samples
    if not samples or not len(samples["index"]):
        return None
    order = suspicious_order(samples)
    order = order[trust(run)[order] < 0.5]
    differs = samples["predicted"] != samples["given"]
    ids, check = samples.get("name", samples["index"]), _drawn(samples)
    places = [*order[:MAX_ROWS].tolist(), *check.tolist()]
    texts = samples.get("text")
    items: dict[int, Mapping[str, Any]] = {}
    if texts is not None:
        items = {place: {"text": texts[place]} for place in places}
    if "name" in samples:
        data = run.config.get("data")
        items = _with_files(
            data.get("spec") if isinstance(data, Mapping) else None, ids, places, items
        )
    return _review(
        ids=ids,
        given=samples["given"],
        suggested=samples["predicted"],
        score=trust(run),
        reason=differs.astype(np.int64),
        reasons=SUSPECT_REASONS,
        class_names=[run.class_name(label) for label in range(run.num_classes)],
        order=order,
        check=check,
        thumbnails=_by_place(run),
        items=items,
        folder=run.path,
        decisions=(),
        true=clean_labels(run),
        drawn="the training labels that had not been reviewed"
        if "reviewed" in samples
        else "the training labels",
    )


def _drawn(samples: Mapping[str, Array]) -> Array:
    """Return the places of the samples drawn at random to be checked, in their order."""
    draw = samples.get("check")
    if draw is None or draw.dtype.kind not in "iu":
        return np.zeros(0, dtype=np.int64)
    places = np.flatnonzero(draw)
    return places[np.argsort(draw[places], kind="stable")]


def _by_place(run: RunRecord) -> dict[str, Array]:
    """Return the pictures of a run with the row of ``samples.npz`` in place of the sample."""
    place_of = {int(index): place for place, index in enumerate(run.samples["index"])}
    known = [n for n, index in enumerate(run.thumbnails.get("index", ())) if int(index) in place_of]
    if not known:
        return {}
    index = [place_of[int(run.thumbnails["index"][n])] for n in known]
    return {"index": np.array(index), "images": run.thumbnails["images"][known]}


def _review(
    *,
    ids: Array,
    given: Array,
    suggested: Array,
    score: Array,
    reason: Array,
    reasons: Sequence[str],
    class_names: Sequence[str],
    order: Array,
    check: Array,
    thumbnails: Mapping[str, Array],
    items: Mapping[int, Mapping[str, Any]],
    folder: Path,
    decisions: Sequence[Mapping[str, Any]],
    true: Array | None = None,
    drawn: str = "",
) -> Review:
    """Return a review of the samples at ``order`` and at ``check``, positions of the columns.

    ``drawn`` says what a check of a run was drawn from; one of an audit is from all labels, and its
    places are part of the saved file.
    """
    listed = order[:MAX_ROWS]
    places = [*listed.tolist(), *sorted(set(check.tolist()) - set(listed.tolist()))]
    row_of = {place: row for row, place in enumerate(places)}
    keys = [_line(ids[place]) for place in places]
    names = [_line(name) for name in class_names]
    pictures = _pictures([*check.tolist(), *listed.tolist()], thumbnails)
    links = {
        row: _link(items[place]["path"], folder)
        for row, place in enumerate(places)
        if isinstance(items.get(place, {}).get("path"), str)
    }
    contents = {
        row: shown
        for row, place in enumerate(places)
        if (shown := _content(items.get(place, {}))) is not None
    }
    data = {
        "classes": names,
        "reasons": [_line(text) for text in reasons],
        "id": keys,
        "given": given[places].tolist(),
        "suggested": suggested[places].tolist(),
        "score": [round(float(value), 4) for value in score[places]],
        "reason": reason[places].tolist(),
        "listed": len(listed),
        "check": [row_of[int(place)] for place in check],
        "pictures": {row_of[place]: address for place, address in pictures.items()},
        "links": links,
        "contents": contents,
        "drawn": drawn,
        "decisions": [{key: _line(value) for key, value in row.items()} for row in decisions],
    }
    if true is not None:
        data["true"] = true[places].tolist()
    identity = json.dumps([keys, data["given"], names, data["check"]])
    data["key"] = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return Review(
        data=data,
        listed=len(order),
        shown=len(listed),
        pictures=len(pictures),
        links=len(set(links) - {row_of[place] for place in pictures}),
        table=Table(
            ["sample", "given", "suggested", "reason", "score"],
            [
                [
                    keys[row],
                    names[data["given"][row]],
                    names[data["suggested"][row]],
                    data["reasons"][data["reason"][row]],
                    number(data["score"][row], digits=3),
                ]
                for row in range(min(len(listed), _WITHOUT_SCRIPT))
            ],
            text_columns=4,
        ),
    )


def _line(text: object) -> str:
    return printable(text, max_length=None)


def _pictures(places: Sequence[int], thumbnails: Mapping[str, Array]) -> dict[int, str]:
    """Return pictures by place, in this order, as many as the limits allow."""
    found = {int(index): n for n, index in enumerate(thumbnails.get("index", ()))}
    pictures: dict[int, str] = {}
    used = 0
    for place in places:
        if place in found and place not in pictures:
            if len(pictures) >= MAX_PICTURES:
                break
            address = small_picture(thumbnails["images"][found[place]])
            used += len(address)
            if used > MAX_PICTURE_BYTES:
                break
            pictures[place] = address
    return pictures


def small_picture(image: Array) -> str:
    """Return an image as a ``data:`` address: PNG where that is small, else the smaller of both."""
    address = png_address(image)
    if len(address) <= _SMALL_PNG:
        return address
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow", "app", "to put pictures on a page", error) from error
    file = io.BytesIO()
    pixels = image[..., 0] if image.shape[2:] == (1,) else image
    Image.fromarray(pixels).save(file, format="JPEG", quality=85, subsampling=0, optimize=True)
    other = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
    return min(address, other, key=len)


def _link(path: str, folder: Path) -> str:
    """Return the address of a file as seen from a folder; never anything but a file."""
    relative = os.path.relpath(Path(path).absolute(), folder.absolute())
    return "./" + quote(Path(relative).as_posix())


def _content(item: Mapping[str, Any]) -> str | list[list[str]] | None:
    """Return a sample's text, or the names and values of its row."""
    if isinstance(item.get("row"), Mapping):
        return [[_line(key), _short(value)] for key, value in item["row"].items()]
    text = item.get("text", item.get("row"))
    return None if text is None else _short(text)


def _short(value: object) -> str:
    """Return a text whose lines are visible, cut where it is long."""
    text = str(value)
    more = "…" if len(text) > _MAX_TEXT else ""
    return "\n".join(_line(line) for line in text[:_MAX_TEXT].splitlines()) + more
