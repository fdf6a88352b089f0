"""``edgemask train``: one run, from data to a trained model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgemask.cli.early import check_data, check_file, check_name
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemask.engine import Observer, Run

__all__ = ["train"]

_what = partial(typer.Option, rich_help_panel="What is learned")
_how = partial(typer.Option, rich_help_panel="How it is learned")
_where = partial(typer.Option, rich_help_panel="Where it is stored")


def train(
    data: Annotated[
        str | None,
        _what(
            metavar="DATA",
            autocompletion=complete("data"),
            help="Your data: imagefolder:PATH (one sub-folder per class), csv:FILE, parquet:FILE, "
            "npz:FILE; or a known dataset: digits, cifar10 ... (default: digits)",
        ),
    ] = None,
    label: Label = None,
    id_: RowId = None,
    text: TextColumns = None,
    data_root: DataRoot = None,
    noise: Annotated[
        str | None,
        _what(
            metavar="SPEC",
            help="For experiments, make labels wrong: sym:0.6, asym:0.4, human:worst, "
            "file:labels.csv ... (default: labels as they are)",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        _what(
            metavar="NAME", help="Whose noise: paper, jal, apl, dividemix, nust. (default: paper)"
        ),
    ] = None,
    noise_seed: Annotated[
        int | None, _what(metavar="N", help="Seed of the noise. (default: 0)")
    ] = None,
    validation: Annotated[
        float | None,
        _what(
            metavar="SHARE",
            help="Share of the training data held out to choose an epoch by, such as 0.1.",
        ),
    ] = None,
    select: Annotated[
        str | None,
        _how(
            metavar="RULE",
            help="Whose weights to keep: last, or the best epoch's on validation samples: "
            "validation (of --validation) or clean_validation (of the dataset). (default: last)",
        ),
    ] = None,
    corrections: Annotated[
        Path | None,
        _what(metavar="FILE", help="Corrected labels: the CSV file that the review page saves."),
    ] = None,
    recipe: Annotated[
        str | None,
        _how(
            metavar="NAME",
            autocompletion=complete("recipes"),
            help="Published settings to start from, such as cifar10/jal-sem.",
        ),
    ] = None,
    config: Annotated[
        Path | None, _how(metavar="FILE", help="YAML settings, which override the recipe.")
    ] = None,
    model: Annotated[
        str | None,
        _how(
            metavar="NAME",
            autocompletion=complete("models"),
            help="The network: small-cnn, cnn8, resnet34, mlp, timm:NAME ... "
            "(default: fits the data)",
        ),
    ] = None,
    width: Annotated[
        float | None,
        _how(metavar="X", help="Factor on the width of the network: 0.5 is half as wide."),
    ] = None,
    pretrained: Annotated[
        bool | None, _how("--pretrained", help="Start from published weights (timm:, hf:).")
    ] = None,
    head: Annotated[
        str | None,
        _how(
            metavar="NAME",
            autocompletion=complete("heads"),
            help='The last layer: linear, sem, kan ..., with options as in "sem(rho=0.3)". '
            "(default: linear)",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        _how(
            metavar="NAME",
            autocompletion=complete("losses"),
            help='The loss: ce, jal, gce ..., with options as in "gce(q=0.7)". (default: elr '
            "where no head, method or recipe is named, else ce)",
        ),
    ] = None,
    method: Annotated[
        str | None,
        _how(
            metavar="NAME",
            autocompletion=complete("methods"),
            help="The way of training: supervised, co-teaching, elr, dividemix ... "
            "(default: supervised)",
        ),
    ] = None,
    epochs: Annotated[
        int | None, _how("--epochs", "-e", metavar="N", help="Passes over the data. (default: 20)")
    ] = None,
    batch_size: Annotated[
        int | None,
        _how(
            metavar="N",
            help="Samples of one training step. (default: 128; 64 for fewer than 10,000 samples, "
            "32 for fewer than 2,000)",
        ),
    ] = None,
    lr: Annotated[float | None, _how(metavar="X", help="Learning rate. (default: 0.01)")] = None,
    seed: Annotated[
        int | None,
        _how(metavar="N", help="Seed of weights, order, augmentation and masks. (default: 0)"),
    ] = None,
    sets: Set = None,
    device: Annotated[
        str, _how(metavar="NAME", help="Where to train: auto, cpu, cuda or cuda:N.")
    ] = "auto",
    precision: Annotated[
        str | None, _how(metavar="NAME", help="Number format: fp32, bf16 or fp16. (default: fp32)")
    ] = None,
    compile_: Annotated[
        str | None,
        _how(
            "--compile",
            metavar="BACKEND",
            help="Use torch.compile with a backend: inductor or aot_eager. (default: not used)",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        _how(
            metavar="N",
            help="Processes that read image files. (default: 0, the training process itself)",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        _where(
            metavar="DIR", help="The run's folder. (default: runs/<name>-<hash of the settings>)"
        ),
    ] = None,
    name: Annotated[str | None, _where(metavar="TEXT", help="First part of that folder.")] = None,
    fresh: Annotated[
        bool, _where("--fresh", help="Remove what the folder holds; start over.")
    ] = False,
    track: Annotated[
        list[str] | None,
        _where(
            metavar="NAME",
            help="Where to log: tensorboard, wandb, mlflow ... or none; may be repeated. "
            "(default: tensorboard)",
        ),
    ] = None,
    record: Annotated[
        str | None,
        _where(
            metavar="NAMES",
            help="Measure more, separated by commas: "
            "gradient_error,bounds,criteria,overlap,calibration.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, _where("--dry-run", help="Print what would be done and train nothing.")
    ] = False,
    imports: Imports = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on partly wrong labels.

    The same command again continues a stopped run, or reports that it is finished.

    Later settings override earlier ones: the recipe, the file of --config, the flags, --set.
    """
    check_data(data)
    check_file(corrections, "of corrections")
    check_file(config)
    check_name("models", model)
    check_name("heads", head)
    check_name("losses", loss)
    check_name("methods", method)
    from edgemask.cli.running import run_and_show, show_plan
    from edgemask.engine import fit
    from edgemask.engine.compose import settings_of

    settings = {
        "name": name,
        "data.root": None if data_root is None else str(data_root),
        "data.workers": workers,
        "noise.protocol": protocol,
        "noise.seed": noise_seed,
        "model.width": width,
        "model.pretrained": pretrained,
        "train.precision": precision,
        "train.compile": compile_,
        "log.trackers": [] if track == ["none"] else track,
        "log.record": None if record is None else [part.strip() for part in record.split(",")],
    }

    def start(observers: Sequence[Observer]) -> Run:
        return fit(
            data,
            label,
            id=id_,
            text=text_columns(text),
            noise=noise,
            model=model,
            head=head,
            loss=loss,
            method=method,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            seed=seed,
            validation=validation,
            select=select,
            corrections=corrections,
            recipe=recipe,
            config=config,
            settings=settings_of({key: v for key, v in settings.items() if v is not None}),
            set=sets or (),
            out=out,
            fresh=fresh,
            device=device,
            dry_run=dry_run,
            observers=observers,
        )

    if dry_run:
        show_plan(start(()), as_json=as_json)
    else:
        run_and_show(start, as_json=as_json, quiet=quiet)
