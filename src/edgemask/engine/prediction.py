"""Prediction and evaluation with the model of a finished run."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemask.data import Batch, DataBundle, Loader, Split, load
from edgemask.data.encoders import read_encoder
from edgemask.data.inputs import read_inputs, read_rows
from edgemask.data.labels import Classes, labels_from_text
from edgemask.engine.evaluation import Evaluator
from edgemask.engine.processes import Processes
from edgemask.engine.resolve import is_object
from edgemask.engine.run import Run
from edgemask.engine.run_data import Objects, build_run_data
from edgemask.errors import UserError

__all__ = ["Predictions", "Predictor", "evaluate", "predict"]


@dataclass(frozen=True)
class Predictions:
    """A model's predictions."""

    labels: NDArray[np.int64]
    """The likeliest class of each sample."""

    probabilities: NDArray[np.float32]
    """The probability of each class, ``(N, C)``."""

    class_names: tuple[str, ...]
    """Names of the classes."""

    inputs: tuple[str, ...]
    """Names of the samples: file names, ids of a table, or their positions."""

    label_values: tuple[Any, ...] | None = None
    """The label of each class as it was given in training; None: its name."""

    @property
    def values(self) -> NDArray[Any]:
        """The predicted label of each sample, as labels were given in training."""
        return np.asarray(self.label_values or self.class_names)[self.labels]

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self) -> list[dict[str, Any]]:
        """Return one plain mapping per sample, for JSON or CSV."""
        return [
            {
                "input": name,
                "label": int(label),
                "class": self.class_names[label],
                "probability": float(row[label]),
            }
            for name, label, row in zip(self.inputs, self.labels, self.probabilities, strict=True)
        ]


class Predictor:
    """A trained model with the preparation of its samples.

    Args:
        model: The network.
        about: Its card, as ``model.safetensors`` holds it: classes, input shape, preprocessing.
        dtype: Number format of inputs and probabilities, that of the model's weights.
    """

    def __init__(
        self, model: nn.Module, about: dict[str, Any], *, dtype: torch.dtype = torch.float32
    ):
        self.model, self.about, self.dtype = model, about, dtype
        stored = about.get("encoder")
        self.encoder = None if stored is None else read_encoder(stored)
        self.class_names = tuple(about["class_names"])
        values = about.get("label_values")
        self.label_values = self.class_names if values is None else tuple(values)

    def __call__(self, inputs: Any, *, batch_size: int = 256) -> Predictions:
        """Predict the classes of new samples, in any form that training takes."""
        split = read_inputs(inputs, self.about, self.encoder)
        names = tuple(split.names or (str(i) for i in range(len(split))))
        chances = self._probabilities(split, batch_size)
        broken = np.flatnonzero(np.isnan(chances).any(1))
        if broken.size:
            raise UserError(
                f"the model's output for {names[broken[0]]} is not a number (NaN), and so for "
                f"{broken.size} of {len(chances)} inputs; its weights are unusable or the input is "
                "far outside of the training data"
            )
        return Predictions(
            chances.argmax(1), chances, self.class_names, names, label_values=self.label_values
        )

    def _probabilities(self, split: Split, batch_size: int) -> NDArray[Any]:
        if not len(split):
            return torch.empty(0, len(self.class_names), dtype=self.dtype).numpy()
        bundle = self.bundle(split)
        loader = Loader(split, bundle=bundle, views=("none",), batch_size=batch_size, shuffle=False)
        model = self.model.eval()
        device = next((p.device for p in model.parameters()), torch.device("cpu"))
        with torch.no_grad():
            rows = [
                torch.softmax(model(self._inputs(batch, bundle).to(device)).to(self.dtype), dim=1)
                for batch in loader
            ]
        return torch.cat(rows).cpu().numpy()

    def _inputs(self, batch: Batch, bundle: DataBundle) -> Tensor:
        x = _channels(batch.views[0], bundle)
        return x.to(self.dtype) if x.is_floating_point() else x

    def bundle(self, split: Split) -> DataBundle:
        """Return a dataset of new samples, prepared as the training data were."""
        about = self.about
        return DataBundle(
            name=about["dataset"],
            num_classes=len(self.class_names),
            class_names=self.class_names,
            input_shape=tuple(about["input_shape"]),
            train=split,
            tests={"test": split},
            normalisation=(tuple(about["mean"]), tuple(about["std"])),
            recipe=about["views"],
            clean_known=False,
            label_values=self.label_values,
            encoder=self.encoder,
        )

    def labelled(self, data: Any, labels: Any, *, label: str | None = None) -> DataBundle:
        """Return a dataset of new samples and their labels, to be tested on.

        Args:
            data: New samples, or a file of them.
            labels: Their labels; None takes them from a column of the table.
            label: That column; the one of the training data otherwise.
        """
        split = read_inputs(data, self.about, self.encoder)
        if labels is None:
            column = label or getattr(self.encoder, "label_column", None) or "label"
            table = read_rows(data, self.encoder)
            words = table[column]
            labels = labels_from_text(words.tolist()) if table.lines is not None else words
        classes = Classes(self.class_names, self.label_values)
        split.labels = classes.numbers(labels, where="labels")  # type: ignore[misc]
        return self.bundle(split)


