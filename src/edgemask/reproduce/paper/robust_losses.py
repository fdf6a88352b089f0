"""Tables 1 and 2: robust losses with and without SEM."""

from __future__ import annotations

from collections.abc import Iterator

from edgemask.reproduce.paper.systems import cifar_columns, sem, system
from edgemask.reproduce.spec import Claim, Experiment, numbers

__all__ = ["TABLE1", "experiments"]

_LOSSES = (
    system("ce", "CE"),
    system("gce", "GCE", loss="gce"),
    system("sce", "SCE", loss="sce"),
    system("nce+rce", "NCE+RCE", loss="nce+rce"),
    system("anl", "ANL", loss="anl"),
    system("jal", "JAL", loss="jal"),
)
_SEM = (
    sem("ce-sem", "CE-SEM"),
    sem("anl-sem", "ANL-SEM", loss="anl"),
    sem("jal-sem", "JAL-SEM", loss="jal"),
)
_CLAIMS = (Claim("ce-sem", "ce"), Claim("anl-sem", "anl"), Claim("jal-sem", "jal"))

_NAMES = ("Clean", "Sym-20", "Sym-40", "Sym-60", "Sym-80", "Asym-20", "Asym-40")
_TEN, _HUNDRED = cifar_columns("cifar10", _NAMES), cifar_columns("cifar100", _NAMES)
TABLE1 = numbers(
    [column.key for column in _TEN],
    {
        "ce": "90.50±0.22 75.21±0.39 58.05±0.53 38.80±0.45 19.74±0.40 83.05±0.35 73.85±0.07",
        "gce": "89.66±0.20 89.36±0.19 82.19±0.84 68.01±0.40 46.61±0.39 85.72±0.22 73.36±0.53",
        "sce": "91.51±0.24 87.65±0.36 79.73±0.29 61.79±0.72 28.01±0.92 85.94±0.38 74.33±0.56",
        "nce+rce": "90.80±0.06 88.93±0.04 85.89±0.31 79.89±0.25 54.99±2.13 88.62±0.29 77.94±0.21",
        "anl": "91.74±0.18 89.68±0.29 87.16±0.16 81.28±0.63 62.28±1.10 89.09±0.21 77.99±0.40",
        "jal": "91.63±0.21 89.95±0.22 87.53±0.10 82.03±0.18 65.43±0.99 89.11±0.38 79.54±0.34",
        "ce-sem": "90.28±0.34 78.35±0.58 69.42±0.70 59.55±0.46 39.72±0.81 85.26±0.55 77.50±0.68",
        "anl-sem": "91.70±0.15 90.07±0.34 87.56±0.29 82.21±0.49 64.18±0.72 89.56±0.33 80.87±0.46",
        "jal-sem": "91.86±0.39 90.18±0.66 88.04±0.42 82.63±0.66 66.39±1.08 90.05±0.41 80.11±0.46",
    },
) | numbers(
    [column.key for column in _HUNDRED],
    {
        "ce": "70.93±0.77 56.47±1.34 39.68±0.77 22.64±0.53 7.82±0.33 58.67±0.45 41.51±0.12",
        "gce": "61.73±1.30 60.58±2.51 57.35±0.91 46.15±1.10 20.33±0.31 59.19±1.36 40.92±0.21",
        "sce": "70.57±0.93 55.50±0.35 40.13±1.48 22.23±1.29 7.84±0.56 57.84±0.57 41.58±0.87",
        "nce+rce": "68.07±0.70 64.57±0.16 58.48±0.51 46.73±1.00 26.94±1.29 62.82±0.57 41.50±0.39",
        "anl": "70.26±0.15 66.93±0.09 61.58±0.33 52.09±0.58 28.01±1.06 65.96±0.18 45.73±0.74",
        "jal": "70.60±0.09 68.25±0.39 64.11±0.55 56.73±0.65 22.80±2.11 67.90±0.59 56.17±0.32",
        "ce-sem": "70.82±0.36 58.71±0.80 46.43±0.59 36.30±0.67 18.63±0.29 59.09±0.37 42.62±0.16",
        "anl-sem": "70.79±0.30 67.68±0.49 62.63±0.54 52.95±0.77 29.04±0.97 66.44±0.25 46.07±0.56",
        "jal-sem": "71.59±0.60 69.64±0.87 65.43±0.56 58.34±1.06 26.14±2.77 68.93±0.21 57.52±1.09",
    },
)
"""Means and deviations that Table 1 prints, by row and column."""


def experiments() -> Iterator[Experiment]:
    """Make the tables."""
    yield _table1()
    yield _table2()


def _table1() -> Experiment:
    return Experiment(
        name="table1",
        title="Table 1: robust losses under symmetric and asymmetric noise",
        rows=_LOSSES + _SEM,
        columns=(*_TEN, *_HUNDRED),
        paper=TABLE1,
        claims=_CLAIMS,
    )


def _table2() -> Experiment:
    names = ("IDN-20", "IDN-40", "IDN-60")
    columns = (*cifar_columns("cifar10", names), *cifar_columns("cifar100", names))
    paper = numbers(
        [column.key for column in columns],
        {
            "gce": "86.66±0.14 79.99±0.23 51.90±0.13 61.43±2.24 57.07±1.04 42.40±0.52",
            "sce": "86.65±0.27 74.54±0.34 49.83±0.40 56.32±0.27 39.82±1.43 23.19±0.87",
            "nce+rce": "89.06±0.26 85.11±0.28 71.27±0.66 64.33±0.46 57.53±0.84 40.36±0.35",
            "anl": "89.71±0.35 85.74±0.15 69.83±0.38 66.89±0.53 60.88±0.35 48.12±0.48",
            "jal": "90.01±0.12 86.46±0.15 75.62±0.18 67.51±0.29 63.24±0.16 51.69±0.68",
            "anl-sem": "90.46±0.34 86.53±0.37 70.91±0.60 68.13±0.66 62.16±0.72 49.78±0.89",
            "jal-sem": "90.53±0.56 87.34±0.11 76.68±0.89 69.17±0.77 64.95±0.58 53.08±1.26",
        },
    )
    return Experiment(
        name="table2",
        title="Table 2: robust losses under instance-dependent noise",
        rows=_LOSSES[1:] + _SEM[1:],
        columns=columns,
        paper=paper,
        claims=_CLAIMS[1:],
    )
