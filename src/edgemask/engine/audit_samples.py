"""What an audit is about: all samples of a dataset, and the settings of its networks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask._files import atomic_write
from edgemask.data import DataBundle, from_arrays
from edgemask.data.columns import is_frame
from edgemask.data.readers.csvfile import picture_column, read_table
from edgemask.engine.batch_size import batch_size_for
from edgemask.engine.compose import compose
from edgemask.engine.config import Config, merge, to_dict
from edgemask.engine.fit import column_keywords, own_bundle
from edgemask.engine.run_data import ALL, Objects, build_run_data, everything, load_data
from edgemask.errors import UserError

__all__ = [
    "AuditColumns",
    "AuditSamples",
    "NetworkSettings",
    "for_audit",
    "group_values",
    "stored_arrays",
]


@dataclass(frozen=True)
class NetworkSettings:
    """The settings of networks, as :func:`edgemask.fit` takes them."""

    keywords: Mapping[str, Any]
    recipe: str | None
    file: str | Path | None
    settings: Mapping[str, Any] | None
    sets: Iterable[str] | Mapping[str, Any]
    fast: bool

    @property
    def say_how_long(self) -> bool:
        """Whether the user chose how long to train; where the data are says nothing of it."""
        named = any(self.keywords[key] is not None for key in ("epochs", "batch_size", "lr"))
        others = set(self.settings or {}) - {"data"}
        return bool(named or self.recipe or self.file or others or list(self.sets))


@dataclass(frozen=True)
class AuditColumns:
    """Which columns of a table, or arrays, hold what."""

    labels: Any
    id: Any
    text: Any
    groups: Any
    class_names: Sequence[str] | None

    def without_groups(
        self, data: Any, settings: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        """Return settings by which a column of groups is no feature."""
        if not isinstance(self.groups, str) or self.text is not None:
            return settings
        table = _table(data)
        if table is None or picture_column(table) is not None:
            return settings
        return merge({"data": {"options": {"ignore": [self.groups]}}}, settings or {})


@dataclass(frozen=True, kw_only=True)
class AuditSamples:
    """All samples of a dataset, and the settings of the networks that learn from them."""

    config: Config
    objects: Objects
    bundle: DataBundle
    """The data with all samples in ``train``."""
    given: NDArray[np.int64]
    """Labels to learn from: as given, with corrections."""
    usable: NDArray[np.bool_]
    """Samples to learn from: all that were not dropped."""
    ids: list[str]
    spec: str = field(default="")
    """The data by name; empty where they are an object."""

    @property
    def has_objects(self) -> bool:
        """Whether something of the runs was given as an object instead of by name."""
        objects = self.objects
        things = (objects.model, objects.head, objects.criterion, objects.method)
        return not self.spec or any(thing is not None for thing in things)

    @classmethod
    def read(
        cls,
        data: Any,
        columns: AuditColumns,
        corrections: Path | None,
        layers: NetworkSettings,
    ) -> AuditSamples:
        bundle, named = None, {}
        if not isinstance(data, str):
            bundle = _own_bundle(data, columns, layers.keywords["model"])
        else:
            if columns.class_names is not None:
                raise UserError(f"the dataset {data!r} has its own class names")
            named = column_keywords(data, columns.labels, columns.id, columns.text)
        keywords = layers.keywords
        parts = {key: keywords[key] for key in ("model", "head", "loss", "method")}
        objects = Objects(
            bundle=bundle,
            **{
                {"loss": "criterion"}.get(key, key): value
                for key, value in parts.items()
                if not isinstance(value, str)
            },
        )
        given = {**keywords, **named}
        given["data"] = data if bundle is None else f"object:{bundle.name}"
        if corrections is not None:
            given["corrections"] = str(corrections)
        found, objects = compose(
            layers.recipe,
            layers.file,
            given,
            layers.sets,
            settings=columns.without_groups(data, layers.settings),
            objects=objects,
            default=False,
        )
        for key in ("limit", "validation", "fold"):
            if getattr(found.data, key):
                raise UserError(f"data.{key} is not for an audit, which judges every sample")
        found = for_audit(found, fold=ALL)
        run_data = build_run_data(found, objects)
        if not layers.say_how_long:
            found = _sized(found, len(run_data.train), fast=layers.fast)
        whole = everything(objects.bundle or load_data(found.data))
        corrected = run_data.corrections
        names = whole.train.names
        usable = np.ones(len(whole.train), dtype=bool) if corrected is None else corrected.kept
        noisy = run_data.noise.noisy if corrected is None else corrected.labels
        return cls(
            config=found,
            objects=objects,
            bundle=whole,
            given=noisy,
            usable=usable,
            ids=[str(name) for name in names or range(len(whole.train))],
            spec=data if isinstance(data, str) else "",
        )


def stored_arrays(data: Any, columns: AuditColumns, folder: Path) -> tuple[Any, AuditColumns]:
    """Write arrays to a file that worker processes can read; other data stay as they are.

    Args:
        data: The samples.
        columns: Their labels.
        folder: Where to write the file.

    Returns:
        ``npz:FILE``, and columns that go with it.
    """
    if not _is_array(data, columns) or columns.id is not None:
        return data, columns
    arrays = {"x": _numbers(data), "y": np.asarray(_numbers(columns.labels))}
    if columns.class_names is not None:
        arrays["class_names"] = np.array([str(name) for name in columns.class_names])
    if any(array.dtype.kind not in "biufU" for array in arrays.values()):
        return data, columns
    path = (folder / "arrays.npz").resolve()
    atomic_write(path, lambda file: np.savez(file, **arrays))
    return f"npz:{path}", replace(columns, labels=None, class_names=None)


def _is_array(data: Any, columns: AuditColumns) -> bool:
    arrays = isinstance(data, np.ndarray | torch.Tensor) and data.ndim > 1
    return arrays and columns.labels is not None


def _numbers(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else values


def _own_bundle(data: Any, columns: AuditColumns, model: Any) -> DataBundle:
    """Return data of one's own."""
    labels, names = columns.labels, columns.class_names
    if _is_array(data, columns):
        if columns.id is None:  # as they are read from a file
            return from_arrays(data, labels, class_names=names)
        # Without a test set, so that their order stays.
        made = from_arrays(
            data, labels, x_test=data[:1], y_test=labels[:1], class_names=names, id=columns.id
        )
        return replace(made, tests={})
    return own_bundle(data, labels, None, names, columns.id, columns.text, model)


