"""What is known of each training sample: ``samples.npz`` and pictures of the least trusted."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edgemask._files import write_arrays
from edgemask.audit import TrainingDynamics
from edgemask.audit.label_audit import draw_to_check
from edgemask.engine.evaluation import Evaluation
from edgemask.engine.run_data import RunData
from edgemask.engine.rundir import RunDir
from edgemask.engine.thumbnails import small_images

__all__ = ["SamplesSoFar", "write_samples"]

_SHARE_OF_TIME = 0.05


def write_samples(
    folder: RunDir,
    data: RunData,
    *,
    evaluation: Evaluation,
    trust: NDArray[Any],
    dynamics: TrainingDynamics,
    thumbnails: int,
    kept: NDArray[Any] | None = None,
    after: int | None = None,
) -> None:
    """Write ``samples.npz`` and, for images, ``thumbnails.npz``.

    Args:
        folder: The run's folder.
        data: Data and labels.
        evaluation: The network on the training samples and their given labels.
        trust: A score in [0, 1] per sample, higher where its label is more likely right.
        dynamics: What happened to each sample over the recorded epochs.
        thumbnails: How many of the least trusted samples get a picture.
        kept: By sample the share of networks that learn from its given label, where known.
        after: How many epochs are done, where the run has not come to its end.
    """
    check = _check(data)
    samples = _columns(data, evaluation, trust, dynamics)
    samples["check"] = np.zeros(len(trust), dtype=np.int32)
    samples["check"][check] = np.arange(1, len(check) + 1)
    if kept is not None:
        samples["kept"] = kept.astype(np.float32)
    if after is not None:  # nothing else says these before the end
        known = {"after": after, "class_names": list(data.bundle.class_names)}
        samples["so_far"] = np.array(json.dumps(known))
    write_arrays(folder / "samples.npz", samples)
    pictures = _thumbnails(data, trust, dynamics.mean_loss, thumbnails, check)
    if pictures:
        write_arrays(folder / "thumbnails.npz", pictures)


class SamplesSoFar:
    """Writes what is known of the samples during a run, at little cost.

    Args:
        folder: The run's folder.
        data: Data and labels.
        thumbnails: How many of the least trusted samples get a picture.
    """

    def __init__(self, folder: RunDir, data: RunData, thumbnails: int):
        self._folder, self._data, self._thumbnails = folder, data, thumbnails
        self._due = 0.0

    @property
    def due(self) -> bool:
        """Whether the time that writing took before is a small share of that since then."""
        return time.monotonic() >= self._due

    def write(
        self,
        epochs: int,
        evaluation: Evaluation,
        trust: NDArray[Any],
        dynamics: TrainingDynamics,
    ) -> None:
        """Write what is known after some epochs."""
        start = time.monotonic()
        write_samples(
            self._folder,
            self._data,
            evaluation=evaluation,
            trust=trust,
            dynamics=dynamics,
            thumbnails=self._thumbnails,
            after=epochs,
        )
        end = time.monotonic()
        self._due = end + (end - start) / _SHARE_OF_TIME


def _check(data: RunData) -> NDArray[np.int64]:
    """Return the places of the samples to check by hand; without those already reviewed."""
    if data.corrections is None:
        return draw_to_check(len(data.positions))
    unseen = np.flatnonzero(~data.corrections.reviewed[data.positions])
    return unseen[draw_to_check(len(unseen))]


def _columns(
    data: RunData, evaluation: Evaluation, trust: NDArray[Any], dynamics: TrainingDynamics
) -> dict[str, NDArray[Any]]:
    samples: dict[str, NDArray[Any]] = {
        "index": data.positions,
        "given": data.noise.noisy,
        "predicted": evaluation.predicted,
        "confidence": evaluation.confidence.astype(np.float32),
        "trust": trust.astype(np.float32),
        "mean_loss": dynamics.mean_loss.astype(np.float32),
        "margin": dynamics.aum.astype(np.float32),
        "agreement": dynamics.agreement.astype(np.float32),
        "forgetting": dynamics.forgetting.astype(np.int32),
    }
    if data.train.names is not None:
        samples["name"] = np.array(list(data.train.names), dtype=np.str_)
    texts = getattr(data.train, "texts", None)
    if texts is not None:
        samples["text"] = np.array(list(texts), dtype=np.str_)
    if data.corrections is not None:
        samples["reviewed"] = data.corrections.reviewed[data.positions]
    if data.noise.clean is not None:
        samples["clean"] = data.noise.clean
    return samples


def _thumbnails(
    data: RunData,
    trust: NDArray[Any],
    mean_loss: NDArray[Any],
    count: int,
    check: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """Return small images of the least trusted samples and of those to check, if data has any."""
    if not count or len(data.bundle.input_shape) != 3:
        return {}
    # Ties are broken by the loss and then at random: positions often go by class.
    chance = np.random.default_rng(0).permutation(len(trust))
    order = np.lexsort((chance, -np.nan_to_num(mean_loss), trust))[:count]
    order = np.concatenate([order, np.setdiff1d(check, order)])
    raw = data.train.raw(torch.from_numpy(order.copy()))
    if raw.dtype != torch.uint8 or raw.shape[1] not in (1, 3):
        return {}
    return {"index": data.positions[order], "images": small_images(raw)}
