"""``edgemask predict``: a trained model on new data."""

from __future__ import annotations

import csv
import io
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgemask.cli.early import check_run
from edgemask.cli.options import Imports, RunPath

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["predict"]


class PredictionFormat(StrEnum):
    """How predictions are written."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def predict(
    run: RunPath,
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE",
            help="Image files or folders of them; or one table (.csv, .tsv, .parquet), or a .txt "
            "with a text per line.",
        ),
    ] = None,
    npz: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Arrays instead: an .npz, or an .npy of samples."),
    ] = None,
    key: Annotated[str, typer.Option(metavar="NAME", help="Which array of the .npz.")] = "x",
    form: Annotated[
        PredictionFormat | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="How to write the predictions: table, json or csv. (default: a table on a "
            "terminal, by the ending of --out for a file, otherwise json)",
            show_default=False,
        ),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="The probability of every class too.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here instead of to the terminal.")
    ] = None,
    imports: Imports = None,
) -> None:
    """Predict classes of images, rows of a table, texts or arrays with a finished run's model.

    Rows are called by the column that --id named in training, where the new table has it.
    """
    check_run(run)
    from edgemask.cli.screen import count, json_text, print_table, say
    from edgemask.engine import load_run
    from edgemask.engine import predict as run_model
    from edgemask.errors import UserError

    if bool(inputs) == (npz is not None):
        raise UserError("predict takes image files or a table, or --npz FILE, and not both")
    samples: Any = _array(npz, key) if npz is not None else inputs
    found = run_model(load_run(run), samples)
    rows: list[dict[str, Any]] = found.rows()
    if probabilities:
        for row, chances in zip(rows, found.probabilities, strict=True):
            shares = zip(found.class_names, chances, strict=True)
            row["probabilities"] = {name: float(share) for name, share in shares}
    form = form or _usual_format(out)
    if form is PredictionFormat.TABLE:
        if out is not None:
            raise UserError("--format table is for the terminal; a file is json or csv")
        print_table(*_table(rows), right=len(found.class_names) if probabilities else 1)
        return
    text = json_text(rows) if form is PredictionFormat.JSON else _csv(rows)
    if out is None:
        sys.stdout.write(text)
    else:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}") from error
        say(f"{count(len(rows), 'prediction')} in {out}")


def _usual_format(out: Path | None) -> PredictionFormat:
    if out is None and sys.stdout.isatty():
        return PredictionFormat.TABLE
    is_csv = out is not None and out.suffix.lower() == ".csv"
    return PredictionFormat.CSV if is_csv else PredictionFormat.JSON


def _table(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return titles and cells: the input, its class, and probabilities in percent."""
    shares = [row.get("probabilities") or {"probability": row["probability"]} for row in rows]
    titles = ["input", "class", *(shares[0] if shares else ())]
    return titles, [
        [str(row["input"]), row["class"], *(f"{100 * share:.1f} %" for share in each.values())]
        for row, each in zip(rows, shares, strict=True)
    ]


def _array(path: Path, key: str) -> NDArray[Any]:
    from edgemask.errors import DataError, one_line, unknown_name
    from edgemask.runs import load_arrays

    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    try:
        arrays = load_arrays(path)
    except Exception as error:  # numpy and zipfile raise all sorts for damaged files
        raise DataError(f"{path}: cannot be read as arrays ({one_line(error)})") from error
    if "" not in arrays and key not in arrays:
        raise unknown_name(f"array in {path}", key, arrays)
    return arrays[""] if "" in arrays else arrays[key]


def _csv(rows: list[dict[str, Any]]) -> str:
    from edgemask._text import as_csv

    flat = []
    for row in rows:
        chances = row.pop("probabilities", {})
        flat.append(row | {f"probability {name}": share for name, share in chances.items()})
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if flat:
        writer.writerow([as_csv(name) for name in flat[0]])
    for row in flat:
        writer.writerow([as_csv(v) if isinstance(v, str) else v for v in row.values()])
    return text.getvalue()
