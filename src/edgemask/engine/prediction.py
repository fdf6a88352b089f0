"""Prediction and evaluation with the model of a finished run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edgemask.data import DataBundle, FileSplit, Loader, Split, TensorSplit
from edgemask.engine.deploy import read_weights
from edgemask.engine.evaluation import Evaluator
from edgemask.engine.processes import Processes
from edgemask.engine.resolve import is_object
from edgemask.engine.run import Run
from edgemask.engine.run_data import Objects, build_run_data
from edgemask.errors import UserError

__all__ = ["Predictions", "evaluate", "predict"]


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
    """Names of the samples: file names, or their positions."""

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


def predict(
    run: Run,
    inputs: Tensor | NDArray[Any] | str | Path | Sequence[str | Path],
    *,
    batch_size: int = 256,
) -> Predictions:
    """Run a trained model on arrays or image files, prepared as its training data was.

    Args:
        run: A finished run.
        inputs: Samples as in training (uint8 images or float features, before normalisation), an
            image file, a folder of image files, or a list of image files.
        batch_size: Samples per forward pass.
    """
    _, about = read_weights(run.folder / "model.safetensors")
    split = _split(inputs, about)
    names = tuple(split.names or (str(i) for i in range(len(split))))
    mean, std = tuple(about["mean"]), tuple(about["std"])
    bundle = DataBundle(
        name=about["dataset"],
        num_classes=len(about["class_names"]),
        class_names=tuple(about["class_names"]),
        input_shape=tuple(about["input_shape"]),
        train=split,
        tests={"inputs": split},
        normalisation=(mean, std),
        recipe=about["views"],
        clean_known=False,
    )
    loader = Loader(split, bundle=bundle, views=("none",), batch_size=batch_size, shuffle=False)
    model = run.model
    with torch.no_grad():
        rows = [
            torch.softmax(model(_channels(batch.views[0], bundle)).float(), dim=1)
            for batch in loader
        ]
    chances = torch.cat(rows).numpy() if rows else np.empty((0, bundle.num_classes), np.float32)
    broken = np.flatnonzero(np.isnan(chances).any(1))
    if broken.size:
        raise UserError(
            f"the model's output for {names[broken[0]]} is not a number (NaN), and so for "
            f"{broken.size} of {len(chances)} inputs; its weights are unusable or the input is "
            "far outside of the training data"
        )
    return Predictions(chances.argmax(1), chances, bundle.class_names, names)


def _split(inputs: Any, about: dict[str, Any]) -> Split:
    shape = tuple(about["input_shape"])
    if isinstance(inputs, Tensor | np.ndarray):
        data = torch.as_tensor(inputs)
        if data.ndim == 4 and data.shape[1:] != shape and data.shape[3] == shape[0]:
            data = data.permute(0, 3, 1, 2)
        if data.ndim == 3 and len(shape) == 3 and shape[0] == 1:
            data = data[:, None]
        if tuple(data.shape[1:]) != shape:
            raise UserError(
                f"the model takes samples of shape {shape}, got {tuple(data.shape[1:])}"
            )
        if data.dtype != torch.uint8:
            data = data.float()
            broken = (~data.isfinite().flatten(1).all(1)).nonzero()
            if len(broken):
                raise UserError(
                    f"input {int(broken[0])} holds values that are not finite numbers, and so do "
                    f"{len(broken)} of {len(data)} inputs; fill them in or leave them out"
                )
        return TensorSplit(data, np.zeros(len(data), dtype=np.int64))
    if len(shape) != 3:
        raise UserError(f"the model takes features of shape {shape}, not image files")
    paths = _files(inputs)
    return FileSplit(paths, np.zeros(len(paths), dtype=np.int64), size=shape[-1])


def _channels(x: Tensor, bundle: DataBundle) -> Tensor:
    """Turn colour images into grey ones for a model that takes those."""
    if x.ndim == 4 and x.shape[1] == 3 and bundle.input_shape[0] == 1:
        return (x * x.new_tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(1, keepdim=True)
    return x


def _files(inputs: str | Path | Sequence[str | Path]) -> list[Path]:
    from edgemask.data.images import EXTENSIONS

    given = [inputs] if isinstance(inputs, str | Path) else list(inputs)
    paths: list[Path] = []
    for entry in map(Path, given):
        if entry.is_dir():
            found = sorted(p for p in entry.rglob("*") if p.suffix.lower() in EXTENSIONS)
            if not found:
                raise UserError(f"the folder {entry} holds no image file")
            paths += found
        elif entry.is_file():
            paths.append(entry)
        else:
            raise UserError(f"there is no file or folder {entry}")
    return paths


def evaluate(
    run: Run,
    *,
    data: DataBundle | None = None,
    inference: str | None = None,
    test_limit: int | None = None,
    top5: bool = False,
    batch_size: int = 128,
) -> dict[str, Any]:
    """Test a finished run's model, by default on all images of its own test sets.

    Args:
        run: The run.
        data: Another dataset of the same classes; needed where the run's data was an object.
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
    where = config.data.model_copy(update={"test_limit": test_limit})
    clean = config.noise.model_copy(update={"spec": "none"})
    job = build_run_data(
        config.model_copy(update={"data": where, "noise": clean}), Objects(bundle=data)
    )
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
