"""The audit of a dataset's labels: every sample judged by models that have not seen it."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgemask._files import atomic_write, write_arrays
from edgemask.audit import (
    LabelAudit,
    TrainingDynamics,
    from_features,
    from_probabilities,
    read_corrections,
)
from edgemask.audit.dynamics import seen_verdict
from edgemask.data import DataBundle, Split, from_arrays
from edgemask.data.columns import is_frame
from edgemask.data.readers.csvfile import picture_column, read_table
from edgemask.engine.audit_items import write_items
from edgemask.engine.compose import compose
from edgemask.engine.config import Config, merge, to_dict
from edgemask.engine.estimate import estimate
from edgemask.engine.fit import column_keywords, own_bundle
from edgemask.engine.identity import config_hash, with_contents
from edgemask.engine.inference import over_samples
from edgemask.engine.jobs import JobRunner, RunJob
from edgemask.engine.processes import Processes
from edgemask.engine.run import Run
from edgemask.engine.run_data import ALL, Objects, SubSplit, build_run_data, everything, load_data
from edgemask.engine.shallow_models import default_models, out_of_bag, out_of_fold, sample_features
from edgemask.engine.train import train
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.runs import is_finished, read_arrays

__all__ = ["audit_labels"]

Ints = NDArray[np.int64]
Message = Callable[[str], None]

_KEPT_NUMBERS = 50_000_000


def audit_labels(
    data: Any = None,
    labels: Any = None,
    *,
    id: Any = None,  # noqa: A002 - as the command calls it
    text: str | Sequence[str] | None = None,
    folds: int = 5,
    fast: bool = False,
    run: Run | str | Path | None = None,
    probabilities: Any = None,
    features: Any = None,
    groups: Any = None,
    corrections: Any = None,
    chance_driven: bool = False,
    class_names: Sequence[str] | None = None,
    model: str | nn.Module | Callable[[], nn.Module] | None = None,
    head: str | None = None,
    loss: str | None = None,
    method: str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),  # noqa: A002 - as the command calls it
    jobs: int = 1,
    imports: Sequence[str] = (),
    seed: int = 0,
    out: str | Path | None = None,
    device: str = "auto",
    message: Message | None = None,
) -> LabelAudit:
    """Say which labels of a dataset are worth checking, and what is known of how many are wrong.

    Every sample is judged, test samples included, by models that were not trained on it: the
    network of :func:`edgemask.fit`, trained once per fold, and cheap models of other kinds on the
    same folds, whose probabilities are averaged. Each fold is a run like any other; with ``out``,
    the same call after an interruption goes on where it stopped.

    Args:
        data: As for :func:`edgemask.fit`; may be left out with ``probabilities`` or ``features``.
        labels: The labels, or the name of their column, where ``data`` does not tell.
        id: The column that names rows, or the names, as for :func:`edgemask.fit`.
        text: The columns of a table that hold text, as for :func:`edgemask.fit`.
        folds: Number of parts; each is judged by models trained on the others.
        fast: Whether to train one network on everything and judge by its training dynamics
            instead: cheaper, and nothing is said of the share of wrong labels.
        run: A finished run, or its folder, whose model judges the samples instead.
        probabilities: Probabilities from anywhere instead: a matrix ``(samples, classes)``, a list
            of them, or a file (.npy, .npz, .csv), in the order of the samples.
        features: Features from anywhere instead, to compare each label with those of the
            neighbours: a matrix ``(samples, numbers)`` or a file.
        groups: One value per sample, or the column of a table; samples of one group (a patient, a
            video) are kept in one fold.
        corrections: What a person decided about labels before; not asked again.
        chance_driven: Whether outcomes depend on chance (forecasts, prognoses); nothing is then
            said of the least share of wrong labels.
        class_names: Names of the classes, where ``data`` has none.
        model: The network, as for :func:`edgemask.fit`; so are ``head``, ``loss``, ``method``,
            ``epochs``, ``batch_size``, ``lr``, ``recipe``, ``config``, ``settings`` and ``set``.
            What is not said is chosen by the number of samples.
        head: See ``model``.
        loss: See ``model``.
        method: See ``model``.
        epochs: See ``model``.
        batch_size: See ``model``.
        lr: See ``model``.
        recipe: See ``model``.
        config: See ``model``.
        settings: See ``model``.
        set: See ``model``.
        jobs: Folds at a time, in processes of their own; for data given by name.
        imports: Modules that each process imports first; they register names of your own.
        seed: Seed of folds and models.
        out: Folder of the audit: its result and the runs of its folds; None keeps nothing.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        message: Gets lines for the user: how long it will take, what is done.

    Example:
        >>> import edgemask as em
        >>> audit = em.audit_labels("digits", out="audits/digits")   # doctest: +SKIP
        >>> print(audit)                                             # doctest: +SKIP
        1797 labels, 1 of them are worth checking.
        At most 1.6 % of the labels look wrong.
        Those on the list may all be right.
    """
    chosen = _source(fast=fast, run=run, probabilities=probabilities, features=features)
    if folds < 2:
        raise UserError(f"folds must be at least 2, got {folds}")
    decisions = None if corrections is None else read_corrections(corrections)
    if data is None and (labels is None or chosen not in ("probabilities", "features")):
        raise UserError("audit_labels needs data; labels alone do with probabilities or features")
    with _folder(out) as folder:
        work = _Work(
            folder=folder,
            device=device,
            jobs=jobs,
            imports=tuple(imports),
            say=message or (lambda _: None),
        )
        if data is None:
            given = probabilities if features is None else features
            result = _from_arrays(chosen, given, labels, class_names, chance_driven)
        else:
            keywords = {
                "model": model, "head": head, "loss": loss, "method": method, "epochs": epochs,
                "batch_size": batch_size, "lr": lr, "seed": seed,
            }  # fmt: skip
            layers = _Layers(keywords, recipe, config, settings, set, fast)
            columns = _Columns(labels, id, text, groups, class_names)
            stored = None
            if decisions is not None:  # as a file, which processes of their own can read
                stored = (folder / "corrections.csv").resolve()
                decisions.save(stored)
            samples = _Samples.read(data, columns, stored, layers)
            if chosen == "folds":
                together = group_values(data, groups, samples)
                result = _from_folds(samples, work, folds, together, seed, chance_driven)
            elif chosen == "fast":
                result = _from_dynamics(samples, work, seed)
            elif run is not None:
                result = _from_run(samples, run, chance_driven, device)
            else:
                given = probabilities if features is None else features
                names = samples.bundle.class_names
                result = _from_arrays(
                    chosen, given, samples.given, names, chance_driven, samples.ids
                )
            result = replace(result, data=samples.spec)
        if decisions is not None:
            result = result.after_review(decisions)
        if out is not None:
            result.save(folder)
            if data is not None:
                write_items(folder, result, samples.bundle)
    return result


def _source(**sources: Any) -> str:
    """Return the one way to judge labels that was chosen."""
    chosen = [name for name, value in sources.items() if value is not None and value is not False]
    if len(chosen) > 1:
        raise UserError(f"{chosen[0]} and {chosen[1]} are two ways to judge labels; choose one")
    return chosen[0] if chosen else "folds"


@contextlib.contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        path = Path(out)
        path.mkdir(parents=True, exist_ok=True)
        yield path
    else:
        with tempfile.TemporaryDirectory(prefix="edgemask-audit-") as name:
            yield Path(name)


@dataclass(frozen=True, kw_only=True)
class _Work:
    """Where and how networks are trained."""

    folder: Path
    device: str
    jobs: int
    imports: tuple[str, ...]
    say: Message


@dataclass(frozen=True)
class _Layers:
    """The settings of networks, as :func:`edgemask.fit` takes them."""

    keywords: Mapping[str, Any]
    recipe: str | None
    file: str | Path | None
    settings: Mapping[str, Any] | None
    sets: Iterable[str] | Mapping[str, Any]
    fast: bool

    @property
    def say_how_long(self) -> bool:
        """Whether the user chose how long to train."""
        named = any(self.keywords[key] is not None for key in ("epochs", "batch_size", "lr"))
        return bool(named or self.recipe or self.file or self.settings or list(self.sets))


@dataclass(frozen=True)
class _Columns:
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
class _Samples:
    """All samples of a dataset, and the settings of the networks that learn from them."""

    config: Config
    objects: Objects
    bundle: DataBundle
    """The data with all samples in ``train``."""
    given: Ints
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
        columns: _Columns,
        corrections: Path | None,
        layers: _Layers,
    ) -> _Samples:
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
        )
        for key in ("limit", "validation", "fold"):
            if getattr(found.data, key):
                raise UserError(f"data.{key} is not for an audit, which judges every sample")
        found = _for_audit(found, fold=ALL)
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


def _own_bundle(data: Any, columns: _Columns, model: Any) -> DataBundle:
    """Return data of one's own; arrays without a test set, so that their order stays."""
    labels, names = columns.labels, columns.class_names
    if isinstance(data, np.ndarray | torch.Tensor) and data.ndim > 1 and labels is not None:
        made = from_arrays(
            data, labels, x_test=data[:1], y_test=labels[:1], class_names=names, id=columns.id
        )
        return replace(made, tests={})
    return own_bundle(data, labels, None, names, columns.id, columns.text, model)


