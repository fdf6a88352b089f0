"""What names a run: the part of its config that the model in the end depends on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from edgemask.engine.config import Config, to_dict

__all__ = ["config_hash", "identity"]

# Where the data lies, how it is read, what is shown: none of it changes the trained model.
_NOT_IDENTITY = (
    ("name",),
    ("eval",),
    ("log",),
    ("data", "root"),
    ("data", "workers"),
    ("data", "test_limit"),
    ("head", "options", "inference"),
    ("train", "threads"),
)
_CHOICE = ("select", "rollback")


def identity(config: Config) -> dict[str, Any]:
    """Return the part of the config that the model in the end depends on.

    Where an epoch is chosen, the epochs that are tested are part of it. Where none is, the choice
    is left out altogether, so that such runs are called what they were before there was one.
    """
    values = to_dict(config)
    for *parents, last in _NOT_IDENTITY:
        node: Any = values
        for key in parents:
            node = node[key]
        node.pop(last, None)
    if config.train.select == "last":
        for key in _CHOICE:
            values["train"].pop(key)
    else:
        values["eval"] = {"every": config.eval.every}
    return values


def config_hash(config: Config) -> str:
    """Return ten hexadecimal digits that name what the config trains.

    Evaluation, logging and places of files play no part in it.
    """
    text = json.dumps(identity(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]
