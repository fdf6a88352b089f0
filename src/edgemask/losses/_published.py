"""Published hyper-parameters and training settings, as tables of numbers.

``PARAMETERS[source][loss][dataset]`` holds the arguments of a loss; a dataset may name the kind of
noise (``"cifar10/asymmetric"``) where the source tells them apart. ``TRAINING[source][dataset]``
holds the optimisation settings of the source, and ``PENALTIES[source][family][dataset]`` the L1 and
L2 penalties of the losses that are trained with others than the source's usual ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["FAMILIES", "OWN_SOURCE", "PARAMETERS", "PENALTIES", "SOURCES", "TRAINING"]

Row = Mapping[str, Any]
Table = Mapping[str, Mapping[str, Row]]

# name: (what it is, address, commit)
SOURCES: dict[str, tuple[str, str, str]] = {
    "jal": ("code of JAL", "https://github.com/cswjl/joint-asymmetric-loss", "0f9eb7b773"),
    "anl": ("code of ANL", "https://github.com/Virusdoll/Active-Negative-Loss", "0c50009cf8"),
    "apl": ("code of APL", "https://github.com/HanxunH/Active-Passive-Losses", "04bce53440"),
    "alf": ("code of ALF", "https://github.com/hitcszx/ALFs", "61245e9de0"),
    "elr": ("code of ELR", "https://github.com/shengliu66/ELR", "934af53"),
    "sop": ("code of SOP", "https://github.com/shengliu66/SOP", "4d991ce"),
}

# The repository of a loss's own authors, where it is one of the above.
OWN_SOURCE: dict[str, str] = {
    **dict.fromkeys(("nce", "nfl", "ngce", "nce+rce", "nce+mae", "nfl+rce", "nfl+mae"), "apl"),
    **dict.fromkeys(("agce", "aul", "ael", "nce+agce", "nce+aul", "nce+ael"), "alf"),
    **dict.fromkeys(("nnce", "nnfl", "anl-ce", "anl-fl", "anl-ce-er"), "anl"),
    **dict.fromkeys(("amse", "jal-ce", "jal-fl"), "jal"),
    "elr": "elr",
    "sop": "sop",
}


def _weights(*values: float, names: tuple[str, ...] = ("alpha", "beta", "a", "q")) -> Row:
    return dict(zip(names, values, strict=False))


def _shape(*values: float) -> Row:
    return _weights(*values, names=("a", "q"))


def _everywhere(*datasets: str, **params: float) -> dict[str, Row]:
    return dict.fromkeys(datasets, params)


def _each(*losses: str, rows: dict[str, Row]) -> dict[str, dict[str, Row]]:
    return dict.fromkeys(losses, rows)


_CIFAR = ("cifar10", "cifar100")
_FOUR = (*_CIFAR, "webvision", "clothing1m")
_THREE = (*_CIFAR, "webvision")

_JAL: dict[str, dict[str, Row]] = {
    "ce": _everywhere(*_FOUR),
    "focal": _everywhere(*_CIFAR, gamma=0.5),
    "mae": _everywhere(*_CIFAR, scale=2.0),
    "mse": _everywhere(*_CIFAR),
    "rce": _everywhere(*_CIFAR),
    "nce": _everywhere(*_CIFAR),
    "nfl": _everywhere(*_CIFAR, gamma=0.5),
    "gce": {
        **_everywhere(*_CIFAR, q=0.7),
        **_everywhere("webvision", "clothing1m", q=0.6),
    },
    "sce": {
        "cifar10": _weights(0.1, 1.0),
        "cifar100": _weights(6.0, 0.1),
        "webvision": _weights(10.0, 1.0),
        "clothing1m": _weights(10.0, 1.0),
    },
    "nce+rce": {
        "cifar10": _weights(1.0, 1.0),
        "cifar100": _weights(10.0, 0.1),
        "webvision": _weights(50.0, 0.1),
        "clothing1m": _weights(10.0, 1.0),
    },
    "nfl+rce": {"cifar10": _weights(1.0, 1.0), "cifar100": _weights(10.0, 0.1)},
    "nce+mae": {"cifar10": _weights(1.0, 1.0), "cifar100": _weights(10.0, 0.1)},
    "agce": {
        **_everywhere(*_CIFAR, a=0.6, q=0.6),
        **_everywhere("webvision", "clothing1m", a=1e-5, q=0.5),
    },
    "aul": _everywhere(*_CIFAR, a=5.5, q=3.0),
    "ael": _everywhere(*_CIFAR, a=2.5),
    "nce+agce": {
        "cifar10": _weights(1.0, 4.0, 6.0, 1.5),
        "cifar100": _weights(10.0, 0.1, 1.8, 3.0),
        "webvision": _weights(50.0, 0.1, 2.5, 3.0),
        "clothing1m": _weights(50.0, 0.1, 2.5, 3.0),
    },
    "nce+aul": {
        "cifar10": _weights(1.0, 4.0, 6.3, 1.5),
        "cifar100": _weights(10.0, 0.015, 6.0, 3.0),
    },
    "nce+ael": {
        "cifar10": _weights(1.0, 4.0, 5.0),
        "cifar100": _weights(10.0, 0.1, 1.5),
    },
    "nnce": {"cifar10": {"scale": 5.0}},
    **_each(
        "anl-ce",
        "anl-fl",
        rows={
            "cifar10": _weights(5.0, 5.0),
            "cifar100": _weights(10.0, 1.0),
            "webvision": _weights(20.0, 1.0),
            "clothing1m": _weights(5.0, 0.1),
        },
    ),
    **_each(
        "jal-ce",
        "jal-fl",
        rows={
            "cifar10": _weights(1.0, 1.0, 30.0),
            "cifar100": _weights(5.0, 1.0, 20.0),
            "webvision": _weights(50.0, 1.0, 30.0),
            "clothing1m": _weights(5.0, 0.1, 5.0),
        },
    ),
    "ldr": {
        "cifar10": {"margin": 0.1, "temperature": 10.0},
        **_everywhere("cifar100", "webvision", "clothing1m", margin=0.1, temperature=1.0),
    },
    "ce+lc": {"cifar10": {"delta": 2.5}, "cifar100": {"delta": 0.5}},
}

_ANL_SHARED = ("ce", "focal", "sce", "nce+rce", "nfl+rce", "nce+mae", "nce+agce", "nce+aul")
_ANL: dict[str, dict[str, Row]] = {
    **{
        loss: {name: row for name, row in _JAL[loss].items() if name != "clothing1m"}
        for loss in (*_ANL_SHARED, "nce+ael")
    },
    "mae": _everywhere(*_CIFAR, scale=1.0),
    "gce": _everywhere(*_THREE, q=0.7),
    "anl-ce": {
        "cifar10": _weights(5.0, 5.0),
        "cifar100": _weights(10.0, 1.0),
        "webvision": _weights(20.0, 1.0),
        "mnist": _weights(1.0, 1.0),
    },
    "anl-fl": {
        "cifar10": _weights(5.0, 5.0),
        "cifar100": _weights(10.0, 1.0),
        "mnist": _weights(1.0, 1.0),
    },
    "anl-ce-er": {
        "cifar10": {**_weights(5.0, 5.0), "entropy": 2.0},
        "cifar100": {**_weights(10.0, 1.0), "entropy": 0.01},
    },
}

_APL: dict[str, dict[str, Row]] = {
    "ce": _everywhere(*_THREE, "mnist"),
    "mae": _everywhere(*_CIFAR, scale=1.0),
    "nce": _everywhere(*_CIFAR),
    "nfl": {
        "cifar10": {"gamma": 0.5, "scale": 10.0},
        "cifar10/asymmetric": {"gamma": 0.5, "scale": 1.0},
        "cifar100": {"gamma": 0.5, "scale": 1.0},
    },
    "ngce": {"cifar10": {"q": 0.1}, "cifar100": {"q": 0.7}},
    "sce": {
        "cifar10": _weights(0.1, 1.0),
        "cifar100": _weights(6.0, 0.1),
        "webvision": _weights(10.0, 1.0),
        "mnist": _weights(0.01, 1.0),
    },
    **_each(
        "nce+rce",
        "nfl+rce",
        rows={
            "cifar10": _weights(1.0, 1.0),
            "cifar100": _weights(10.0, 0.1),
            "webvision": _weights(50.0, 0.1),
            "mnist": _weights(1.0, 10.0),
        },
    ),
    **_each(
        "nce+mae",
        "nfl+mae",
        rows={
            "cifar10": _weights(1.0, 1.0),
            "cifar100": _weights(10.0, 1.0),
            "webvision": _weights(50.0, 1.0),
        },
    ),
}

_ALF: dict[str, dict[str, Row]] = {
    "ce": _everywhere(*_CIFAR, "mnist"),
    "mae": _everywhere(*_CIFAR, "mnist", scale=2.0),
    "gce": _everywhere(*_CIFAR, q=0.7),
    "sce": _everywhere(*_CIFAR, "mnist", alpha=1.0, beta=1.0),
    **_each(
        "nce+rce",
        "nce+mae",
        "nfl+rce",
        rows={"cifar10": _weights(1.0, 1.0), "cifar100": _weights(10.0, 1.0)},
    ),
    "agce": {**_everywhere(*_CIFAR, a=0.6, q=0.6), "mnist": _shape(4.0, 0.2)},
    "aul": {**_everywhere(*_CIFAR, a=5.5, q=3.0), "mnist": _shape(3.0, 0.1)},
    "ael": {**_everywhere(*_CIFAR, a=2.5), "mnist": _shape(3.5)},
    **{
        loss: {name: row for name, row in _JAL[loss].items() if name in _CIFAR}
        for loss in ("nce+agce", "nce+aul", "nce+ael")
    },
}

PARAMETERS: dict[str, Table] = {
    "jal": _JAL,
    "anl": _ANL,
    "apl": _APL,
    "alf": _ALF,
    "elr": {
        "elr": {
            "cifar10": {"beta": 0.7, "lam": 3.0},
            "cifar10/asymmetric": {"beta": 0.9, "lam": 1.0},
            "cifar100": {"beta": 0.9, "lam": 7.0},
        }
    },
    "sop": {
        "sop": {
            "cifar100": {"lr_u": 1.0, "lr_v": 10.0},
            "cifar100/asymmetric": {"lr_u": 0.1, "lr_v": 100.0},
        }
    },
}

_SGD: Row = {"optimiser": "sgd", "momentum": 0.9, "nesterov": False, "batch_size": 128}
_COSINE: Row = {**_SGD, "schedule": "cosine", "min_lr": 0.0, "grad_clip": 5.0}
_COMMON: dict[str, Row] = {
    "cifar10": {**_COSINE, "epochs": 120, "lr": 0.01, "weight_decay": 1e-4},
    "cifar100": {**_COSINE, "epochs": 200, "lr": 0.1, "weight_decay": 1e-5},
}
_WEBVISION: Row = {
    **_SGD,
    "nesterov": True,
    "batch_size": 512,
    "epochs": 250,
    "lr": 0.4,
    "weight_decay": 3e-5,
    "schedule": "step",
    "step_size": 1,
    "gamma": 0.97,
    "grad_clip": 5.0,
}
_MNIST: Row = {"optimiser": "sgd", "epochs": 50, "lr": 0.01, "weight_decay": 1e-3}
_ELR: Row = {**_SGD, "lr": 0.02, "weight_decay": 1e-3}

TRAINING: dict[str, dict[str, Row]] = {
    "jal": {
        **_COMMON,
        "webvision": {**_WEBVISION, "batch_size": 256},
        "clothing1m": {
            **_SGD,
            "batch_size": 256,
            "epochs": 10,
            "lr": 5e-3,
            "weight_decay": 1e-3,
            "schedule": "step",
            "step_size": 5,
            "gamma": 0.1,
        },
    },
    "anl": {**_COMMON, "webvision": _WEBVISION, "mnist": _MNIST},
    "apl": {**_COMMON, "webvision": _WEBVISION, "mnist": {**_MNIST, "weight_decay": 1e-2}},
    "alf": {**_COMMON, "mnist": _MNIST},
    "elr": {
        "cifar10": {
            **_ELR,
            "epochs": 150,
            "schedule": "cosine-restarts",
            "step_size": 10,
            "min_lr": 1e-3,
        },
        "cifar10/asymmetric": {
            **_ELR,
            "epochs": 120,
            "schedule": "milestones",
            "milestones": (40, 80),
            "gamma": 0.01,
        },
        "cifar100": {
            **_ELR,
            "epochs": 150,
            "schedule": "milestones",
            "milestones": (80, 120),
            "gamma": 0.01,
        },
    },
    "sop": {
        "cifar100": {
            **_SGD,
            "lr": 0.02,
            "weight_decay": 1e-3,
            "epochs": 300,
            "schedule": "cosine",
            "min_lr": 2e-4,
        },
    },
}

FAMILIES: dict[str, str] = {
    **dict.fromkeys(("nnce", "nnfl", "anl-ce", "anl-fl", "anl-ce-er"), "negative"),
    **dict.fromkeys(("amse", "jal-ce", "jal-fl"), "joint"),
}


def _l1(strength: float) -> Row:
    return {"l1": strength, "weight_decay": 0.0}


PENALTIES: dict[str, dict[str, dict[str, Row]]] = {
    "jal": {
        "negative": {"cifar10": _l1(5e-5), "cifar100": _l1(5e-7)},
        "joint": {"cifar10": _l1(5e-5), "cifar100": _l1(5e-6)},
    },
    "anl": {
        "negative": {
            "cifar10": _l1(5e-5),
            "cifar100": _l1(5e-7),
            "webvision": _l1(5e-6),
            "mnist": _l1(1e-6),
        },
    },
}