def group_values(data: Any, groups: Any, samples: _Samples) -> Any:
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
    raise UserError(f"groups={groups!r}: samples cannot be told by the rows of {data!r}; name id")


def _table(data: Any) -> Any:
    """Return the table behind ``csv:FILE`` or ``parquet:FILE``, None for other data."""
    kind, _, path = data.partition(":") if isinstance(data, str) else ("", "", "")
    return read_table(Path(path).expanduser()) if kind in ("csv", "parquet") else None


def _for_audit(config: Config, *, fold: str) -> Config:
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
    size = 128 if samples >= 10_000 else 64 if samples >= 2_000 else 32
    steps = math.ceil(samples / size)
    epochs = min(100, max(20, math.ceil(1_000 / steps)))
    if fast:
        epochs = 10 if samples < 1_000 else 20
    values = to_dict(config)
    values["train"] |= {"batch_size": size, "epochs": epochs}
    return Config.model_validate(values)


def _from_folds(
    samples: _Samples,
    work: _Work,
    folds: int,
    groups: Any,
    seed: int,
    chance_driven: bool,
) -> LabelAudit:
    numbers = fold_numbers(samples.given, folds, groups=groups, seed=seed)
    path = (work.folder / "folds.npy").resolve()
    atomic_write(path, lambda file: np.save(file, numbers, allow_pickle=False))
    configs = [_for_audit(samples.config, fold=f"{path}#{fold}") for fold in range(folds)]
    rows = sample_features(samples.bundle.train)
    shallow = {} if rows is None else default_models(rows, seed)
    _announce(samples, work, configs, f"{folds} folds")
    runs = _train_all(samples, work, configs)
    kinds, probs = ["network"], [np.zeros((len(numbers), samples.bundle.num_classes), np.float32)]
    for fold, run in enumerate(runs):
        inside = np.flatnonzero(numbers == fold)
        probs[0][inside] = _predict(run, samples.bundle, inside, work.device)
    for kind, make in shallow.items():
        start = time.monotonic()
        found = out_of_fold(
            make, rows, samples.given, numbers, samples.bundle.num_classes, samples.usable
        )
        kinds.append(kind)
        probs.append(found.astype(np.float32))
        work.say(f"{kind}: {folds} folds in {time.monotonic() - start:.0f} s")
    if probs[0].size * len(probs) <= _KEPT_NUMBERS:
        named = dict(zip(kinds, probs, strict=True))
        write_arrays(work.folder / "probabilities.npz", {"ids": np.array(samples.ids), **named})
    return from_probabilities(
        samples.given,
        probs,
        ids=samples.ids,
        class_names=samples.bundle.class_names,
        kinds=kinds,
        chance_driven=chance_driven,
        source="folds",
        seed=seed,
    )


