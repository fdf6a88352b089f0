"""The controls that the paper lacks: is it choosing edges that helps, or dropping them?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from edgemask.reproduce.paper.robust_losses import TABLE1
from edgemask.reproduce.paper.systems import cifar_columns, sem, system
from edgemask.reproduce.spec import AtRetentionOf, Claim, Column, Experiment, Picture, Row

__all__ = ["MAIN", "experiments"]

_NOISY = "cifar10-sym-60"
MAIN = (
    "ce", "ce-sem", "capped-0.3", "capped-0.5", "capped-0.8", "bernoulli-only", "shuffled",
    "dropconnect-0.5", "dropout-0.5",
)  # fmt: skip
"""Heads that are run on clean and on human labels as well."""


def experiments() -> Iterator[Experiment]:
    """Make the table."""
    rows = [
        row if row.key in MAIN else dataclasses.replace(row, columns=(_NOISY,)) for row in _rows()
    ]
    keys = {row.key for row in rows}
    yield Experiment(
        name="controls",
        title="Controls: choosing edges against dropping them, CIFAR-10",
        rows=tuple(rows),
        columns=(
            *cifar_columns("cifar10", ["Sym-60", "Clean"]),
            Column(
                key="cifar10n-worst",
                title="CIFAR-10N worst",
                dataset="cifar10",
                noise="human:worst",
                protocol="paper",
            ),
        ),
        row_titles=("system", "family"),
        paper={
            (row, column): number
            for (row, column), number in TABLE1.items()
            if row in keys and column in (_NOISY, "cifar10-clean")
        },
        claims=(
            Claim("ce-sem", "ce"),
            Claim("ce-sem", "hard"),
            Claim("ce-sem", "bernoulli-only"),
            Claim("ce-sem", "capped-0.5"),
            Claim("ce-sem", "shuffled"),
            Claim("ce-sem", "dropconnect-0.5"),
            Claim("ce-sem", "dropout-0.5"),
            Claim("ce-sem", "cdr"),
            Claim("bernoulli-only", "shuffled"),
            Claim("bernoulli-only", "dropconnect-matched"),
            Claim("capped-0.5", "shuffled"),
            Claim("capped-0.3", "shuffled"),
            Claim("capped-0.3", "dropconnect-0.5"),
            Claim("capped-0.3", "dropconnect-0.8"),
            Claim("ce-sem", "ce-validation"),
            Claim("jal-sem", "jal"),
        ),
        extras=(
            ("head/retention", "edges kept"),
            ("memorised", "wrong labels memorised"),
            ("fitted", "right labels fitted"),
        ),
        picture=Picture(kind="tradeoff"),
        notes=(
            "The paper has no such table; its numbers are those of Table 1, at full scale.",
            "Claims are questions here: only where the paper has both numbers does it make one.",
            "Noisy validation: a tenth of all 50,000 images, whatever the preset trains on.",
            "'matched' drops as many edges as SEM's run of the same seed did at its end.",
        ),
    )


def _rows() -> Iterator[Row]:
    yield system("ce", "CE", "linear")
    yield sem("ce-sem", "CE-SEM", "SEM")
    for rho in (0.3, 0.5, 0.8):
        yield sem(f"capped-{rho}", f"capped, rho {rho}", "capped", policy="capped", rho=rho)
    yield sem("bernoulli-only", "Bernoulli only (w/o rho)", "SEM variant", policy="bernoulli_only")
    yield sem("hard", "hard masking (w/o Bernoulli)", "SEM variant", policy="hard")
    yield sem("shuffled", "shuffled scores", "chance", policy="shuffled")
    for head, title in (("dropconnect", "DropConnect"), ("dropout", "Dropout")):
        for rate in (0.5, 0.8):
            options = {"p": rate}
            yield system(
                f"{head}-{rate}", f"{title} {rate}", title, head=head, head_options=options
            )
        yield system(
            f"{head}-matched",
            f"{title}, matched",
            title,
            head=head,
            head_options={"p": AtRetentionOf("ce-sem")},
        )
    yield sem("sem-inverted", "SEM, inverted scaling", "SEM variant", scaling="inverted(10)")
    yield sem("sem-weight", "SEM, criterion |w|", "SEM variant", criterion="weight")
    yield sem("sem-input", "SEM, criterion input", "SEM variant", criterion="input")
    held = system("ce-validation", "CE, epoch by noisy validation", "linear")
    assert held.system is not None
    settings = {"data": {"validation": 0.1}}
    yield dataclasses.replace(
        held,
        system=dataclasses.replace(held.system, settings=settings),
        statistic="at_validation",
    )
    yield system("cdr", "CE-CDR", "CDR", method="cdr")
    yield system("jal", "JAL", "JAL", loss="jal")
    yield sem("jal-sem", "JAL-SEM", "JAL", loss="jal")
