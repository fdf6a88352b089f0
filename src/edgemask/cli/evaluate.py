"""``edgemask eval``: test a finished run, also on other data or with another inference."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from edgemask.cli.early import check_data, check_run
from edgemask.cli.options import DataRoot, Imports, Json, RunPath

__all__ = ["evaluate"]


def evaluate(
    run: RunPath,
    data: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Another dataset of the same classes."),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="Its column of labels. (default: that of the training data)"
        ),
    ] = None,
    data_root: DataRoot = None,
    inference: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the head predicts: dense or expected. (default: as it was trained)",
        ),
    ] = None,
    test_limit: Annotated[
        int | None, typer.Option(metavar="N", help="Test on N samples of each set only.")
    ] = None,
    top5: Annotated[bool, typer.Option("--top5", help="Print the top-5 accuracy, too.")] = False,
    as_json: Json = False,
    imports: Imports = None,
) -> None:
    """Test the model of a finished run on its test data, or on other data."""
    check_run(run)
    check_data(data)
    from edgemask.cli.screen import percent, print_json, print_table
    from edgemask.data import load
    from edgemask.engine import evaluate as test
    from edgemask.engine import load_run

    found = load_run(run)
    bundle: Any = None
    if data is not None and data.partition(":")[0] in ("csv", "parquet"):
        bundle = data
    elif data is not None:
        bundle = load(data, root=data_root)
    elif data_root is not None:
        where = found.config.data
        bundle = load(where.spec, root=data_root, **where.options)
    result = test(
        found, data=bundle, label=label, inference=inference, test_limit=test_limit, top5=top5
    )
    if as_json:
        print_json({"run": str(run), "inference": inference, **result})
        return
    rows = [(key, percent(value)) for key, value in result.items() if isinstance(value, float)]
    names, accuracies = result.get("class_names", []), result.get("per_class_accuracy", [])
    rows += [(f"class {n}", percent(a)) for n, a in zip(names, accuracies, strict=True)]
    print_table([f"{result['samples']:,} samples", "accuracy"], rows, right=1)