def fold_numbers(given: Ints, folds: int, *, groups: Any = None, seed: int = 0) -> Ints:
    """Return the fold of each sample; classes are spread evenly, groups are kept together."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if len(given) < folds:
        raise UserError(f"{folds} folds need at least {folds} samples, got {len(given)}")
    together = None
    if groups is not None:
        together = np.unique(np.asarray(groups).astype(np.str_), return_inverse=True)[1]
        if len(together) != len(given):
            raise UserError(f"{len(together)} values of groups for {len(given)} samples")
        if together.max() + 1 < folds:
            raise UserError(f"{folds} folds need at least as many groups, got {together.max() + 1}")
    kind = StratifiedKFold if together is None else StratifiedGroupKFold
    splitter = kind(n_splits=folds, shuffle=True, random_state=seed)
    numbers = np.zeros(len(given), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class with fewer samples than folds
        if np.bincount(given).max() < folds:  # scikit-learn refuses: no class fills all folds
            return np.random.default_rng(seed).permutation(len(given)) % folds
        parts = splitter.split(np.zeros(len(given)), given, together)
        for fold, (_, inside) in enumerate(parts):
            numbers[inside] = fold
    return numbers


def _announce(samples: _Samples, work: _Work, configs: Sequence[Config], what: str) -> None:
    """Say what is about to be done and how long it will take, timed on a few steps."""
    folders = _run_folders(samples, work, configs)
    waiting = {
        str(folder): config
        for folder, config in zip(folders, configs, strict=True)
        if not is_finished(folder)
    }
    first = configs[0]
    text = (
        f"{len(samples.given):,} samples, {samples.bundle.num_classes} classes; {what}: "
        f"{first.model.name}, {first.train.epochs} epochs each"
    )
    if not waiting:
        work.say(f"{text}; all trained before")
        return
    seconds = estimate(waiting, samples.objects)
    total = sum(value or 0.0 for value in seconds.values()) / max(1, work.jobs)
    work.say(f"{text}; about {_duration(total)}")


def _run_folders(samples: _Samples, work: _Work, configs: Sequence[Config]) -> list[Path]:
    """Return the folder of each run; other data or settings have others, and are trained anew."""
    found = []
    for config in configs:
        fold = (config.data.fold or "").rpartition("#")[2]
        name = config_hash(with_contents(config, samples.objects))
        found.append(work.folder / "runs" / f"fold-{fold}-{name}")
    return found


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _train_all(samples: _Samples, work: _Work, configs: Sequence[Config]) -> list[Run]:
    """Do the runs, or find them done."""
    if work.jobs > 1 and samples.has_objects:
        raise UserError(
            "jobs needs data and models by name, which worker processes can read: save arrays "
            "with numpy.savez and give 'npz:FILE'"
        )
    folders = _run_folders(samples, work, configs)
    if work.jobs == 1:
        found = []
        for number, (config, folder) in enumerate(zip(configs, folders, strict=True), 1):
            found.append(train(config, out=folder, objects=samples.objects, device=work.device))
            work.say(f"network: {number} of {len(configs)} done")
        return found
    runner = JobRunner(workers=work.jobs, imports=work.imports)
    results = runner.run(
        [RunJob(config, folder) for config, folder in zip(configs, folders, strict=True)],
        lambda result: work.say(f"network: {result.name} {result.state}"),
    )
    for result in results:
        if result.state != "done":
            raise UserError(f"{result.folder}: {result.error}; the same call tries again")
    return [Run(result.folder) for result in results]


def _predict(run: Run, bundle: DataBundle, positions: Ints, device: str) -> NDArray[np.float32]:
    """Return the probabilities that a run's model gives to some samples."""
    processes = Processes(folder=None, device=device)
    model = run.model.to(processes.device)
    split: Split = SubSplit(bundle.train, positions)
    rows = over_samples(
        lambda batch: {"probs": torch.softmax(model(batch.views[0]).float(), dim=1)},
        split,
        bundle=bundle,
        processes=processes,
        nets={"model": model},
        batch_size=run.config.eval.batch_size,
        workers=run.config.data.workers,
    )
    probs: NDArray[np.float32] = rows["probs"].numpy()
    return probs


