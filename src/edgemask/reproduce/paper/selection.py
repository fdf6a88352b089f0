"""Table 3: sample selection with and without SEM."""

from __future__ import annotations

from collections.abc import Iterator

from edgemask.reproduce.paper.systems import cifar_columns, system
from edgemask.reproduce.spec import Claim, Experiment, numbers

__all__ = ["experiments"]


def experiments() -> Iterator[Experiment]:
    """Make the table."""
    names = ("Sym-20", "Sym-80", "Asym-40")
    columns = tuple(
        column
        for dataset in ("cifar100", "cifar80n-o")
        for column in cifar_columns(dataset, names, protocol="nust", statistic="mean_last_10")
    )
    yield Experiment(
        name="table3",
        title="Table 3: sample selection on CIFAR-100 and CIFAR80N-O, mean of the last 10 epochs",
        rows=(
            system("coteaching", "Co-teaching", method="coteaching"),
            system("jocor", "JoCoR", method="jocor"),
            system("josrc", "Jo-SRC", method="josrc"),
            system("unicon", "UNICON", method="unicon"),
            system("ca2c", "CA2C", method="ca2c"),
            system("josnc", "Jo-SNC", method="josnc"),
            system("ca2c-sem", "CA2C-SEM", method="ca2c", head="sem"),
            system("josnc-sem", "Jo-SNC-SEM", method="josnc", head="sem"),
        ),
        columns=columns,
        paper=numbers(
            [column.key for column in columns],
            {
                "coteaching": "43.73±0.16 15.15±0.46 28.35±0.25 60.38±0.22 16.59±0.27 42.42±0.30",
                "jocor": "53.01±0.04 15.49±0.98 32.70±0.35 59.99±0.13 12.85±0.05 39.37±0.16",
                "josrc": "58.15±0.14 23.80±0.05 38.52±0.20 65.83±0.13 29.76±0.09 53.03±0.25",
                "unicon": "55.10±0.30 31.49±0.18 49.90±0.30 54.50±0.50 36.75±0.14 51.50±0.50",
                "ca2c": "63.56±0.09 33.56±0.07 61.16±0.06 64.59±0.10 31.27±0.14 60.19±0.10",
                "josnc": "65.49±0.15 43.45±0.16 61.59±0.10 67.81±0.15 41.10±0.12 62.57±0.19",
                "ca2c-sem": "65.22±0.14 36.03±0.12 63.84±0.08 65.27±0.23 34.96±0.29 62.77±0.15",
                "josnc-sem": "66.02±0.21 44.26±0.29 62.43±0.13 68.39±0.24 42.06±0.27 63.41±0.25",
            },
        ),
        claims=(Claim("ca2c-sem", "ca2c"), Claim("josnc-sem", "josnc")),
    )