def group_values(data: Any, groups: Any, samples: AuditSamples) -> Any:
    """Return the group of each sample, from a column of the table where its name is given."""
    if not isinstance(groups, str):
        return groups
    if is_frame(data):
        return np.asarray(data[groups])[[int(name) for name in samples.ids]]
    table = _table(data)
    if table is None:
        raise UserError(
            f"groups={groups!r} names a column, which csv:FILE and parquet:FILE have, not {data!r}"
        )
    named = samples.config.data.options.get("id")
    keys = [table[str(named)]] if named else [table.rows, *table.values.values()]
    for key in keys:
        places = {str(name): place for place, name in enumerate(key)}
        if all(name in places for name in samples.ids):
            return table[groups][[places[name] for name in samples.ids]]
    raise UserError(f"groups={groups!r}: the samples do not match rows of {data!r}; give id=")


def _table(data: Any) -> Any:
    """Return the table behind ``csv:FILE`` or ``parquet:FILE``, None for other data."""
    kind, _, path = data.partition(":") if isinstance(data, str) else ("", "", "")
    return read_table(Path(path).expanduser()) if kind in ("csv", "parquet") else None


def for_audit(config: Config, *, fold: str) -> Config:
    """Return the config of a run for an audit: nothing is measured that it does not need."""
    values = to_dict(config)
    values["data"] |= {"fold": fold}
    values["eval"]["every"] = 1_000_000
    values["log"] |= {"trackers": [], "thumbnails": 0, "record": []}
    if fold != ALL:
        values["train"]["record_every"] = 0
    return Config.model_validate(values)


def _sized(config: Config, samples: int, *, fast: bool) -> Config:
    """Choose batch size and epochs by the number of samples.

    Fewer epochs for training dynamics: where samples are few, their labels are soon memorised.
    """
    size = batch_size_for(samples)
    steps = math.ceil(samples / size)
    epochs = min(100, max(20, math.ceil(1_000 / steps)))
    if fast:
        epochs = 10 if samples < 1_000 else 20
    values = to_dict(config)
    values["train"] |= {"batch_size": size, "epochs": epochs}
    return Config.model_validate(values)
