"""Rows and columns that several tables share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgemask.reproduce.spec import Column, Row, System

__all__ = ["cifar_columns", "cited", "sem", "system"]


def system(key: str, *titles: str, **options: Any) -> Row:
    """Return a row that can be run; further arguments are those of :class:`System`."""
    return Row(key=key, titles=titles, system=System(**options))


def sem(key: str, *titles: str, loss: str = "ce", **head_options: Any) -> Row:
    """Return a row with the SEM head; options are the head's."""
    return system(key, *titles, loss=loss, head="sem", head_options=head_options)


def cited(key: str, *titles: str) -> Row:
    """Return a row that the paper quotes and that is not built here."""
    return Row(key=key, titles=titles)


_KINDS = {"Sym": "sym", "Asym": "asym", "IDN": "idn"}
_TITLES = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "cifar80n-o": "CIFAR80N-O"}


def cifar_columns(
    dataset: str, noises: Sequence[str], *, protocol: str = "jal", statistic: str = "last"
) -> list[Column]:
    """Return columns of a dataset for noise as the paper names it: ``Sym-80``, ``Clean``.

    Their keys are ``cifar10-sym-80`` and the like.
    """
    columns = []
    for name in noises:
        kind, _, rate = name.partition("-")
        spec = "none" if name == "Clean" else f"{_KINDS[kind]}:{int(rate) / 100:g}"
        columns.append(
            Column(
                key=f"{dataset}-{name.lower()}",
                title=f"{_TITLES[dataset]} {name}{' %' if rate else ''}",
                dataset=dataset,
                noise=spec,
                protocol=protocol,
                statistic=statistic,
            )
        )
    return columns
