"""``edgemask export``: a model to deploy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from edgemask.cli.early import check_run
from edgemask.cli.options import Imports, Json, RunPath

__all__ = ["export"]


class ExportFormat(StrEnum):
    """What a deployed model may be."""

    SAFETENSORS = "safetensors"
    TORCH = "torch"
    ONNX = "onnx"


_SUFFIX = {"safetensors": ".safetensors", "torch": ".pt2", "onnx": ".onnx"}


def export(
    run: RunPath,
    form: Annotated[
        ExportFormat,
        typer.Option(
            "--format",
            metavar="NAME",
            help="safetensors (weights), torch (a program of torch.export) or onnx.",
        ),
    ] = ExportFormat.SAFETENSORS,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file. (default: RUN/export.*)", show_default=False),
    ] = None,
    as_json: Json = False,
    imports: Imports = None,
) -> None:
    """Write a run's model with plain layers, and check that its outputs equal the trained one's.

    Class names, input size and preprocessing go with it; torch and onnx take raw pixels.
    """
    check_run(run)
    from edgemask.cli.screen import print_json, say
    from edgemask.engine import export as write
    from edgemask.engine import load_run

    found = load_run(run)
    path = out if out is not None else run / f"export{_SUFFIX[form]}"
    target = write(found, path, format=str(form))
    size = target.stat().st_size
    if as_json:
        print_json({"path": str(target), "format": str(form), "bytes": size})
    else:
        say(f"{target}: {size / 1e6:.2f} MB, outputs equal those of the trained model")
