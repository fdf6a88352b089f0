"""What names a run: the settings and contents that the trained model depends on."""

from __future__ import annotations

import functools
import hashlib
import json
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgemask.engine.config import Config
from edgemask.engine.fingerprint import (
    UnidentifiedError,
    file_fingerprint,
    fingerprint,
    folder_fingerprint,
)
from edgemask.engine.resolve import is_object
from edgemask.engine.run_data import Objects, given_corrections, load_data
from edgemask.errors import EdgeMaskWarning

__all__ = ["UNKNOWN", "config_hash", "identity", "with_contents"]

UNKNOWN = "unknown-"
"""What the fingerprint of something starts with that cannot be identified."""

# Where the data lies, how it is read, what is shown: none of it changes the trained model.
_NOT_IDENTITY = (
    ("name",),
    ("eval",),
    ("log",),
    ("data", "root"),
    ("data", "corrections"),  # by its decisions, in the contents
    ("data", "workers"),
    ("data", "test_limit"),
    ("head", "options", "inference"),
    ("train", "threads"),
)


def identity(config: Config) -> dict[str, Any]:
    """Return the part of the config that the trained model depends on.

    Where an epoch is chosen, the epochs that are tested are part of it.
    """
    values = config.model_dump()
    for *parents, last in _NOT_IDENTITY:
        node: Any = values
        for key in parents:
            node = node[key]
        node.pop(last, None)
    if config.train.select == "last":
        for key in ("select", "rollback"):
            values["train"].pop(key)
    else:
        values["eval"] = {"every": config.eval.every}
    return values


def config_hash(config: Config) -> str:
    """Return ten hexadecimal digits that name what the config trains.

    Evaluation, logging and places of files play no part in it; contents do.
    """
    text = json.dumps(identity(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def with_contents(config: Config, objects: Objects) -> Config:
    """Return the config with the fingerprints of all files and objects that go into the run.

    What cannot be identified, such as a lambda, gets a fingerprint of its own each time, so that
    no earlier run is taken for this one.
    """
    contents: dict[str, str] = {}
    for name, function in _sources(config, objects).items():
        try:
            contents[name] = function()
        except UnidentifiedError as error:
            contents[name] = UNKNOWN + uuid.uuid4().hex[:12]
            warnings.warn(
                f"{name}: whether it is the same as in an earlier run cannot be known ({error}); "
                "this run is a new one",
                EdgeMaskWarning,
                stacklevel=2,
            )
    return config.model_copy(update={"contents": contents})


def _sources(config: Config, objects: Objects) -> dict[str, Callable[[], str]]:
    """Return how to identify each thing that a name in the config does not identify."""
    from edgemask.heads import HEADS
    from edgemask.losses import LOSSES
    from edgemask.methods import METHODS
    from edgemask.models import MODELS

    found: dict[str, Callable[[], str]] = {}
    parts = (
        ("model", config.model.name, objects.model, MODELS),
        ("head", config.head.name, objects.head, HEADS),
        ("loss", config.loss.name, objects.criterion, LOSSES),
        ("method", config.method.name, objects.method, METHODS),
    )
    for part, name, thing, registry in parts:
        if is_object(name):
            found[part] = functools.partial(fingerprint, thing)
        elif name is not None and ":" in name and name in registry:  # registered from outside
            found[part] = functools.partial(fingerprint, registry[name])
    if isinstance(config.model.pretrained, str):
        found["weights"] = lambda: _path_fingerprint(Path(str(config.model.pretrained)))
    if is_object(config.data.spec):
        found["data"] = lambda: fingerprint(objects.bundle)
    elif ":" in config.data.spec:
        kind, _, path = config.data.spec.partition(":")
        found["data"] = lambda: _path_fingerprint(Path(path).expanduser())
        if kind == "csv":  # the file only lists the images
            found["images"] = lambda: fingerprint(objects.bundle or load_data(config.data))
    if config.data.corrections is not None:
        found["corrections"] = lambda: given_corrections(config, objects).fingerprint
    labels = objects.labels
    if labels is not None:
        found["labels"] = lambda: labels.fingerprint
    elif config.noise.spec.startswith("file:"):
        path = config.noise.spec.partition(":")[2].partition("#")[0]
        found["labels"] = lambda: _path_fingerprint(Path(path).expanduser())
    return found


def _path_fingerprint(path: Path) -> str:
    if path.is_dir():
        return folder_fingerprint(path)
    return file_fingerprint(path) if path.is_file() else ""
