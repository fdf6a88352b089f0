"""Training a config: from names to a finished run."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgemask.engine.config import Config, flatten, to_dict
from edgemask.engine.finish import finish
from edgemask.engine.job import Job, Objects, build_job
from edgemask.engine.loop import Trainer
from edgemask.engine.networks import build_criterion, build_method, build_networks
from edgemask.engine.observer import Observer, RunInfo
from edgemask.engine.passes import over_samples
from edgemask.engine.precision import usable_precision
from edgemask.engine.processes import Processes, has_accelerator
from edgemask.engine.randomness import seed_everything, stream
from edgemask.engine.resolve import is_object, resolve
from edgemask.engine.run import Run
from edgemask.engine.rundir import RunDir, default_name
from edgemask.engine.signals import Interrupted, listen
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.methods import Method, Task
from edgemask.noise import NoisyLabels

__all__ = ["resume", "train"]


def resume(path: str | Path, *, observers: Sequence[Observer] = ()) -> Run:
    """Go on with a run where it stopped; a finished one is only opened."""
    folder = RunDir(path)
    config = folder.config()
    named = {
        "data": config.data.spec,
        "noise": config.noise.spec,
        "model": config.model.name,
        "loss": config.loss.name,
        "method": config.method.name,
    }
    for kind, value in named.items():
        if is_object(value):
            raise UserError(
                f"{path} was started from Python with a {kind} object; call fit again with the "
                "same arguments and out=, and it goes on"
            )
    return train(config, out=path, observers=observers)


def train(
    config: Config,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    observers: Sequence[Observer] = (),
    objects: Objects | None = None,
) -> Run:
    """Train what a config describes, or go on with it, or find it done.

    Args:
        config: The config; names are checked and options filled in.
        out: The run's folder, exactly; None means ``runs/<name>-<hash of the config>``.
        fresh: Whether to throw away what the folder holds and start over.
        observers: Who watches.
        objects: Data, model, loss or method given as objects instead of by name.

    Returns:
        The run. The same config found finished is not run again; found half-done, it goes on.

    Raises:
        UserError: For anything that the caller can mend.
        Interrupted: After SIGTERM or Ctrl-C; the state is saved.
    """
    config = resolve(to_dict(config))
    folder = RunDir(out if out is not None else Path("runs") / default_name(config))
    if not fresh:
        folder.check_same(config)
        if folder.finished:
            return Run(folder.path)
    elif folder.path.is_dir() and not folder.started:
        folder.check_same(config)
    main = _is_main()
    if main:
        folder.prepare()
    with _locked(folder, main):
        if fresh and main:
            folder.clear()
            folder.prepare()
        model = _train(config, folder, observers, objects or Objects())
    return Run(folder.path, model=model)


def _is_main() -> bool:
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def _locked(folder: RunDir, main: bool) -> Iterator[None]:
    with folder.lock() if main else contextlib.nullcontext():
        yield


def _train(
    config: Config, folder: RunDir, observers: Sequence[Observer], objects: Objects
) -> nn.Module:
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if has_accelerator() and device.type == "cpu":
        device = torch.device("mps")
    precision, note = usable_precision(config.train.precision, device)
    events = folder.path if config.log.trackers else None
    processes = Processes(precision=precision, trackers=config.log.trackers, folder=events)
    together = False
    try:
        model, summary, watching = _run(config, folder, observers, objects, processes, note)
        together = True
    except Interrupted:
        together = True
        raise
    finally:
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
    """Train to the end. Wrapped models die with this frame: gloo aborts at exit otherwise."""
    job = build_job(config, objects)
    _check_noise(folder, job)
    method = _set_up(config, job, objects, processes)
    with listen() as stop:
        trainer = Trainer(config, job, method, processes, folder, observers, stop)
        state = trainer.checkpoints.load()
        if state is not None:
            trainer.restore(state)
        elif processes.main:
            folder.write_config(config)
            job.noise.save(folder / "noise.npz")
        processes.wait()
        _start_trackers(config, processes, folder.path.name)
        _announce(trainer, [note] if note else [])
        trainer.run()
        summary = finish(trainer)
    return method.deployed(), summary, trainer.observers


def _set_up(config: Config, job: Job, objects: Objects, processes: Processes) -> Method:
    """Make networks, loss and method, and hand them to each other."""
    method = build_method(config, objects)
    if method.loss not in (None, config.loss.name):
        raise UserError(
            f"the method {type(method).__name__} stands on the loss {method.loss!r}, but loss.name "
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
    if config.train.compile is not None:
        for net in nets.values():
            net.compile(backend=config.train.compile)

    def score(function: Any, *, views: Any = ("none",), indices: Any = None) -> Any:
        rows = over_samples(
            function,
            job.train,
            targets=job.given,
            bundle=job.bundle,
            processes=processes,
            nets=nets,
            views=views,
            indices=indices,
            batch_size=config.eval.batch_size,
            workers=config.data.workers,
            seed=seed,
        )
        return {name: values.to(processes.device) for name, values in rows.items()}

    rate = job.noise.rate if job.noise.rate is not None else job.noise.realised_rate
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
            gather=processes.gather,
            noise_rate=rate,
            noise_kind=job.noise.kind,
            dataset=job.bundle.name,
            seed=seed,
        ),
        nets,
    )
    return method


def _check_noise(folder: RunDir, job: Job) -> None:
    path = folder / "noise.npz"
    if path.is_file():
        there = NoisyLabels.load(path).fingerprint
        if there != job.noise.fingerprint:
            raise UserError(
                f"{folder.path} was started on other labels (noise fingerprint {there[:12]}, now "
                f"{job.noise.fingerprint[:12]}); bring the data back as it was, or start over "
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


def _announce(trainer: Trainer, notes: list[str]) -> None:
    method, job = trainer.method, trainer.job
    info = RunInfo(
        path=trainer.folder.path,
        config=trainer.config,
        samples=len(job.train),
        classes=job.bundle.num_classes,
        noise=job.noise.summary(),
        parameters=sum(
            p.numel() for name in method.networks for p in method.nets[name].parameters()
        ),
        device=str(trainer.processes.device),
        processes=trainer.processes.count,
        start_epoch=trainer.epoch,
        notes=tuple(notes),
    )
    for observer in trainer.observers:
        observer.on_start(info)
