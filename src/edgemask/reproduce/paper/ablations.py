"""Tables 7, 8, 9, S2 and S4: what the parts of SEM do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from edgemask.reproduce.paper.systems import cifar_columns, sem, system
from edgemask.reproduce.spec import Claim, Experiment, claims_over, numbers

__all__ = ["experiments"]

_COLUMNS = (*cifar_columns("cifar10", ["Sym-80"]), *cifar_columns("cifar100", ["Sym-80"]))
_KEYS = [column.key for column in _COLUMNS]
_CE = "19.74±0.40 7.82±0.33"
_CE_SEM = "39.72±0.81 18.63±0.29"
_JAL = "65.43±0.99 22.80±2.11"
_JAL_SEM = "66.39±1.08 26.14±2.77"


def experiments() -> Iterator[Experiment]:
    """Make the tables."""
    yield _table7()
    yield _table8()
    yield _table9()
    yield _table_s2()
    yield _table_s4()


def _table7() -> Experiment:
    return Experiment(
        name="table7",
        title="Table 7: scoring criteria under Sym-80 %",
        rows=(
            system("ce", "CE", "baseline"),
            sem("second-moment", "CE-SEM", "second moment", criterion="second_moment"),
            sem("mean-abs", "CE-SEM", "mean absolute", criterion="mean_abs"),
            sem("rms", "CE-SEM", "root mean square"),
        ),
        columns=(*_COLUMNS, *cifar_columns("cifar100", ["Sym-60"])),
        row_titles=("method", "scoring criterion"),
        paper=numbers(
            _KEYS,
            {
                "ce": _CE,
                "second-moment": "39.16±0.69 7.94±0.86",
                "mean-abs": "39.49±0.75 14.49±1.47",
                "rms": _CE_SEM,
            },
        ),
        claims=claims_over("rms", "ce", "second-moment", "mean-abs"),
        notes=(
            "CIFAR-100 Sym-60 % is ours: noise that leaves a small network something to learn.",
        ),
    )


def _table8() -> Experiment:
    return Experiment(
        name="table8",
        title="Table 8: components of SEM under Sym-80 %",
        rows=(
            system("ce", "CE", "baseline"),
            sem("no-ema", "CE-SEM", "w/o EMA", beta=0.0),
            sem("hard", "CE-SEM", "w/o Bernoulli", policy="hard"),
            sem("fixed", "CE-SEM", "with Bernoulli (0.5)", policy="bernoulli_fixed(0.5)"),
            sem("ce-sem", "CE-SEM", "with Bernoulli (S)"),
        ),
        columns=_COLUMNS,
        row_titles=("method", "component"),
        paper=numbers(
            _KEYS,
            {
                "ce": _CE,
                "no-ema": "39.25±0.86 17.59±0.31",
                "hard": "21.98±0.79 7.96±0.89",
                "fixed": "23.53±0.57 8.09±0.65",
                "ce-sem": _CE_SEM,
            },
        ),
        claims=claims_over("ce-sem", "ce", "no-ema", "hard", "fixed"),
    )


def _table9() -> Experiment:
    names = ("Sym-80", "Asym-40")
    columns = (*cifar_columns("cifar10", names), *cifar_columns("cifar100", names))
    return Experiment(
        name="table9",
        title="Table 9: KAN classifiers",
        rows=(system("ce-kan", "CE-KAN", head="kan"), system("ce-skan", "CE-SKAN", head="skan")),
        columns=columns,
        paper=numbers(
            [column.key for column in columns],
            {
                "ce-kan": "17.71±1.33 73.68±0.63 8.18±0.54 40.95±0.73",
                "ce-skan": "38.54±1.56 80.03±0.75 12.13±0.19 43.04±0.49",
            },
        ),
        claims=(Claim("ce-skan", "ce-kan"),),
    )


def _table_s2() -> Experiment:
    return Experiment(
        name="tables2",
        title="Table S2: deterministic retention (rho) under Sym-80 %",
        rows=(
            system("ce", "CE", "baseline"),
            sem("ce-no-rho", "CE-SEM", "w/o rho", policy="bernoulli_only"),
            sem("ce-sem", "CE-SEM", "with rho"),
            system("jal", "JAL", "baseline", loss="jal"),
            sem("jal-no-rho", "JAL-SEM", "w/o rho", loss="jal", policy="bernoulli_only"),
            sem("jal-sem", "JAL-SEM", "with rho", loss="jal"),
        ),
        columns=_COLUMNS,
        row_titles=("method", "component"),
        paper=numbers(
            _KEYS,
            {
                "ce": _CE,
                "ce-no-rho": "39.04±1.36 17.97±0.35",
                "ce-sem": _CE_SEM,
                "jal": _JAL,
                "jal-no-rho": "64.30±0.61 24.62±2.03",
                "jal-sem": _JAL_SEM,
            },
        ),
        claims=(
            *claims_over("ce-sem", "ce", "ce-no-rho"),
            *claims_over("jal-sem", "jal", "jal-no-rho"),
        ),
    )


def _table_s4() -> Experiment:
    ce, jal = sem("ce-sem", "CE-SEM", "no"), sem("jal-sem", "JAL-SEM", "no", loss="jal")
    return Experiment(
        name="tables4",
        title="Table S4: inference scaling under Sym-80 %",
        rows=(
            system("ce", "CE", "baseline"),
            dataclasses.replace(
                ce, key="ce-sem-scaled", titles=("CE-SEM", "yes"), inference="expected"
            ),
            ce,
            system("jal", "JAL", "baseline", loss="jal"),
            dataclasses.replace(
                jal, key="jal-sem-scaled", titles=("JAL-SEM", "yes"), inference="expected"
            ),
            jal,
        ),
        columns=_COLUMNS,
        row_titles=("method", "inference scaling"),
        paper=numbers(
            _KEYS,
            {
                "ce": _CE,
                "ce-sem-scaled": "37.25±0.69 15.94±0.76",
                "ce-sem": _CE_SEM,
                "jal": _JAL,
                "jal-sem-scaled": "65.71±1.03 25.47±2.54",
                "jal-sem": _JAL_SEM,
            },
        ),
        claims=(Claim("ce-sem", "ce-sem-scaled"), Claim("jal-sem", "jal-sem-scaled")),
        notes=("Scaled rows are the runs of the unscaled ones, tested again.",),
    )