def _from_dynamics(samples: _Samples, work: _Work, seed: int) -> LabelAudit:
    if not samples.usable.all():
        raise UserError("fast cannot judge samples that corrections drop; audit in folds")
    _announce(samples, work, [samples.config], "one network on everything")
    (run,) = _train_all(samples, work, [samples.config])
    classes, given = samples.bundle.num_classes, samples.given
    dynamics = TrainingDynamics(len(given), classes)
    dynamics.load_state_dict(read_arrays(run.path / "dynamics.npz"))
    rows = sample_features(samples.bundle.train)
    others = []
    if isinstance(rows, np.ndarray):
        others = [out_of_bag(rows, given, classes, seed)]
    elif rows is not None:
        make = default_models(rows, seed)["linear"]
        numbers = fold_numbers(given, 3, seed=seed)
        others = [out_of_fold(make, rows, given, numbers, classes, samples.usable)]
    return dynamics.audit(ids=samples.ids, class_names=samples.bundle.class_names, others=others)


def _from_run(
    samples: _Samples, run: Run | str | Path, chance_driven: bool, device: str
) -> LabelAudit:
    judge = run if isinstance(run, Run) else Run(run)
    from edgemask.engine.deploy import read_weights

    _, about = read_weights(judge.folder / "model.safetensors")
    names = tuple(about["class_names"])
    if names != samples.bundle.class_names:
        raise UserError(
            f"the model of {judge.path} knows the classes {list(names)[:5]}, the data have "
            f"{list(samples.bundle.class_names)[:5]}"
        )
    bundle = replace(
        samples.bundle,
        normalisation=(tuple(about["mean"]), tuple(about["std"])),
        recipe=about["views"],
    )
    probs = _predict(judge, bundle, np.arange(len(samples.given)), device)
    result = from_probabilities(
        samples.given,
        probs,
        ids=samples.ids,
        class_names=names,
        chance_driven=chance_driven,
        source="run",
    )
    if judge.config.data.spec == samples.config.data.spec:
        warnings.warn(
            f"the model of {judge.path} was trained on {samples.config.data.spec!r} itself: labels "
            "that it has learnt do not look wrong to it; audit in folds, or with fast",
            EdgeMaskWarning,
            stacklevel=3,
        )
        result = replace(result, rate=seen_verdict(result.rate.disagreement))
    return result


