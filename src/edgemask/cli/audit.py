"""``edgemask audit``: which labels of a dataset are worth checking."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.early import check_data, check_file, check_name
from edgemask.cli.jobs import Jobs
from edgemask.cli.names import complete
from edgemask.cli.options import (
    DataRoot,
    Imports,
    Json,
    Label,
    Quiet,
    RowId,
    Set,
    TextColumns,
    text_columns,
)
from edgemask.cli.screen import say

if TYPE_CHECKING:
    from edgemask.audit import LabelAudit

__all__ = ["audit"]

_how = partial(typer.Option, rich_help_panel="How labels are judged")
_network = partial(typer.Option, rich_help_panel="The network of the folds")
_SHOWN = 10


def audit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            autocompletion=complete("data"),
            help="Your data: imagefolder:PATH (one sub-folder per class), csv:FILE, parquet:FILE, "
            "npz:FILE; or a known dataset: digits, cifar10 ...",
        ),
    ],
    label: Label = None,
    id_: RowId = None,
    text: TextColumns = None,
    folds: Annotated[
        int,
        _how(metavar="N", help="Parts of the data, each judged by models trained on the others."),
    ] = 5,
    fast: Annotated[
        bool,
        _how(
            "--fast",
            help="Judge by the training dynamics of one network instead: faster, but without a "
            "statement on how many labels are wrong.",
        ),
    ] = False,
    run: Annotated[
        Path | None,
        _how(
            metavar="RUN",
            help="Judge by the model of a finished run that was trained on other data.",
        ),
    ] = None,
    probabilities: Annotated[
        Path | None,
        _how(
            metavar="FILE",
            help="Judge by probabilities from elsewhere: .npy, .npz or .csv, a row per sample; a "
            "column id (an array ids) names the samples.",
        ),
    ] = None,
    features: Annotated[
        Path | None,
        _how(
            metavar="FILE",
            help="Judge by the labels of neighbours in features from elsewhere; nothing is "
            "trained.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        _how(
            metavar="COLUMN",
            help="The column of a table that names groups (patient, video) to be kept in one fold.",
        ),
    ] = None,
    corrections: Annotated[
        Path | None,
        _how(
            metavar="FILE",
            help="What you decided before, as the review page saves it; not asked again.",
        ),
    ] = None,
    chance_driven: Annotated[
        bool,
        _how(
            "--chance-driven",
            help="The labels are outcomes that depend on chance (forecasts): then no least "
            "share of wrong labels can be stated.",
        ),
    ] = False,
    model: Annotated[
        str | None,
        _network(
            metavar="NAME",
            autocompletion=complete("models"),
            help="The network, as for train. (default: fits the data)",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        _network(metavar="NAME", autocompletion=complete("losses"), help="The loss, as for train."),
    ] = None,
    epochs: Annotated[
        int | None,
        _network(
            "--epochs",
            "-e",
            metavar="N",
            help="Passes over the data. (default: by the number of samples, at least 20)",
        ),
    ] = None,
    sets: Set = None,
    data_root: DataRoot = None,
    jobs: Jobs = 1,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the folds and of all models.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel="Where it is stored",
            help="The audit's folder. (default: audits/<data>-<hash of this command>)",
        ),
    ] = None,
    imports: Imports = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find labels that are worth checking, and bound the share of wrong ones where possible.

    Every sample is judged by models that were not trained on it. The same command again continues
    where it was stopped. Written are report.html, a page to review the samples on, suspects.csv,
    audit.json and samples.npz.
    """
    check_data(data)
    check_file(corrections, "of corrections")
    check_file(probabilities)
    check_file(features)
    check_name("models", model)
    check_name("losses", loss)
    from edgemask.cli.screen import print_json
    from edgemask.engine import audit_labels
    from edgemask.report import write_audit_report

    folder = out if out is not None else _default_folder(data, locals())

    def tell(line: str) -> None:
        if not quiet:
            say(line, err=as_json)

    settings: dict[str, Any] = {}
    if data_root is not None:
        settings["data"] = {"root": str(data_root)}
    tell(f"audit of {data} in {folder}")
    result = audit_labels(
        data,
        label,
        id=id_,
        text=text_columns(text),
        folds=folds,
        fast=fast,
        run=run,
        probabilities=probabilities,
        features=features,
        groups=group,
        corrections=corrections,
        chance_driven=chance_driven,
        model=model,
        loss=loss,
        epochs=epochs,
        settings=settings,
        set=sets or (),
        jobs=jobs,
        imports=imports or (),
        seed=seed,
        out=folder,
        message=tell,
    )
    page = write_audit_report(folder)
    if as_json:
        print_json(_facts(result, folder, page))
    else:
        _show(result, folder, page)


def _default_folder(data: str, options: dict[str, Any]) -> Path:
    """Return the folder of a command: the same for the same words."""
    import hashlib

    text = repr(sorted((key, str(value)) for key, value in options.items() if value is not None))
    name = Path(data.rpartition(":")[2]).stem or "data"
    safe = "".join(c if c.isalnum() or c in "._+-" else "-" for c in name)
    return Path("audits") / f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _facts(audit: LabelAudit, folder: Path, page: Path) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "path": str(folder),
        "report": str(page),
        "samples": len(audit),
        "listed": int(audit.listed.sum()),
        "rate": asdict(audit.rate),
        "suspects": audit.suspects.to_dict(orient="records"),
    }


def _show(audit: LabelAudit, folder: Path, page: Path) -> None:
    from edgemask.cli.screen import count, print_table

    listed = int(audit.listed.sum())
    say(f"\n{audit.rate.sentence}")
    say(audit.rate.explanation)
    few = "; they may all be right" if audit.rate.kind in ("cannot tell", "at most") else ""
    many = count(listed, "label is worth checking", "labels are worth checking")
    say(f"\n{many}, of {len(audit):,}{few if listed else ''}.")
    if listed:
        rows = [
            [str(rank), str(name), str(given), str(suggested), f"{trust:.3f}", str(reason)]
            for rank, name, given, suggested, trust, reason in audit.suspects.head(_SHOWN).values
        ]
        print_table(["rank", "sample", "given", "suggested", "score", "reason"], rows)
        steps = [n for n in (20, 50, 100, 200, 500, 1000, 2000) if n <= min(len(audit), 2 * listed)]
        ranges = [(n, *audit.expected_precision(n)) for n in steps]
        if any(low > 0 or high < 1 for _, low, high in ranges):
            say("\nHow many to check? Wrong labels to expect among the first:")
            print_table(
                ["first", "wrong"],
                [[str(n), f"{n * low:.0f} to {n * high:.0f}"] for n, low, high in ranges],
                right=1,
            )
    say(f"\nthe whole list: {folder / 'suspects.csv'}")
    say(f"to review them, and 100 random samples, open: {page}")
