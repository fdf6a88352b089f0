"""``edgemask noise``: make label files and show them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.names import complete
from edgemask.cli.options import DataRoot, Json
from edgemask.cli.plain_help import PlainCommand, PlainGroup
from edgemask.cli.screen import say

if TYPE_CHECKING:
    from edgemask.noise import NoisyLabels

__all__ = ["app"]

_SHOWN = 20
app = typer.Typer(cls=PlainGroup, no_args_is_help=True, help="Make label files and show them.")


@app.command("make", cls=PlainCommand)
def make(
    data: Annotated[
        str,
        typer.Option(metavar="SPEC", help="The dataset.", autocompletion=complete("data")),
    ],
    noise: Annotated[
        str, typer.Option(metavar="SPEC", help="Kind and rate: sym:0.4, asym:0.4, idn:0.4 ...")
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The label file, an .npz.")],
    protocol: Annotated[
        str, typer.Option(metavar="NAME", help="Whose noise: paper, jal, apl, dividemix or nust.")
    ] = "paper",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the noise.")] = 0,
    data_root: DataRoot = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Make noisy labels for a dataset and write them to a file.

    Train with them: edgemask train --data SPEC --noise file:FILE
    """
    from edgemask.engine import Objects, resolve
    from edgemask.engine.run_data import build_run_data
    from edgemask.errors import UserError

    if out.exists() and not force:
        raise UserError(f"{out} exists already; give another --out, or --force to replace it")
    if out.suffix != ".npz":
        raise UserError(f"--out {out}: a label file ends in .npz")
    root = None if data_root is None else str(data_root)
    config = resolve(
        {
            "data": {"spec": data, "root": root},
            "noise": {"spec": noise, "protocol": protocol, "seed": seed},
        }
    )
    labels = build_run_data(config, Objects()).noise
    _show(labels, labels.save(out), as_json=as_json)


@app.command("show", cls=PlainCommand)
def show(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A label file, or the folder of a run.")
    ],
    as_json: Json = False,
) -> None:
    """Print what a label file holds: kind, rates and the transition matrix."""
    from edgemask.noise import NoisyLabels

    path = file / "noise.npz" if file.is_dir() else file
    _show(NoisyLabels.load(path), path, as_json=as_json)


def _show(labels: NoisyLabels, path: Path, *, as_json: bool) -> None:
    from edgemask.cli.screen import print_json, print_table

    facts: dict[str, Any] = {
        "file": str(path),
        "kind": labels.kind,
        "protocol": labels.protocol,
        "seed": labels.seed,
        "samples": len(labels),
        "classes": labels.num_classes,
        "nominal rate": labels.rate,
        "realised rate": labels.realised_rate,
        "fingerprint": labels.fingerprint,
    }
    matrix = labels.transition
    if as_json:
        facts = {key.replace(" ", "_"): value for key, value in facts.items()}
        print_json({**facts, "transition": None if matrix is None else matrix.tolist()})
        return
    print_table(
        ["labels", ""],
        [(key, "unknown" if value is None else str(value)) for key, value in facts.items()],
    )
    if matrix is None:
        return
    say()
    size = min(labels.num_classes, _SHOWN)
    rows = [
        (str(number), *(f"{100 * value:.1f}" for value in row[:size]))
        for number, row in enumerate(matrix[:size])
    ]
    say(
        f"share of each true class (row) that is labelled as each class (column), in %"
        f"{f'; the first {size} of {labels.num_classes}' if size < labels.num_classes else ''}"
    )
    print_table(["", *map(str, range(size))], rows, right=size)
