"""The audit of a dataset's labels: every sample judged by models that have not seen it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from edgemask.audit import LabelAudit, read_corrections
from edgemask.engine.audit_items import write_items
from edgemask.engine.audit_matrices import from_matrices
from edgemask.engine.audit_networks import Work, from_dynamics, from_folds, from_run
from edgemask.engine.audit_samples import (
    AuditColumns,
    AuditSamples,
    NetworkSettings,
    group_values,
    stored_arrays,
)
from edgemask.engine.run import Run
from edgemask.errors import UserError

__all__ = ["audit_labels"]


def audit_labels(
    data: Any = None,
    labels: Any = None,
    *,
    id: Any = None,  # noqa: A002 - as the command calls it
    text: str | Sequence[str] | None = None,
    folds: int = 5,
    fast: bool = False,
    run: Run | str | Path | None = None,
    probabilities: Any = None,
    features: Any = None,
    groups: Any = None,
    corrections: Any = None,
    chance_driven: bool = False,
    class_names: Sequence[str] | None = None,
    model: str | nn.Module | Callable[[], nn.Module] | None = None,
    head: str | None = None,
    loss: str | None = None,
    method: str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),  # noqa: A002 - as the command calls it
    jobs: int = 1,
    imports: Sequence[str] = (),
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    message: Callable[[str], None] | None = None,
) -> LabelAudit:
    """Say which labels of a dataset are worth checking, and what is known of how many are wrong.

    Every sample is judged, test samples included, by models that were not trained on it: the
    network of :func:`edgemask.fit`, trained once per fold, and cheap models of other kinds on the
    same folds, whose probabilities are averaged. Each fold is a run like any other; with ``out``,
    the same call after an interruption goes on where it stopped.

    Args:
        data: As for :func:`edgemask.fit`; may be left out with ``probabilities`` or ``features``.
        labels: The labels, or the name of their column, where ``data`` does not tell.
        id: The column that names rows, or the names, as for :func:`edgemask.fit`.
        text: The columns of a table that hold text, as for :func:`edgemask.fit`.
        folds: Number of parts; each is judged by models trained on the others.
        fast: Whether to train one network on everything and judge by its training dynamics
            instead: cheaper, and nothing is said of the share of wrong labels.
        run: A finished run, or its folder, whose model judges the samples instead.
        probabilities: Probabilities from anywhere instead: a matrix ``(samples, classes)``, a list
            of them, or a file (.npy, .npz, .csv), in the order of the samples.
        features: Features from anywhere instead, to compare each label with those of the
            neighbours: a matrix ``(samples, numbers)`` or a file.
        groups: One value per sample, or the column of a table; samples of one group (a patient, a
            video) are kept in one fold.
        corrections: What a person decided about labels before; not asked again.
        chance_driven: Whether outcomes depend on chance (forecasts, prognoses); nothing is then
            said of the least share of wrong labels.
        class_names: Names of the classes, where ``data`` has none.
        model: The network, as for :func:`edgemask.fit`; so are ``head``, ``loss``, ``method``,
            ``epochs``, ``batch_size``, ``lr``, ``recipe``, ``config``, ``settings`` and ``set``.
            What is not said is chosen by the number of samples.
        head: See ``model``.
        loss: See ``model``.
        method: See ``model``.
        epochs: See ``model``.
        batch_size: See ``model``.
        lr: See ``model``.
        recipe: See ``model``.
        config: See ``model``.
        settings: See ``model``.
        set: See ``model``.
        jobs: Folds at a time, in processes of their own; for data given by name, and arrays, which
            are written to the audit's folder for them.
        imports: Modules that each process imports first; they register names of your own.
        seed: Seed of folds and models.
        out: Folder of the audit: its result and the runs of its folds; None keeps nothing.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        message: Gets lines for the user: how long it will take, what is done.

    Example:
        >>> import edgemask as em
        >>> audit = em.audit_labels("digits", out="audits/digits")   # doctest: +SKIP
        >>> print(audit)                                             # doctest: +SKIP
        1797 labels, 1 of them are worth checking.
        At most 1.6 % of the labels look wrong.
        Those on the list may all be right.
    """
    chosen = _source(fast=fast, run=run, probabilities=probabilities, features=features)
    if folds < 2:
        raise UserError(f"folds must be at least 2, got {folds}")
    decisions = None if corrections is None else read_corrections(corrections)
    if data is None and (labels is None or chosen not in ("probabilities", "features")):
        raise UserError("audit_labels needs data; labels alone do with probabilities or features")
    with _folder(out) as folder:
        work = Work(
            folder=folder,
            device=device,
            jobs=jobs,
            imports=tuple(imports),
            say=message or (lambda _: None),
        )
        if data is None:
            given = probabilities if features is None else features
            result = from_matrices(chosen, given, labels, class_names, chance_driven)
        else:
            keywords = {
                "model": model, "head": head, "loss": loss, "method": method, "epochs": epochs,
                "batch_size": batch_size, "lr": lr, "seed": seed,
            }  # fmt: skip
            layers = NetworkSettings(keywords, recipe, config, settings, set, fast)
            columns = AuditColumns(labels, id, text, groups, class_names)
            if jobs > 1 and chosen == "folds":
                data, columns = stored_arrays(data, columns, folder)
            stored = None
            if decisions is not None:  # as a file, which processes of their own can read
                stored = (folder / "corrections.csv").resolve()
                decisions.save(stored)
            samples = AuditSamples.read(data, columns, stored, layers)
            if chosen == "folds":
                together = group_values(data, groups, samples)
                result = from_folds(samples, work, folds, together, seed, chance_driven)
            elif chosen == "fast":
                result = from_dynamics(samples, work, seed)
            elif run is not None:
                result = from_run(samples, run, chance_driven, device)
            else:
                given = probabilities if features is None else features
                names = samples.bundle.class_names
                result = from_matrices(
                    chosen, given, samples.given, names, chance_driven, samples.ids
                )
            result = replace(result, data=samples.spec if out is not None else "")
        if decisions is not None:
            result = result.after_review(decisions)
        if out is not None:
            result.save(folder)
            if data is not None:
                write_items(folder, result, samples.bundle)
    return result


def _source(**sources: Any) -> str:
    """Return the one way to judge labels that was chosen."""
    chosen = [name for name, value in sources.items() if value is not None and value is not False]
    if len(chosen) > 1:
        raise UserError(f"{chosen[0]} and {chosen[1]} are two ways to judge labels; choose one")
    return chosen[0] if chosen else "folds"


@contextlib.contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        path = Path(out)
        path.mkdir(parents=True, exist_ok=True)
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="edgemask-audit-") as name:
            yield Path(name)
