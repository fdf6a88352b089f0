"""The files of a finished run: weights, per-sample arrays, thumbnails and the summary."""

from __future__ import annotations

import platform
import shlex
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from edgemask._files import write_arrays, write_json
from edgemask.audit import TrainingDynamics
from edgemask.engine.config import Config
from edgemask.engine.deploy import save_weights
from edgemask.engine.evaluation import Evaluation
from edgemask.engine.identity import config_hash
from edgemask.engine.metrics import summarise
from edgemask.engine.remarks import run_remarks
from edgemask.engine.run_data import RunData
from edgemask.engine.rundir import RunDir
from edgemask.engine.samples import write_samples

__all__ = ["TrainingResult", "build_summary", "write_outputs"]

_ACCURACIES = ("/accuracy", "/balanced_accuracy", "/networks_accuracy", "/top5")


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What training ends with."""

    model: nn.Module
    """The final model: of the last epoch, or of the epochs that validation chose."""

    history: list[dict[str, Any]]
    """The metrics of each epoch."""

    seconds: float
    """Seconds that the epochs took."""

    train: Evaluation
    """The last epoch's model on the training samples and their given labels."""

    test: Evaluation
    """The last epoch's model on the main test set."""

    trust: NDArray[Any]
    """The probability that each given label is right."""

    kept: NDArray[Any] | None
    """By sample the share of networks that learn from its given label, where the method divides."""

    dynamics: TrainingDynamics
    """What happened to each training sample over the recorded epochs."""

    head: dict[str, NDArray[Any]]
    """Scores and retention of the head over time; empty for a head without scores."""

    selected: dict[str, Any] | None
    """Epochs and test metrics of the weights that validation chose; None without a selection."""


def build_summary(config: Config, data: RunData, result: TrainingResult) -> dict[str, Any]:
    """Return the contents of ``summary.json``."""
    noise, last = data.noise, result.history[-1]
    # The accuracy of a single network is "test/accuracy.<network>".
    keys = sorted(key for key in last if key.endswith(_ACCURACIES) or "/accuracy." in key)
    summary = {
        "status": "finished",
        "epochs": len(result.history),
        **{key: summarise(result.history, key) for key in keys},
        "per_class_accuracy": result.test.per_class(data.bundle.num_classes),
        "class_names": list(data.bundle.class_names),
        "noise": {
            "kind": noise.kind,
            "protocol": noise.protocol,
            "rate": noise.rate,
            "realised_rate": noise.realised_rate,
        },
        "clean_test": data.bundle.clean_test,
        "remarks": run_remarks(data, result.train, last.get("head/retention")),
        "head/retention": last.get("head/retention"),
        "memorised": last.get("memorised"),
        "seconds": round(result.seconds, 3),
        "versions": versions(),
        "config_hash": config_hash(config),
        "noise_fingerprint": noise.fingerprint,
        "seed": config.train.seed,
        "command": shlex.join(sys.argv),
    }
    if data.corrections is not None:
        summary["corrections"] = data.corrections.summary(data.bundle.class_names)
    if result.selected is not None:
        summary["selected"] = result.selected
    return summary


def write_outputs(
    folder: RunDir, data: RunData, result: TrainingResult, summary: dict[str, Any], thumbnails: int
) -> None:
    """Write the files of a finished run; the summary comes last.

    Until the summary is there the run counts as unfinished, so that a kill in between only makes
    the next start write these files again.
    """
    write_samples(
        folder,
        data,
        evaluation=result.train,
        trust=result.trust,
        dynamics=result.dynamics,
        kept=result.kept,
        thumbnails=thumbnails,
    )
    if result.dynamics.has_probabilities:
        state = result.dynamics.state_dict()
        write_arrays(
            folder / "dynamics.npz", {name: value.numpy() for name, value in state.items()}
        )
    if result.head:
        write_arrays(folder / "head.npz", result.head)
    save_weights(folder / "model.safetensors", result.model, data.bundle)
    write_json(folder / "summary.json", summary)


def versions() -> dict[str, str]:
    """Return the versions that a result depends on."""
    from edgemask import __version__

    return {
        "edgemask": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
    }
