"""Training a config: from names to a finished run."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgemask._random import seed_everything, stream
from edgemask.engine.compose import choose_model
from edgemask.engine.config import Config, flatten, to_dict
from edgemask.engine.failures import explained_failures
from edgemask.engine.identity import with_contents
from edgemask.engine.inference import over_samples
from edgemask.engine.loop import Trainer
from edgemask.engine.networks import build_criterion, build_method, build_networks
from edgemask.engine.observer import Observer, RunInfo
from edgemask.engine.outputs import build_summary, write_outputs
from edgemask.engine.precision import usable_precision
from edgemask.engine.processes import Processes, choose_device, on_first_process
from edgemask.engine.remarks import learning_remarks
from edgemask.engine.resolve import is_object, resolve
from edgemask.engine.run import Run
from edgemask.engine.run_data import Objects, RunData, build_run_data
from edgemask.engine.rundir import RunDir, default_name
from edgemask.engine.signals import Interrupted, listen
from edgemask.errors import EdgeMaskWarning, TrainingWarning, UserError
from edgemask.losses import SOPLoss
from edgemask.methods import Method, Task
from edgemask.methods.parts.joint import Joint
from edgemask.noise import NoisyLabels

__all__ = ["resume", "train"]


def resume(path: str | Path, *, observers: Sequence[Observer] = ()) -> Run:
    """Continue a run where it stopped; a finished one is only opened."""
    folder = RunDir(path)
    folder.check_schema()
    config = folder.config()
    for key, value in flatten(to_dict(config)).items():
        if isinstance(value, str) and is_object(value):
            raise UserError(
                f"{path} was started from Python with an object ({key}: {value}); call fit again "
                "with the same arguments and out=, and it continues"
            )
    return train(config, out=path, observers=observers)


def train(
    config: Config,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    observers: Sequence[Observer] = (),
    objects: Objects | None = None,
    device: str = "auto",
) -> Run:
    """Train what a config describes; a stopped run is continued, a finished one opened.

    Args:
        config: The config; names are checked and options filled in.
        out: The run's folder, exactly; None means ``runs/<name>-<hash of the config>``.
        fresh: Whether to delete the run that the folder holds and start over.
        observers: Receive the events of the run.
        objects: Data, model, head, loss or method given as objects instead of by name.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Returns:
        The run. The same config found finished is not run again; found half-done, it continues.

    Raises:
        UserError: For anything that the caller can fix.
        Interrupted: After SIGTERM or Ctrl-C; the state is saved.
    """
    objects = objects or Objects()
    config, objects = choose_model(resolve(to_dict(config), objects=objects), objects)
    choose_device(device)  # refused before anything is written
    config = on_first_process(lambda: with_contents(config, objects), device)
    folder = RunDir(out if out is not None else Path("runs") / default_name(config))
    if _nothing_to_do(folder, config, fresh):
        return Run(folder.path)
    # Under torchrun the first process holds the folder for all.
    main = os.environ.get("RANK", "0") == "0"
    with folder.lock() if main else contextlib.nullcontext():
        # Another process may have worked on the folder between the check and the lock.
        if main and _nothing_to_do(folder, config, fresh) and "WORLD_SIZE" not in os.environ:
            return Run(folder.path)
        if main and fresh:
            folder.clear()
        with explained_failures(config):
            model = _train(config, folder, observers, objects, device)
    return Run(folder.path, model=model)


def _nothing_to_do(folder: RunDir, config: Config, fresh: bool) -> bool:
    """Return whether the run is finished; refuse a folder that holds something else."""
    if not fresh or not folder.started:
        folder.check_same(config)
    return not fresh and folder.finished


def _train(
    config: Config,
    folder: RunDir,
    observers: Sequence[Observer],
    objects: Objects,
    device: str,
) -> nn.Module:
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    precision, note = usable_precision(config.train.precision, choose_device(device))
    events = folder.path if config.log.trackers else None
    processes = Processes(
        precision=precision, trackers=config.log.trackers, folder=events, device=device
    )
    together = False
    try:
        model, summary, watching = _run(config, folder, observers, objects, processes, note)
        together = True
    except Interrupted:
        together = True
        raise
    finally:
        if not together:
            processes.ignore_sigterm()
        processes.close(together=together)
    for observer in watching:
        observer.on_end(summary)
    return model


def _run(
    config: Config,
    folder: RunDir,
    observers: Sequence[Observer],
    objects: Objects,
    processes: Processes,
    note: str | None,
) -> tuple[nn.Module, dict[str, Any], Sequence[Observer]]:
    """Train to the end. Wrapped models are released at its end: gloo aborts otherwise."""
    job = build_run_data(config, objects)
    _check_noise(folder, job)
    method = _set_up(config, job, objects, processes)
    observers = observers if processes.main else ()
    with listen() as stop:
        trainer = Trainer(config, job, method, processes, folder, observers, stop)
        epoch = trainer.restore()
        if epoch is None and processes.main:
            folder.write_config(config)
            job.noise.save(folder / "noise.npz")
        processes.wait()
        _start_trackers(config, processes, folder.path.name)
        info = RunInfo(
            path=folder.path,
            config=config,
            samples=len(job.train),
            classes=job.bundle.num_classes,
            noise=job.noise.summary(),
            parameters=sum(
                p.numel() for name in method.networks for p in method.nets[name].parameters()
            ),
            device=str(processes.device),
            processes=processes.count,
            start_epoch=epoch or 0,
            notes=tuple(filter(None, (note, *job.bundle.notes))),
        )
        for observer in observers:
            observer.on_start(info)
        result = trainer.run()
        summary = build_summary(config, job, result)
        if processes.main and config.data.fold is None:
            kept = result.history[-1].get("head/retention")
            for text in learning_remarks(job, result.train, kept):
                warnings.warn(text, TrainingWarning, stacklevel=2)
        if processes.main:
            folder.check_there()
            write_outputs(folder, job, result, summary, thumbnails=config.log.thumbnails)
        processes.wait()
    return result.model, summary, observers


def _set_up(config: Config, job: RunData, objects: Objects, processes: Processes) -> Method:
    """Make networks, loss and method, and hand them to each other."""
    method = build_method(config, objects)
    if method.loss not in (None, config.loss.name):
        raise UserError(
            f"the method {type(method).__name__} needs the loss {method.loss!r}, but loss.name "
            f"is {config.loss.name!r}"
        )
    nets = build_networks(
        config,
        method,
        objects,
        num_classes=job.bundle.num_classes,
        input_shape=job.bundle.input_shape,
    )
    criterion = build_criterion(config, job.bundle, len(job.train), objects)
    seed = config.train.seed
    seed_everything(stream("loop", seed, processes.rank))
    generator = torch.Generator().manual_seed(stream("method", seed, processes.rank))
    for net in (*nets.values(), criterion):
        net.to(processes.device)
    for loss in criterion.modules():
        if isinstance(loss, SOPLoss):
            # Wrappers that reduce gradients over processes want them dense.
            object.__setattr__(loss, "sparse_gradients", processes.count == 1)
    if config.train.compile is not None:
        for net in nets.values():
            net.compile(backend=config.train.compile)

    def score(function: Any, *, views: Any = ("none",), **options: Any) -> Any:
        rows = over_samples(
            function,
            job.train,
            targets=job.given,
            bundle=job.bundle,
            processes=processes,
            nets=nets,
            views=views,
            batch_size=config.eval.batch_size,
            workers=config.data.workers,
            seed=seed,
            **options,
        )
        return {name: values.to(processes.device) for name, values in rows.items()}

    method.setup(
        Task(
            num_classes=job.bundle.num_classes,
            labels=job.given.to(processes.device),
            epochs=config.train.epochs,
            batch_size=config.train.batch_size,
            criterion=criterion,
            device=processes.device,
            generator=generator,
            score=score,
            joint=Joint(processes.gather, processes.total, processes.count, processes.rank),
            nominal_rate=job.noise.rate,
            realised_rate=job.noise.realised_rate,
            noise_kind=job.noise.kind,
            dataset=job.bundle.name,
            class_names=job.bundle.class_names,
            positions=torch.from_numpy(job.positions),
            normalisation=job.bundle.normalisation,
            seed=seed,
        ),
        nets,
    )
    return method


def _check_noise(folder: RunDir, job: RunData) -> None:
    path = folder / "noise.npz"
    if path.is_file():
        there = NoisyLabels.load(path).fingerprint
        if there != job.noise.fingerprint:
            raise UserError(
                f"{folder.path} was started on other labels (noise fingerprint {there[:12]}, now "
                f"{job.noise.fingerprint[:12]}); restore the data, or start over "
                "with fresh"
            )


def _start_trackers(config: Config, processes: Processes, name: str) -> None:
    if not config.log.trackers:
        return
    try:
        processes.start_trackers(name, flatten(to_dict(config)))
    except Exception as error:  # noqa: BLE001 - trackers are foreign and raise all sorts
        warnings.warn(
            f"no tracker is running ({type(error).__name__}: {error}); metrics.jsonl is written "
            "all the same",
            EdgeMaskWarning,
            stacklevel=2,
        )
