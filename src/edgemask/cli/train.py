"""``edgemask train``: one run, from data to a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.names import complete
from edgemask.cli.options import DataRoot, Json, Quiet, Set

if TYPE_CHECKING:
    from edgemask.data import DataBundle
    from edgemask.engine import Config

__all__ = ["train"]

_WHAT, _HOW, _WHERE = "What is learned", "How it is learned", "Where it goes"


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
            metavar="FILE", rich_help_panel=_HOW, help="YAML settings, laid upon the recipe."
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
    settings: Set = None,
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
            "--fresh", rich_help_panel=_WHERE, help="Throw away what the folder holds; start over."
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
            help="Measure more as it goes: gradient_error,bounds,criteria,overlap,calibration.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", rich_help_panel=_WHERE, help="Say what would be done; stop."),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on partly wrong labels.

    The same line again goes on where it was stopped, or says that the run is finished.

    Settings are laid upon each other: the recipe, the file of --config, the flags, --set.
    """
    from edgemask.cli.device import choose_device
    from edgemask.cli.settings import compact, named

    choose_device(device)
    groups: dict[str, dict[str, Any]] = {
        "data": {
            "spec": data,
            "root": str(data_root) if data_root is not None else None,
            "validation": validation,
            "workers": workers,
        },
        "noise": {"spec": noise, "protocol": protocol, "seed": noise_seed},
        "model": {"name": model, "width": width, "pretrained": pretrained},
        "optim": {"lr": lr},
        "train": {
            "epochs": epochs,
            "batch_size": batch_size,
            "seed": seed,
            "precision": precision,
            "compile": compile_,
            "select": select,
        },
        "log": {
            "trackers": _trackers(track),
            "record": None if record is None else [name.strip() for name in record.split(",")],
        },
    }
    for part, text in (("head", head), ("loss", loss), ("method", method)):
        if text is not None:
            groups[part] = named(text, f"--{part}")
    flags: dict[str, Any] = compact(groups)
    if name is not None:
        flags["name"] = name
    resolved, bundle = _resolve(recipe, config, flags, settings or [])
    if dry_run:
        from edgemask.cli.plan import show_plan

        show_plan(resolved, bundle, out=out, fresh=fresh, as_json=as_json)
        return
    from edgemask.cli.running import run_and_show
    from edgemask.engine import Objects
    from edgemask.engine import train as run_config

    run_and_show(
        lambda observers: run_config(
            resolved,
            out=out,
            fresh=fresh,
            observers=observers,
            objects=Objects(bundle=bundle),
        ),
        as_json=as_json,
        quiet=quiet,
    )


def _trackers(names: list[str] | None) -> list[str] | None:
    return [] if names == ["none"] else names


def _resolve(
    recipe: str | None, path: Path | None, flags: dict[str, Any], assignments: list[str]
) -> tuple[Config, DataBundle | None]:
    """Lay all settings upon each other; where none names a model, choose one for the data."""
    from edgemask.cli.settings import default_model, lay
    from edgemask.engine import RECIPES, assign, load_yaml, resolve

    values: dict[str, Any] = RECIPES[recipe].layer() if recipe is not None else {}
    for layer in (load_yaml(path) if path is not None else {}, flags, assign({}, assignments)):
        values = lay(values, layer)
    resolved = resolve(values)
    if values.get("model", {}).get("name") is not None:
        return resolved, None
    from edgemask.data import load

    where = resolved.data
    bundle = load(where.spec, root=where.root, **where.options)
    chosen = {"model": {"name": default_model(bundle.input_shape)}}
    return resolve(lay(values, chosen)), bundle