def _from_arrays(
    kind: str,
    given: Any,
    labels: Any,
    class_names: Sequence[str] | None,
    chance_driven: bool,
    ids: Sequence[str] | None = None,
) -> LabelAudit:
    """Audit by probabilities or features from elsewhere, given as arrays or in a file."""
    columns = class_names if kind == "probabilities" else None
    if isinstance(given, str | Path):
        given = read_matrix(Path(given), ids=ids, columns=columns)
    audit = from_probabilities if kind == "probabilities" else from_features
    return audit(labels, given, ids=ids, class_names=class_names, chance_driven=chance_driven)


def read_matrix(
    path: Path, *, ids: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> Any:
    """Read one or several matrices with a row per sample from a file.

    Args:
        path: An ``.npy`` file; an ``.npz`` file, of which every matrix is taken; or a ``.csv`` file
            with a title over each column. A column ``id`` (an array ``ids``) names the samples,
            whose order is then free.
        ids: The samples, in order.
        columns: The titles expected in a CSV file, in order; None takes all in theirs.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    named: Sequence[str] | None = None
    if path.suffix == ".csv":
        import pandas as pd

        table = pd.read_csv(path)
        if "id" in table:
            named = table.pop("id").astype(str).tolist()
        if columns is not None:
            missing = [name for name in columns if name not in table]
            if missing:
                raise UserError(f"{path}: there is no column {missing[0]!r} for that class")
            table = table[list(columns)]
        matrices = [table.to_numpy(dtype=np.float64)]
    elif path.suffix == ".npz":
        arrays = read_arrays(path)
        named = arrays["ids"].astype(np.str_).tolist() if "ids" in arrays else None
        matrices = [array for array in arrays.values() if array.ndim == 2]
        if not matrices:
            raise UserError(f"{path}: holds no matrix of samples by columns")
    else:
        try:
            array = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be read as an array ({error})") from error
        matrices = list(array) if array.ndim == 3 else [array]
    if named is not None and ids is not None:
        places = {name: place for place, name in enumerate(named)}
        unknown = [name for name in ids if name not in places]
        if unknown:
            raise UserError(f"{path}: there is no row for the sample {unknown[0]!r}")
        order = [places[name] for name in ids]
        matrices = [matrix[order] for matrix in matrices]
    return matrices if len(matrices) > 1 else matrices[0]
