"""What names a run: the settings and contents that the trained model depends on."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import uuid
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from edgemask.data.sources import source_paths
from edgemask.engine.config import Config
from edgemask.engine.fingerprint import UnidentifiedError, fingerprint, path_fingerprint
from edgemask.engine.resolve import is_object, registries
from edgemask.engine.run_data import Objects, given_corrections, load_data
from edgemask.errors import EdgeMaskWarning
from edgemask.noise.build import source_files

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
    ("data", "fold"),  # by the numbers in its file, in the contents
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
    found: dict[str, Callable[[], str]] = {}
    parts = (
        ("model", config.model.name, objects.model),
        ("head", config.head.name, objects.head),
        ("loss", config.loss.name, objects.criterion),
        ("method", config.method.name, objects.method),
    )
    for part, name, thing in parts:
        registry = registries()[part]
        if is_object(name):
            found[part] = functools.partial(fingerprint, thing)
        elif name is not None and ":" in name and name in registry:  # registered from outside
            found[part] = functools.partial(fingerprint, registry[name])
    found |= _files_of_options("loss", config.loss)
    found |= _files_of_options("method", config.method)
    if isinstance(config.model.pretrained, str):
        found["weights"] = lambda: _paths_fingerprint([Path(str(config.model.pretrained))])
    if config.data.spec != "digits":  # which come with a package
        found["data"] = lambda: _data_fingerprint(config, objects)
    if config.data.corrections is not None:
        found["corrections"] = lambda: given_corrections(config, objects).fingerprint
    if config.data.fold is not None:
        path, _, number = config.data.fold.rpartition("#")
        found["fold"] = lambda: f"{path_fingerprint(Path(path)) if path else ''}#{number}"
    labels = objects.labels
    if labels is not None:
        found["labels"] = lambda: labels.fingerprint
    elif not is_object(config.noise.spec):
        root = config.data.root or os.environ.get("EDGEMASK_DATA")
        files = source_files(config.noise.spec, protocol=config.noise.protocol, root=root)
        if files:
            found["labels"] = lambda: _paths_fingerprint(files)
    return found


def _data_fingerprint(config: Config, objects: Objects) -> str:
    """Identify data by the files that it is read from, or else by its samples."""
    spec, root = config.data.spec, config.data.root
    if is_object(spec):
        return fingerprint(objects.bundle)
    paths = source_paths(spec, root=root)
    # The file may list others, whose contents may change while the list does not.
    lists_files = spec.startswith(("csv:", "parquet:"))
    if not paths or lists_files:
        bundle = objects.bundle or load_data(config.data)  # this unpacks an archive
        paths = source_paths(spec, root=root)
        if not paths or lists_files:
            return fingerprint(bundle)
    return _paths_fingerprint(paths)


def _paths_fingerprint(paths: Iterable[Path]) -> str:
    return fingerprint([path_fingerprint(path) for path in paths])


def _files_of_options(part: str, settings: Any) -> dict[str, Callable[[], str]]:
    """Return how to identify each file that an option of a loss or method names."""
    names = getattr(registries()[part].get(settings.name), "files", ())
    files = {name: settings.options.get(name) for name in names}
    return {
        f"{part}.{name}": functools.partial(_option_fingerprint, file)
        for name, file in files.items()
        if isinstance(file, str)
    }


def _option_fingerprint(name: str) -> str:
    path = Path(name).expanduser()
    record = path / "audit.json"  # of the folder of an audit nothing else is read
    path = record if record.is_file() else path
    return path_fingerprint(path) if path.exists() else ""