def predict(run: Run, inputs: Any, *, batch_size: int = 256) -> Predictions:
    """Run a trained model on new samples, prepared as its training data were.

    Args:
        run: A finished run.
        inputs: Samples in any form that training takes: uint8 images or float features before
            normalisation, a frame, a list of texts, a CSV or Parquet file; an image file, a folder
            of image files, or a list of image files.
        batch_size: Samples per forward pass.
    """
    return Predictor(run.model, run.card)(inputs, batch_size=batch_size)


def _channels(x: Tensor, bundle: DataBundle) -> Tensor:
    """Turn colour images into grey ones for a model that takes those."""
    if x.ndim == 4 and x.shape[1] == 3 and bundle.input_shape[0] == 1:
        return (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
    return x


def evaluate(
    run: Run,
    *,
    data: Any = None,
    label: str | None = None,
    inference: str | None = None,
    test_limit: int | None = None,
    top5: bool = False,
    batch_size: int = 128,
) -> dict[str, Any]:
    """Test a finished run's model, by default on all images of its own test sets.

    Args:
        run: The run.
        data: Another dataset of the same classes: a ``DataBundle``, a pair ``(samples, labels)``,
            or for tables and texts ``csv:FILE`` or ``parquet:FILE``, all of whose rows are used.
            Needed where the run's data was an object.
        label: The column of labels in such a file; that of the training data otherwise.
        inference: ``dense`` or ``expected``, for heads that know both; None as trained.
        test_limit: Test on this many samples of each set; None means all.
        top5: Whether to report top-5 accuracy too.
        batch_size: Samples per forward pass.

    Returns:
        Accuracy and balanced accuracy of each test set under flat keys, ``per_class_accuracy`` of
        the main one, and ``samples``, how many it has.
    """
    config = run.config
    if data is None and is_object(config.data.spec):
        raise UserError(f"{run.path} was trained on a data object; pass it as data=")
    data = _test_data(run, data, label)
    where = config.data.model_copy(update={"test_limit": test_limit})
    clean = config.noise.model_copy(update={"spec": "none"})
    job = build_run_data(
        config.model_copy(update={"data": where, "noise": clean}), Objects(bundle=data)
    )
    _check_encoder(run, job.bundle)
    model = copy.deepcopy(run.model)
    if inference is not None:
        heads = [m for m in model.modules() if hasattr(m, "inference")]
        if not heads:
            raise UserError(f"the head {config.head.name!r} has one way of inference only")
        for head in heads:
            head.inference = inference  # type: ignore[assignment]
    processes = Processes(folder=None)
    model = model.to(processes.device)
    evaluator = Evaluator(
        logits=lambda x: {"model": model(x)},
        nets={"model": model},
        bundle=job.bundle,
        processes=processes,
        batch_size=batch_size,
        workers=config.data.workers,
    )
    tested, result = evaluator.test(job.named_tests, top5=top5)
    main = tested["test"]
    return result | {
        "per_class_accuracy": main.per_class(job.bundle.num_classes),
        "class_names": list(job.bundle.class_names),
        "samples": len(main.labels),
    }


def _test_data(run: Run, data: Any, label: str | None) -> DataBundle | None:
    if isinstance(data, tuple) and len(data) == 2:
        return Predictor(run.model, run.card).labelled(*data)
    if isinstance(data, str):
        kind, _, path = data.partition(":")
        if kind not in ("csv", "parquet") or run.card.get("encoder") is None:
            data = load(data)
        else:
            return Predictor(run.model, run.card).labelled(Path(path), None, label=label)
    if label is not None:
        raise UserError("label: names a column of csv:FILE or parquet:FILE given as data")
    if data is not None and not isinstance(data, DataBundle):
        raise UserError(f"data: expected a DataBundle or (samples, labels), got {type(data)}")
    return data


def _check_encoder(run: Run, bundle: DataBundle) -> None:
    """Refuse samples that were encoded otherwise than the training data."""
    own = None if bundle.encoder is None else bundle.encoder.to_json()
    if own != run.card.get("encoder"):
        raise UserError(
            f"the preprocessing of these data is not that of {run.path} (the data have changed, or "
            "were read on their own); give csv:FILE, or samples and labels: data=(x, y)"
        )
