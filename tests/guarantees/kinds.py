"""One small run of each kind of loop."""

from __future__ import annotations

from typing import Any

from edgemask.engine.default import DEFAULT_TRAINING

__all__ = ["SETTINGS", "kinds"]

# 157 samples in steps of 30, the last of 7, which two processes cannot share evenly: 54 steps.
SETTINGS: dict[str, Any] = {
    "data": {"spec": "digits", "limit": 157, "test_limit": 60},
    "noise": {"spec": "sym:0.3"},
    "model": {"name": "double-net"},
    "head": {"name": "linear"},
    "optim": {"lr": 0.1, "schedule": {"name": "constant"}},
    "train": {"epochs": 9, "batch_size": 30, "record_every": 0},
    "log": {"trackers": [], "thumbnails": 0},
}


def kinds(clip: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the changes of SETTINGS for each kind of loop, by name.

    Samples are not mixed (alpha 0): partners come from each process's own share of a batch.

    Args:
        clip: Options that name files of features for CLIPCleaner.
    """
    methods: dict[str, dict[str, Any]] = {
        "supervised": {},
        "cdr": {},
        "elr": {},
        "sop": {},
        "co-teaching": {"gradual": 3},
        "jocor": {"gradual": 3},
        "ca2c": {"warmup": 4},
        "jo-src": {"warmup": 4},
        "jo-snc": {"warmup": 4},
        "elr-plus": {"mixup": 0.0},
        "dividemix": {"warmup": 4, "alpha": 0.0},
        "unicon": {"warmup": 4, "alpha": 0.0},
        "ssr": {"alpha": 0.0},
        "neighborhood-collective-estimation": {
            "warmup": 4,
            "alpha": 0.0,
            "correct_above": 0.1,
            "strong_labelled": True,
        },
        "promix": {"warmup": 4, "alpha": 0.0, "fmix": False},
        "disc": {"warmup": 4, "alpha": 0.0},
        "clipcleaner": {"alpha": 0.0, **clip},
    }
    found = {name: {"method": {"name": name, "options": more}} for name, more in methods.items()}
    found["elr"]["loss"] = {"name": "elr"}
    found["default"] = {"loss": DEFAULT_TRAINING["loss"]}
    found["sop"]["loss"] = {"name": "sop"}
    found["sam"] = {"method": {"options": {"sam": 0.05, "label_smoothing": 0.1}}}
    found["anl-ce-er"] = {"loss": {"name": "anl-ce-er"}}
    found["forward correction"] = {"loss": {"name": "forward-correction"}}
    found["sem"] = {"head": {"name": "sem"}}
    found["clip and l1"] = {"optim": {"clip": 1.0, "l1": 1e-4, "weight_decay": 1e-3}}
    return found
