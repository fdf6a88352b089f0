"""``edgemask train --dry-run``: what would be done, without doing it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemask.data import DataBundle
    from edgemask.engine import Config

__all__ = ["show_plan"]


def show_plan(
    config: Config, bundle: DataBundle | None, *, out: Path | None, fresh: bool, as_json: bool
) -> None:
    """Print the resolved config and what a run of it would do.

    Args:
        config: The resolved config.
        bundle: The data, where it was read already.
        out: The run's folder, if one was given.
        fresh: Whether the run would start over.
        as_json: Whether to print JSON.
    """
    import typer

    from edgemask.cli.screen import print_json, print_table
    from edgemask.engine import dump_yaml
    from edgemask.engine.config import to_dict

    plan = _plan(config, bundle, out, fresh=fresh)
    if as_json:
        flat = {key.replace(" ", "_"): value for key, value in plan.items()}
        print_json({"plan": flat, "config": to_dict(config)})
        return
    typer.echo(dump_yaml(config))
    rows = [
        (key, f"{value:,}" if isinstance(value, int) else str(value)) for key, value in plan.items()
    ]
    print_table(["would be done", ""], rows)


def _plan(
    config: Config, bundle: DataBundle | None, out: Path | None, *, fresh: bool
) -> dict[str, Any]:
    from edgemask.engine import Objects
    from edgemask.engine.identity import config_hash
    from edgemask.engine.job import build_job
    from edgemask.engine.networks import build_method, build_networks
    from edgemask.engine.rundir import RunDir, default_name

    folder = RunDir(out if out is not None else Path("runs") / default_name(config))
    if not fresh:
        folder.check_same(config)
    job = build_job(config, Objects(bundle=bundle))
    method = build_method(config, Objects())
    nets = build_networks(
        config,
        method,
        Objects(),
        num_classes=job.bundle.num_classes,
        input_shape=job.bundle.input_shape,
        pretrained=False,
    )
    learning = [nets[name] for name in method.networks]
    # What a plain pass over the data takes; a method may choose samples, or pass over them twice.
    steps = math.ceil(len(job.train) / config.train.batch_size)
    return {
        "state": _state(folder, config, fresh=fresh),
        "folder": str(folder.path),
        "config hash": config_hash(config),
        "labels": job.noise.summary(),
        "training samples": len(job.train),
        "validation samples": sum(len(split) for split, _ in job.validations.values()),
        "test samples": sum(len(split) for split in job.tests.values()),
        "classes": job.bundle.num_classes,
        "input": "x".join(map(str, job.bundle.input_shape)),
        "networks": len(learning),
        "parameters": sum(p.numel() for net in learning for p in net.parameters()),
        "epochs": config.train.epochs,
        "steps of a pass": steps,
        "steps of all passes": steps * config.train.epochs,
    }


def _state(folder: Any, config: Config, *, fresh: bool) -> str:
    if fresh and folder.started:
        return "starts over; what the folder holds is thrown away"
    if folder.finished:
        return "finished already; nothing would be done"
    if folder.started:
        done = len(folder.history())
        return f"goes on after epoch {done} of {config.train.epochs}"
    return "starts"
