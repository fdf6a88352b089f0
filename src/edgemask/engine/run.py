"""A run and its results."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from edgemask.engine.config import Config
from edgemask.engine.deploy import load_model, read_weights
from edgemask.engine.rundir import RunDir
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.noise import NoisyLabels
from edgemask.runs import (
    SUSPECT_REASONS,
    SamplesState,
    read_samples,
    read_summary,
    samples_state,
    shell_argument,
    suspicious_order,
)

__all__ = ["Run", "load_run"]

_T = TypeVar("_T")


class Run:
    """A run and its results, read from its folder on first use.

    Args:
        path: The run's folder.
        model: The trained network, if it is at hand; otherwise it is built from the folder.
        config: The resolved config of a run that was only planned.
        plan: What a planned run would do.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        model: nn.Module | None = None,
        config: Config | None = None,
        plan: dict[str, Any] | None = None,
    ):
        self.folder = RunDir(path)
        if plan is None and not self.folder.started:
            raise UserError(f"{path} holds no run: there is no config.yaml in it")
        self.plan = plan
        """What the run would do, where it was only planned (``fit(..., dry_run=True)``)."""
        self._config = config
        self._model = model

    def __repr__(self) -> str:
        state = "finished" if self.finished else f"{len(self.history)} epochs done"
        return f"Run({str(self.path)!r}, {state})"

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @property
    def config(self) -> Config:
        """The resolved config."""
        return self._config or self.folder.config()

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end."""
        return self.folder.finished

    @property
    def history(self) -> list[dict[str, Any]]:
        """The metrics of each epoch, as in ``metrics.jsonl``."""
        return self.folder.history()

    @property
    def summary(self) -> dict[str, Any]:
        """The final numbers, as in ``summary.json``."""
        self._need_finished()
        return self._read(read_summary)

    @property
    def noise(self) -> NoisyLabels:
        """The labels that were trained on."""
        return NoisyLabels.load(self.folder / "noise.npz")

    @property
    def samples(self) -> dict[str, NDArray[Any]]:
        """What is known of each training sample, as in ``samples.npz``.

        Of a run that has not come to its end this is what is known so far, with a warning that
        names the epoch.
        """
        return self._samples()[0]

    @property
    def trust(self) -> NDArray[np.float32]:
        """A score in [0, 1] per training sample, higher where its label is more likely right."""
        return self.samples["trust"]

    @property
    def suspects(self) -> Any:
        """The training samples with a trust below 0.5 as a pandas frame, the least trusted first.

        Its columns are those of an audit's ``suspects``. The network has learnt from these
        labels; an audit in folds judges each by models that have not seen it.
        """
        import pandas as pd

        samples, state = self._samples()
        order = suspicious_order(samples)
        order = order[samples["trust"][order] < 0.5]
        names = np.array(state.class_names or self.class_names, dtype=np.str_)
        given, predicted = samples["given"][order], samples["predicted"][order]
        return pd.DataFrame(
            {
                "rank": np.arange(1, len(order) + 1),
                "id": samples.get("name", samples["index"])[order].astype(np.str_),
                "given": names[given],
                "suggested": names[predicted],
                "trust": samples["trust"][order].astype(np.float64),
                "reason": np.where(given == predicted, *SUSPECT_REASONS),
            }
        )

    def _samples(self) -> tuple[dict[str, NDArray[Any]], SamplesState]:
        if not (self.path / "samples.npz").is_file():
            self._need_finished()
        samples = self._read(read_samples)
        state = samples_state(samples)
        if not self.finished and state.after is not None:
            warnings.warn(
                f"{self.path} is not finished: this is what is known of its samples after epoch "
                f"{state.after} of {self.config.train.epochs}",
                EdgeMaskWarning,
                stacklevel=3,
            )
        return samples, state

    @property
    def model(self) -> nn.Module:
        """The trained network, in ``eval()`` mode."""
        if self._model is None:
            self._need_finished()
            self._model = load_model(self.folder)
        return self._model.eval()

    @functools.cached_property
    def card(self) -> dict[str, Any]:
        """What the model needs to know about its inputs: classes, shape and preprocessing."""
        self._need_finished()
        return read_weights(self.folder / "model.safetensors")[1]

    @property
    def class_names(self) -> tuple[str, ...]:
        """The name of each class, in the order of ``predict_proba``."""
        return tuple(self.card["class_names"])

    def predict(self, inputs: Any) -> NDArray[Any]:
        """Return the predicted label of each new sample, as labels were given in training.

        Args:
            inputs: Samples in any form that training takes: arrays, frames, lists of texts or
                pictures, files and folders.
        """
        from edgemask.engine.prediction import predict

        return predict(self, inputs).values

    def predict_proba(self, inputs: Any) -> NDArray[np.float32]:
        """Return the probability of each class for new samples, ``(N, C)``."""
        from edgemask.engine.prediction import predict

        return predict(self, inputs).probabilities

    def _need_finished(self) -> None:
        there = (self.path / "summary.json").is_file()
        if not there or self._read(read_summary).get("status") != "finished":
            raise UserError(
                f"{self.path} is not finished; continue it with: edgemask resume "
                f"{shell_argument(self.path)}"
            )

    def _read(self, read: Callable[[Path], _T]) -> _T:
        """Read one file of the folder; an error names the folder."""
        try:
            return read(self.path)
        except UserError as error:
            raise UserError(f"{self.path}: {error}") from error


def load_run(path: str | Path) -> Run:
    """Open a run's folder."""
    return Run(path)
