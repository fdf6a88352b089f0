"""``edgemask train``: one run, from data to a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgemask.cli.names import complete
from edgemask.cli.options import DataRoot, Imports, Json, Quiet, Set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemask.engine import Observer, Run

__all__ = ["train"]

_WHAT, _HOW, _WHERE = "What is learned", "How it is learned", "Where it is stored"


def train(
    data: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            rich_help_panel=_WHAT,
            autocompletion=complete("data"),
            help="A dataset: digits, cifar10 ..., or imagefolder:PATH, csv:FILE, npz:FILE. "
            "(default: digits)",
        ),
    ] = None,
    data_root: DataRoot = None,
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            rich_help_panel=_WHAT,
            help="Wrong labels to make: sym:0.6, asym:0.4, human:worst, file:labels.csv ... "
            "(default: labels as they are)",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_WHAT,
            help="Whose noise generator: paper, jal, apl, dividemix, nust.",
        ),
    ] = None,
    noise_seed: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=_WHAT, help="Seed of the noise. (default: 0)"),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            rich_help_panel=_WHAT,
            help="Share of the noisy data held out to choose an epoch by.",
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            rich_help_panel=_HOW,
            help="Whose weights to keep: last, or the best epoch's on validation samples: "
            "validation (of --validation) or clean_validation (of the dataset). (default: last)",
        ),
    ] = None,
    corrections: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_WHAT,
            help="Corrected labels: the CSV file that the review page saves.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_HOW,
            autocompletion=complete("recipes"),
            help="Published settings to start from, such as cifar10/jal-sem.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_HOW, help="YAML settings, which override the recipe."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_HOW,
            autocompletion=complete("models"),
            help="The network: small-cnn, cnn8, resnet34, mlp, timm:NAME ... "
            "(default: fits the data)",
        ),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option(metavar="X", rich_help_panel=_HOW, help="Factor on its channel counts."),
    ] = None,
    pretrained: Annotated[
        bool | None,
        typer.Option(
            "--pretrained", rich_help_panel=_HOW, help="Start from published weights (timm:, hf:)."
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_HOW,
            autocompletion=complete("heads"),
            help='The last layer: linear, sem, kan ..., with options as in "sem(rho=0.3)". '
            "(default: linear)",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_HOW,
            autocompletion=complete("losses"),
            help='The loss: ce, jal, gce ..., with options as in "gce(q=0.7)". (default: ce)',
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_HOW,
            autocompletion=complete("methods"),
            help="The way of learning, options as above. (default: supervised)",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            "--epochs",
            "-e",
            metavar="N",
            rich_help_panel=_HOW,
            help="Passes over the data. (default: 20)",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=_HOW, help="Samples of a step. (default: 128)"),
    ] = None,
    lr: Annotated[
        float | None,
        typer.Option(metavar="X", rich_help_panel=_HOW, help="Learning rate. (default: 0.01)"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=_HOW,
            help="Seed of weights, order, augmentation and masks. (default: 0)",
        ),
    ] = None,
    sets: Set = None,
    device: Annotated[
        str,
        typer.Option(metavar="NAME", rich_help_panel=_HOW, help="auto, cpu, cuda or cuda:N."),
    ] = "auto",
    precision: Annotated[
        str | None,
        typer.Option(metavar="NAME", rich_help_panel=_HOW, help="fp32, bf16 or fp16."),
    ] = None,
    compile_: Annotated[
        str | None,
        typer.Option(
            "--compile",
            metavar="BACKEND",
            rich_help_panel=_HOW,
            help="Backend of torch.compile: inductor, aot_eager.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=_HOW, help="Processes that read image files."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=_WHERE,
            help="The run's folder. (default: runs/<name>-<hash of the settings>)",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="TEXT", rich_help_panel=_WHERE, help="First part of that folder."),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", rich_help_panel=_WHERE, help="Remove what the folder holds; start over."
        ),
    ] = False,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_WHERE,
            help="tensorboard, wandb, mlflow ... or none; may be repeated. (default: tensorboard)",
        ),
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            rich_help_panel=_WHERE,
            help="Also measure: gradient_error,bounds,criteria,overlap,calibration.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", rich_help_panel=_WHERE, help="Say what would be done; stop."),
    ] = False,
    imports: Imports = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on partly wrong labels.

    The same command again continues a stopped run, or reports that it is finished.

    Later settings override earlier ones: the recipe, the file of --config, the flags, --set.
    """
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
