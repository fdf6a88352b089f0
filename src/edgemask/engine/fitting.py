"""The whole job in one call."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from edgemask.data import DataBundle, from_arrays, from_dataset
from edgemask.engine.config import Config, Options
from edgemask.engine.job import Objects
from edgemask.engine.observer import Observer
from edgemask.engine.recipes import RECIPES
from edgemask.engine.resolve import resolve
from edgemask.engine.run import Run
from edgemask.engine.schema import merge
from edgemask.engine.training import train
from edgemask.errors import UserError
from edgemask.methods import Method
from edgemask.noise import NoisyLabels

__all__ = ["fit"]

_DEFAULTS: dict[str, Any] = {"model": {"name": "small-cnn"}, "head": {"name": "sem"}}


def fit(
    data: Any,
    labels: Any = None,
    *,
    test: Any = None,
    model: str | nn.Module | Callable[[], nn.Module] | None = None,
    head: str | None = None,
    loss: str | nn.Module | None = None,
    method: str | Method | None = None,
    noise: str | NoisyLabels | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    seed: int | None = None,
    validation: float | None = None,
    select: str | None = None,
    class_names: Sequence[str] | None = None,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    fresh: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train a classifier on partly wrong labels and find out which ones are doubtful.

    Args:
        data: A dataset by name (``"digits"``, ``"imagefolder:photos/"``), an array or tensor of
            samples, any map-style dataset of ``(sample, label)``, or a ``DataBundle``.
        labels: Class numbers or names, where ``data`` is an array (or to replace a dataset's own).
        test: Test data in the same form: ``(samples, labels)`` or a dataset. Without it a fifth of
            the training data is held out.
        model: A name, a module (copied, trained on from its weights), or a function that makes one.
            Default: ``"small-cnn"``.
        head: The classifier layer by name: ``"sem"``, ``"linear"``, ``"kan"`` ... On a model of
            your own its last linear layer is replaced in the copy, weights kept. Default:
            ``"sem"``.
        loss: A name, or a module called as ``loss(logits, target)``. Default: ``"ce"``.
        method: A name, or a ``Method``. Default: ``"supervised"``.
        noise: Noise to put on clean labels, for experiments: ``"sym:0.6"``; or ready labels.
            Default: none.
        epochs: Passes over the data.
        batch_size: Samples of one step.
        lr: Learning rate.
        seed: Seed of weights, order, augmentation and masks.
        validation: Share of the noisy data held out to choose an epoch by.
        select: Whose weights to keep: those of the ``last`` epoch, or of the best one on those
            samples (``validation``) or on the dataset's clean ones (``clean_validation``).
            Default: ``"last"``.
        class_names: Names of the classes, where ``data`` has none.
        recipe: A recipe that the arguments above are laid upon: it takes the place of their
            defaults, and they go before it where given.
        settings: Further settings as nested mapping, as in a config file; they go before all.
        out: The run's folder; None means ``runs/<name>-<hash>`` below the working directory.
        fresh: Whether to throw away what the folder holds.
        observers: Who watches.

    Returns:
        The run, with ``model``, ``history``, ``summary``, ``trust`` and ``samples``. The same call
        again opens the finished run, or goes on with a half-done one.

    Example:
        >>> import edgemask as em
        >>> run = em.fit("digits", noise="sym:0.6", epochs=30)   # doctest: +SKIP
        >>> run.summary["test/accuracy"]["last"]                 # doctest: +SKIP
        0.93
    """
    given: dict[str, Any] = {}
    bundle: DataBundle | None = None
    if isinstance(data, str):
        given["data"] = {"spec": data}
        if labels is not None or test is not None:
            raise UserError(f"the dataset {data!r} brings its own labels and test set")
    else:
        bundle = _bundle(data, labels, test, class_names)
        given["data"] = {"spec": f"object:{_data_identity(bundle)}"}
    if head is not None:
        given["head"] = {"name": head}
    if model is not None:
        given["model"] = {"name": model if isinstance(model, str) else _identity(model)}
    if loss is None and isinstance(method, Method):
        loss = method.loss
    if loss is not None:
        given["loss"] = {"name": loss} if isinstance(loss, str) else {"name": "ce", "preset": None}
    if isinstance(method, str):
        given["method"] = {"name": method}
    if noise is not None:
        spec = noise if isinstance(noise, str) else f"object:{noise.fingerprint[:12]}"
        given["noise"] = {"spec": spec}
    options: dict[str, dict[str, Any]] = {
        "train": {"epochs": epochs, "batch_size": batch_size, "seed": seed, "select": select},
        "optim": {"lr": lr},
        "data": {"validation": validation},
    }
    chosen = {
        group: {key: value for key, value in values.items() if value is not None}
        for group, values in options.items()
    }
    base = _DEFAULTS if recipe is None else RECIPES[recipe].layer()
    config = resolve(merge(base, given, chosen, settings or {}))
    config = _named(config, loss=loss, method=method)
    objects = Objects(
        bundle=bundle,
        labels=noise if isinstance(noise, NoisyLabels) else None,
        model=None if isinstance(model, str) else model,
        criterion=loss if isinstance(loss, nn.Module) else None,
        method=method if isinstance(method, Method) else None,
    )
    return train(config, out=out, fresh=fresh, observers=observers, objects=objects)


def _bundle(data: Any, labels: Any, test: Any, class_names: Sequence[str] | None) -> DataBundle:
    if isinstance(data, DataBundle):
        if labels is not None or test is not None:
            raise UserError("a DataBundle brings its own labels and test sets")
        return data
    if isinstance(data, Tensor | np.ndarray):
        if labels is None:
            raise UserError("fit(samples) needs labels: fit(samples, labels)")
        x_test, y_test = test if test is not None else (None, None)
        return from_arrays(data, labels, x_test=x_test, y_test=y_test, class_names=class_names)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return from_dataset(data, test, labels=labels, class_names=class_names)
    raise UserError(
        f"fit takes a dataset name, arrays, a map-style dataset or a DataBundle, got {type(data)}"
    )


def _data_identity(bundle: DataBundle) -> str:
    """Name data by its labels and a few of its samples."""
    sha = hashlib.sha256(np.ascontiguousarray(bundle.train.labels).tobytes())
    if bundle.validation is not None:
        sha.update(np.ascontiguousarray(bundle.validation.labels).tobytes())
    sha.update(repr((bundle.name, bundle.input_shape, bundle.class_names)).encode())
    some = np.unique(np.linspace(0, len(bundle.train) - 1, 64).astype(np.int64))
    sha.update(bundle.train.raw(torch.from_numpy(some)).numpy().tobytes())
    return f"{bundle.name}-{sha.hexdigest()[:12]}"


def _identity(thing: Any) -> str:
    """Name an object by its class and its looks, not by its weights."""
    name = getattr(thing, "__name__", type(thing).__name__)
    look = repr(thing) if isinstance(thing, nn.Module) else name
    return f"object:{name}-{hashlib.sha256(look.encode()).hexdigest()[:12]}"


def _named(config: Config, *, loss: Any, method: Any) -> Config:
    """Write the names of loss and method objects into the config."""
    if isinstance(loss, nn.Module):
        named = dataclasses.replace(config.loss, name=_identity(loss), options={})
        config = dataclasses.replace(config, loss=named)
    if isinstance(method, Method):
        options: Options = {
            key: value
            for key, value in vars(method).items()
            if isinstance(value, bool | int | float | str) and not key.startswith("_")
        }
        other = dataclasses.replace(config.method, name=_identity(method), options=options)
        config = dataclasses.replace(config, method=other)
    return config
