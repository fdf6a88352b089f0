"""The end of a run: final weights, per-sample files, pictures and the summary."""

from __future__ import annotations

import platform
import shlex
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from edgemask.engine.deploy import save_weights
from edgemask.engine.files import write_arrays, write_json
from edgemask.engine.identity import config_hash
from edgemask.engine.metrics import summarise

if TYPE_CHECKING:
    from edgemask.engine.loop import Trainer

__all__ = ["finish"]

_MAX_PIXELS = 96
_ACCURACIES = ("/accuracy", "/balanced_accuracy", "/networks_accuracy", "/top5")


def finish(trainer: Trainer) -> dict[str, Any]:
    """Write everything that a finished run leaves behind; the summary comes last.

    Until the summary is there the run counts as unfinished, so that a kill in between only makes
    the next start write these files again.
    """
    job, folder, config = trainer.job, trainer.folder, trainer.config
    own = trainer.method.trust()
    answers = trainer.answers
    outcome = answers.get("train") or trainer.tester(job.train, job.given)
    test = answers.get("test") or trainer.tester(next(iter(job.tests.values())))
    trust = trainer.recorder.trust(own)
    summary = _summary(trainer, trust.numpy(), test.per_class(job.bundle.num_classes))
    if trainer.selection.active:
        summary["selected"] = _selected(trainer)
    if trainer.processes.main:
        trainer.recorder.write(folder, job, outcome, trust)
        _thumbnails(trainer, trust.numpy(), config.log.thumbnails)
        save_weights(trainer)
        write_json(folder / "summary.json", summary)
    trainer.processes.wait()
    return summary


def _summary(trainer: Trainer, trust: Any, per_class: list[float | None]) -> dict[str, Any]:
    job, history = trainer.job, trainer.history
    noise, last = job.noise, history[-1]
    keys = sorted(key for key in last if key.endswith(_ACCURACIES))
    estimated = float(1.0 - np.mean(trust)) if len(trust) else None
    return {
        "status": "finished",
        "epochs": len(history),
        **{key: summarise(history, key) for key in keys},
        "per_class_accuracy": per_class,
        "class_names": list(job.bundle.class_names),
        "noise": {
            "kind": noise.kind,
            "protocol": noise.protocol,
            "rate": noise.rate,
            "realised_rate": noise.realised_rate,
            "estimated_rate": estimated,
        },
        "clean_test": job.bundle.clean_test,
        "head/retention": last.get("head/retention"),
        "memorised": last.get("memorised"),
        "seconds": round(trainer.seconds, 3),
        "versions": versions(),
        "config_hash": config_hash(trainer.config),
        "noise_fingerprint": noise.fingerprint,
        "seed": trainer.config.train.seed,
        "command": shlex.join(sys.argv),
    }


def _selected(trainer: Trainer) -> dict[str, Any]:
    """Put the chosen weights into the networks and test them; the last epoch's are judged by now.

    Several networks may stand at epochs of their own, so that no line of the history has this test.
    """
    selection, job = trainer.selection, trainer.job
    classes, top5 = job.bundle.num_classes, trainer.config.eval.top5
    selection.take()
    tested = {prefix: trainer.tester(split) for prefix, split in job.named_tests.items()}
    numbers: dict[str, Any] = {}
    for prefix, outcome in tested.items():
        numbers |= outcome.metrics(prefix, classes, top5=top5)
    return {
        "by": selection.by,
        "epochs": dict(selection.epochs),
        f"{selection.by}/accuracy": dict(selection.accuracies),
        **numbers,
        "per_class_accuracy": tested["test"].per_class(classes),
    }


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    from edgemask import __version__

    return {
        "edgemask": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }


def _thumbnails(trainer: Trainer, trust: Any, count: int) -> None:
    """Keep small pictures of the samples whose label is trusted least."""
    if not count or len(trainer.job.bundle.input_shape) != 3:
        return
    order = np.argsort(trust, kind="stable")[:count]
    raw = trainer.job.train.raw(torch.from_numpy(order.copy()))
    if raw.dtype != torch.uint8 or raw.shape[1] not in (1, 3):
        return
    if max(raw.shape[-2:]) > _MAX_PIXELS:
        scale = _MAX_PIXELS / max(raw.shape[-2:])
        size = [max(1, round(side * scale)) for side in raw.shape[-2:]]
        small = torch.nn.functional.interpolate(
            raw.float(), size=size, mode="bilinear", antialias=True, align_corners=False
        )
        raw = small.round().clamp(0, 255).to(torch.uint8)
    index = trainer.job.positions[order]
    images = raw.permute(0, 2, 3, 1).contiguous().numpy()
    write_arrays(trainer.folder / "thumbnails.npz", {"index": index, "images": images})
