"""What a run would do, without doing it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from edgemask.engine.config import Config
from edgemask.engine.identity import config_hash, with_contents
from edgemask.engine.networks import build_method, build_networks
from edgemask.engine.observer import Observer
from edgemask.engine.processes import choose_device
from edgemask.engine.run import Run
from edgemask.engine.run_data import Objects, build_run_data
from edgemask.engine.rundir import RunDir, default_name

__all__ = ["plan"]


def plan(
    config: Config,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    observers: Sequence[Observer] = (),
    objects: Objects | None = None,
    device: str = "auto",
) -> Run:
    """Return the run that :func:`~edgemask.engine.train` would make, with its ``plan`` filled in.

    Takes the same arguments. Data and networks are made, so that what does not fit shows.
    """
    del observers
    objects = objects or Objects()
    choose_device(device)
    config = with_contents(config, objects)
    folder = RunDir(out if out is not None else Path("runs") / default_name(config))
    if not fresh:
        folder.check_same(config)
    data = build_run_data(config, objects)
    method = build_method(config, objects)
    nets = build_networks(
        config,
        method,
        objects,
        num_classes=data.bundle.num_classes,
        input_shape=data.bundle.input_shape,
        pretrained=False,
    )
    trained = [nets[name] for name in method.networks]
    # What a plain pass over the data takes; a method may choose samples, or pass over them twice.
    steps = math.ceil(len(data.train) / config.train.batch_size)
    facts = {
        "state": _state(folder, config, fresh=fresh),
        "folder": str(folder.path),
        "config hash": config_hash(config),
        **({"data": "; ".join(filter(None, data.bundle.notes))} if data.bundle.notes else {}),
        "labels": data.noise.summary(),
        "training samples": len(data.train),
        "validation samples": sum(len(split) for split, _ in data.validations.values()),
        "test samples": sum(len(split) for split in data.tests.values()),
        "classes": data.bundle.num_classes,
        "input": "x".join(map(str, data.bundle.input_shape)),
        "networks": len(trained),
        "parameters": sum(p.numel() for net in trained for p in net.parameters()),
        "epochs": config.train.epochs,
        "steps of a pass": steps,
        "steps of all passes": steps * config.train.epochs,
    }
    return Run(folder.path, config=config, plan=facts)


def _state(folder: RunDir, config: Config, *, fresh: bool) -> str:
    if fresh and folder.started:
        return "starts over; what the folder holds is removed"
    if folder.finished:
        return "finished already; nothing would be done"
    if folder.started:
        return f"resumes after epoch {len(folder.history())} of {config.train.epochs}"
    return "starts"
