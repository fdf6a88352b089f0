"""The candidates of the suite: what a person could be given who says nothing.

A candidate is a set of arguments of :func:`edgemask.fit`. None is set by problem, but a head may be
a function of the number of classes. Those with ``validation`` hold out a fifth of the noisy data
and keep the epoch that is best on it.
"""

from __future__ import annotations

from typing import Any

BASELINE = "ce"
CHOSEN = "elr aligned lam-5 full-at-0.1"
CHOSEN_EPOCH = {"validation": 0.2, "select": "validation"}

_HEADS: dict[str, str] = {
    "sem": "sem",
    "capped-0.3": "sem(policy=capped(0.3))",
    "capped-0.1": "sem(policy=capped(0.1))",
    "capped-0.3-scaled": "sem(policy=capped(0.3), scaling=inverted)",
    "dropconnect-0.3": "dropconnect(p=0.7, scaling=none)",
    "dropconnect-0.3-scaled": "dropconnect(p=0.7)",
    "dropconnect-0.2-scaled": "dropconnect(p=0.8)",
    "dropconnect-0.1-scaled": "dropconnect(p=0.9)",
    "dropout-0.5": "dropout(p=0.5)",
    "scale-0.3": "scaled(scale=0.3)",
    "scale-0.1": "scaled(scale=0.1)",
    "adaptive": "adaptive",
}
_ELR = "elr(beta=0.7, lam=3.0)"  # on all problems; published for CIFAR-10
_ALIGNED = "elr(beta=0.7, lam=3.0, align=5.0)"
_LARGER = ((0.7, 5), (0.7, 7), (0.9, 7))  # (beta, lam)


def sem_by_classes(classes: int) -> str:
    """Return SEM with a threshold that falls with the number of classes, from ten on."""
    return f"sem(rho={min(0.5, 5 / classes):g})"


_LOSSES = ("gce", "sce", "label-smoothing", "mae")

CANDIDATES: dict[str, dict[str, Any]] = {
    BASELINE: {"loss": "ce"},
    "ce, chosen epoch": {"loss": "ce", **CHOSEN_EPOCH},
    **{f"ce {name}": {"head": head} for name, head in _HEADS.items()},
    **{
        f"ce {name}, chosen epoch": {"head": _HEADS[name], **CHOSEN_EPOCH}
        for name in ("capped-0.3", "dropconnect-0.3-scaled", "scale-0.1")
    },
    **{loss: {"loss": loss} for loss in _LOSSES},
    **{
        f"gce {name}": {"loss": "gce", "head": _HEADS[name]}
        for name in ("capped-0.3", "dropconnect-0.3-scaled", "scale-0.3", "adaptive")
    },
    "elr": {"loss": _ELR},
    **{
        f"elr beta-{beta} lam-{lam}": {"loss": f"elr(beta={beta}, lam={lam})"}
        for beta, lam in ((0.7, 7), (0.9, 3), (0.9, 7), (0.95, 3))
    },
    "elr aligned": {"loss": _ALIGNED},
    "elr aligned sem-by-classes": {"loss": _ALIGNED, "head": sem_by_classes},
    **{
        f"elr aligned beta-{beta} lam-{lam}": {"loss": f"elr(beta={beta}, lam={lam}, align=5.0)"}
        for beta, lam in _LARGER
    },
    **{
        f"elr aligned lam-{lam:g} full-at-0.1": {
            "loss": f"elr(beta=0.7, lam={lam}, align=5.0, full_at=0.1)"
        }
        for lam in (5.0, 7.0)
    },
    "elr sem-by-classes": {"loss": _ELR, "head": sem_by_classes},
    "elr sem-0.3": {"loss": _ELR, "head": "sem(rho=0.3)"},
    "elr sem-0.2": {"loss": _ELR, "head": "sem(rho=0.2)"},
    **{
        f"elr {name}": {"loss": _ELR, "head": _HEADS[name]}
        for name in (
            "sem",
            "capped-0.3",
            "dropconnect-0.3-scaled",
            "dropconnect-0.2-scaled",
            "scale-0.3",
            "adaptive",
        )
    },
}

# The problems train tables in batches of 32; with 128 an epoch of them has a handful of steps.
BATCHES: dict[str, dict[str, Any]] = {
    name: {**CANDIDATES[name], "batch_size": 128} for name in (BASELINE, CHOSEN)
}

# Repeated on CIFAR-10 at the scale of the preset `laptop-bf16`.
AT_LAPTOP_SCALE = (BASELINE, "ce, chosen epoch", CHOSEN, "elr", "elr sem-by-classes", "ce adaptive")
