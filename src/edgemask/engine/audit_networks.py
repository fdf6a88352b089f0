"""Networks that judge labels in an audit: one per fold, one on everything, or one that exists."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask._files import atomic_write, write_arrays
from edgemask.audit import LabelAudit, TrainingDynamics, from_probabilities
from edgemask.audit.dynamics import seen_verdict
from edgemask.data import DataBundle, Split
from edgemask.engine.audit_samples import AuditSamples, for_audit
from edgemask.engine.config import Config
from edgemask.engine.deploy import read_weights
from edgemask.engine.estimate import estimate
from edgemask.engine.identity import config_hash, with_contents
from edgemask.engine.inference import over_samples
from edgemask.engine.job import RunJob
from edgemask.engine.jobs import JobRunner
from edgemask.engine.observer import Observer, RunInfo
from edgemask.engine.processes import Processes
from edgemask.engine.run import Run
from edgemask.engine.run_data import SubSplit
from edgemask.engine.shallow_models import default_models, out_of_bag, out_of_fold, sample_features
from edgemask.engine.signals import Interrupted
from edgemask.engine.train import train
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.runs import is_finished, read_arrays

__all__ = ["Work", "fold_numbers", "from_dynamics", "from_folds", "from_run"]

Ints = NDArray[np.int64]
Message = Callable[[str], None]

_KEPT_NUMBERS = 50_000_000
_QUIET = 10.0  # seconds between two lines about progress, at least


@dataclass(frozen=True, kw_only=True)
class Work:
    """Where and how networks are trained."""

    folder: Path
    device: str
    jobs: int
    imports: tuple[str, ...]
    say: Message


def from_folds(
    samples: AuditSamples,
    work: Work,
    folds: int,
    groups: Any,
    seed: int,
    chance_driven: bool,
) -> LabelAudit:
    """Judge each fold by the networks and shallow models that were trained on the others."""
    numbers = fold_numbers(samples.given, folds, groups=groups, seed=seed)
    path = (work.folder / "folds.npy").resolve()
    atomic_write(path, lambda file: np.save(file, numbers, allow_pickle=False))
    configs = [for_audit(samples.config, fold=f"{path}#{fold}") for fold in range(folds)]
    _announce(samples, work, configs, f"{folds} folds")
    shallow = _shallow(samples, work, numbers, seed)
    runs = _train_all(samples, work, configs)
    network = np.zeros((len(numbers), samples.bundle.num_classes), np.float32)
    for fold, run in enumerate(runs):
        inside = np.flatnonzero(numbers == fold)
        network[inside] = _predict(run, samples.bundle, inside, work.device)
    probs = {"network": network, **shallow}
    if network.size * len(probs) <= _KEPT_NUMBERS:
        write_arrays(work.folder / "probabilities.npz", {"ids": np.array(samples.ids), **probs})
    return from_probabilities(
        samples.given,
        list(probs.values()),
        ids=samples.ids,
        class_names=samples.bundle.class_names,
        kinds=list(probs),
        chance_driven=chance_driven,
        source="folds",
        seed=seed,
    )


def _shallow(
    samples: AuditSamples, work: Work, numbers: Ints, seed: int
) -> dict[str, NDArray[np.float32]]:
    """Return the probabilities of cheap models on the same folds, and report a first result."""
    rows = sample_features(samples.bundle.train)
    classes, names = samples.bundle.num_classes, samples.bundle.class_names
    probs = {}
    for kind, make in ({} if rows is None else default_models(rows, seed)).items():
        start = time.monotonic()
        found = out_of_fold(make, rows, samples.given, numbers, classes, samples.usable)
        probs[kind] = found.astype(np.float32)
        work.say(f"{kind}: {numbers.max() + 1} folds in {time.monotonic() - start:.0f} s")
    if probs:
        first = from_probabilities(
            samples.given, list(probs.values()), ids=samples.ids, class_names=names
        )
        work.say(_first_result(first))
    return probs


def _first_result(audit: LabelAudit) -> str:
    """Return what the cheap models say, and how often they disagree with the labels."""
    text = f"{audit.listed.sum():,} labels look worth checking"
    for _, name, given, suggested, *_ in audit.suspects.head(1).values:
        text += f", first of all {name} (given {given}, suggested {suggested})"
    share = 100 * audit.rate.disagreement
    text += f"; these models disagree with {share:.0f} % of the labels, and may be wrong themselves"
    return f"first result, before the networks: {text}"


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


def from_dynamics(samples: AuditSamples, work: Work, seed: int) -> LabelAudit:
    """Judge labels by the training of one network, and by trees that have not seen them.

    Samples that corrections drop are not trained on; the network that results judges them.
    """
    _announce(samples, work, [samples.config], "one network on everything")
    (run,) = _train_all(samples, work, [samples.config])
    classes, given, usable = samples.bundle.num_classes, samples.given, samples.usable
    dynamics = TrainingDynamics(len(given), classes)
    dynamics.load_state_dict(read_arrays(run.path / "dynamics.npz"), np.flatnonzero(usable))
    dropped = np.flatnonzero(~usable)
    if len(dropped):
        probs = _predict(run, samples.bundle, dropped, work.device)
        dynamics.update(dropped, np.log(np.maximum(probs, 1e-30)), given[dropped])
    rows = sample_features(samples.bundle.train)
    others = []
    if isinstance(rows, np.ndarray):
        others = [out_of_bag(rows, given, classes, seed, usable)]
    elif rows is not None:
        make = default_models(rows, seed)["linear"]
        numbers = fold_numbers(given, 3, seed=seed)
        others = [out_of_fold(make, rows, given, numbers, classes, usable)]
    return dynamics.audit(ids=samples.ids, class_names=samples.bundle.class_names, others=others)


def from_run(
    samples: AuditSamples, run: Run | str | Path, chance_driven: bool, device: str
) -> LabelAudit:
    """Judge labels by the model of a finished run."""
    judge = run if isinstance(run, Run) else Run(run)
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


def _announce(samples: AuditSamples, work: Work, configs: Sequence[Config], what: str) -> None:
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
        f"{_network_name(first)}, {first.train.epochs} epochs each"
    )
    if not waiting:
        work.say(f"{text}; all trained before")
        return
    seconds = estimate(waiting, samples.objects)
    total = sum(value or 0.0 for value in seconds.values()) / max(1, work.jobs)
    long = total > 600 and len(configs) > 1
    work.say(f"{text}; about {_duration(total)}{' (less with --fast)' * long}")


def _network_name(config: Config) -> str:
    width = "" if config.model.width == 1.0 else f" ({config.model.width:g} of its width)"
    return f"{config.model.name}{width}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _train_all(samples: AuditSamples, work: Work, configs: Sequence[Config]) -> list[Run]:
    """Do the runs, or find them done."""
    if work.jobs > 1 and samples.has_objects:
        raise UserError(
            "jobs needs arrays, or data and models by name, which worker processes can read: save "
            "arrays with numpy.savez, tables as CSV, and give 'npz:FILE' or 'csv:FILE'"
        )
    folders = _run_folders(samples, work, configs)
    if work.jobs == 1:
        found: list[Run] = []
        progress = _AuditProgress(work.say, len(configs))
        for number, (config, folder) in enumerate(zip(configs, folders, strict=True), 1):
            progress.number = number
            try:
                run = train(
                    config,
                    out=folder,
                    observers=[progress],
                    objects=samples.objects,
                    device=work.device,
                )
            except Interrupted as stop:
                stop.args = ("stopped and saved; the same audit continues where it stopped",)
                raise
            found.append(run)
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


class _AuditProgress(Observer):
    """Says how far all networks are, each time that a twentieth more is done.

    Args:
        say: Gets the lines.
        networks: How many networks are trained, one after the other.
    """

    def __init__(self, say: Message, networks: int):
        self.say = say
        self.networks = networks
        self.number = 1
        self.start: tuple[float, float] | None = None
        self.next = (0.0, 0.0)

    def on_start(self, info: RunInfo) -> None:
        self.epochs = info.config.train.epochs
        if self.start is None:
            now = time.monotonic()
            self.start = (now, self._share(info.start_epoch))
            self.next = (now + _QUIET, 0.0)

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        epoch, now = metrics["epoch"] + 1, time.monotonic()
        share = self._share(epoch)
        if self.start is None or now < self.next[0] or share < self.next[1] or epoch == self.epochs:
            return
        self.next = (now + _QUIET, share + 0.05)
        left = (now - self.start[0]) / (share - self.start[1]) * (1 - share)
        self.say(
            f"network {self.number} of {self.networks}, epoch {epoch} of {self.epochs}; "
            f"about {_duration(left)} left"
        )

    def _share(self, epochs: int) -> float:
        return (self.number - 1 + epochs / self.epochs) / self.networks


def _run_folders(samples: AuditSamples, work: Work, configs: Sequence[Config]) -> list[Path]:
    """Return the folder of each run; other data or settings have others, and are trained anew."""
    found = []
    for config in configs:
        fold = (config.data.fold or "").rpartition("#")[2]
        name = config_hash(with_contents(config, samples.objects))
        found.append(work.folder / "runs" / f"fold-{fold}-{name}")
    return found


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
