"""Tables 4, S1 and S3: SEM against other regularisers."""

from __future__ import annotations

from collections.abc import Iterator

from edgemask.reproduce.paper.systems import cifar_columns, sem, system
from edgemask.reproduce.spec import Claim, Experiment, claims_over, numbers

__all__ = ["experiments"]


def experiments() -> Iterator[Experiment]:
    """Make the tables."""
    yield _table4()
    yield _table_s1()
    yield _table_s3()


def _table4() -> Experiment:
    names = ("Sym-80", "Asym-40", "IDN-60")
    columns = (*cifar_columns("cifar10", names), *cifar_columns("cifar100", names))
    rivals = (
        system("ce", "CE", "baseline"),
        system("dropout", "CE-Dropout", "random", head="dropout", head_options={"p": 0.5}),
        system(
            "dropconnect", "CE-DropConnect", "random", head="dropconnect", head_options={"p": 0.5}
        ),
        system("ddc", "CE-Dynamic DropConnect", "gradient", head="ddc"),
        system("cdr", "CE-CDR", "gradient x weight", method="cdr"),
    )
    return Experiment(
        name="table4",
        title="Table 4: regularisers",
        rows=(*rivals, sem("ce-sem", "CE-SEM", "activation")),
        columns=columns,
        row_titles=("method", "scoring criterion"),
        paper=numbers(
            [column.key for column in columns],
            {
                "ce": "19.74±0.40 73.85±0.07 37.97±0.36 7.82±0.33 41.51±0.12 24.49±0.86",
                "dropout": "29.96±1.09 74.89±0.43 49.31±0.67 7.29±0.37 42.23±0.47 23.93±0.23",
                "dropconnect": "23.09±0.25 76.38±0.33 43.39±0.82 7.34±0.16 42.39±0.37 22.86±0.93",
                "ddc": "27.96±0.22 77.12±0.32 47.18±0.20 7.78±0.24 39.66±0.60 19.75±1.36",
                "cdr": "33.73±0.60 75.59±0.46 51.94±0.36 16.04±0.19 40.88±0.69 27.89±1.25",
                "ce-sem": "39.72±0.81 77.50±0.68 61.01±0.15 18.63±0.29 42.62±0.16 29.09±0.84",
            },
        ),
        claims=claims_over("ce-sem", *(row.key for row in rivals)),
    )


def _table_s1() -> Experiment:
    names = ("Sym-80", "Asym-40")
    columns = (*cifar_columns("cifar10", names), *cifar_columns("cifar100", names))
    return Experiment(
        name="tables1",
        title="Table S1: CDR on the full network and on the classifier alone",
        rows=(
            system("cdr", "CDR", "full network", method="cdr"),
            system(
                "cdr-head", "CDR", "FC classifier", method="cdr", method_options={"scope": "head"}
            ),
        ),
        columns=columns,
        row_titles=("method", "suppression scope"),
        paper=numbers(
            [column.key for column in columns],
            {
                "cdr": "33.73±0.60 75.59±0.46 16.04±0.19 40.88±0.69",
                "cdr-head": "33.61±0.48 76.05±0.47 16.94±0.75 41.18±0.41",
            },
        ),
        claims=(Claim("cdr-head", "cdr"),),
    )


def _table_s3() -> Experiment:
    columns = (*cifar_columns("cifar10", ["Sym-80"]), *cifar_columns("cifar100", ["Sym-80"]))
    return Experiment(
        name="tables3",
        title="Table S3: at a retention of 50 %",
        rows=(
            system(
                "dropout", "CE-Dropout", "random neuron", head="dropout", head_options={"p": 0.5}
            ),
            system(
                "dropconnect",
                "CE-DropConnect",
                "random edge",
                head="dropconnect",
                head_options={"p": 0.5},
            ),
            sem("sem-topk", "CE-SEM-TopK", "EMA-ranked edge", policy="topk(0.5)"),
        ),
        columns=columns,
        row_titles=("method", "masking rule"),
        paper=numbers(
            [column.key for column in columns],
            {
                "dropout": "29.96±1.09 7.29±0.37",
                "dropconnect": "23.09±0.25 7.34±0.16",
                "sem-topk": "31.34±0.51 12.91±0.56",
            },
        ),
        claims=claims_over("sem-topk", "dropout", "dropconnect"),
    )
