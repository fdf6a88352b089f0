"""The whole job in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from edgemask.audit import read_corrections
from edgemask.data import DataBundle, from_samples
from edgemask.engine.compose import compose
from edgemask.engine.observer import Observer
from edgemask.engine.plan import plan
from edgemask.engine.resolve import object_name
from edgemask.engine.run import Run
from edgemask.engine.run_data import Objects
from edgemask.engine.train import train
from edgemask.errors import UserError
from edgemask.methods import Method
from edgemask.models.hf_model import is_transformers_model
from edgemask.noise import NoisyLabels

__all__ = ["column_keywords", "fit", "own_bundle"]


def fit(
    data: Any = None,
    labels: Any = None,
    *,
    test: Any = None,
    id: Any = None,  # noqa: A002 - as the command calls it
    text: str | Sequence[str] | None = None,
    model: str | nn.Module | Callable[[], nn.Module] | None = None,
    head: str | Callable[..., nn.Module] | None = None,
    loss: str | nn.Module | Callable[..., nn.Module] | None = None,
    method: str | Method | type[Method] | None = None,
    noise: str | NoisyLabels | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    seed: int | None = None,
    validation: float | None = None,
    select: str | None = None,
    corrections: Any = None,
    class_names: Sequence[str] | None = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    set: Iterable[str] | Mapping[str, Any] = (),  # noqa: A002 - as the command calls it
    out: str | Path | None = None,
    fresh: bool = False,
    device: str = "auto",
    dry_run: bool = False,
    observers: Sequence[Observer] = (),
) -> Run:
    """Train a classifier on partly wrong labels and find out which ones are doubtful.

    ``edgemask train`` is this call. Settings are joined in the order ``recipe``, ``config``,
    keywords, ``settings``, ``set``: later ones override earlier ones, and a head, loss, method or
    model under a new name starts from its own defaults.

    Args:
        data: A dataset by name (``"digits"``, ``"imagefolder:photos/"``, ``"csv:people.csv"``); an
            array, tensor or sparse matrix; a frame of pandas or polars; a ``datasets.Dataset``; a
            list of rows, texts or pictures; any map-style dataset of ``(sample, label)``; or a
            ``DataBundle``.
        labels: The labels (names, whole numbers, booleans), or the column of a table that holds
            them.
        test: Test data in the same form: ``(samples, labels)``, or samples that hold their labels.
            Without it a fifth of the training data is held out.
        id: The column of a table that names its rows, or names of all samples; file names and
            row numbers otherwise.
        text: The column or columns of a table that hold text. It becomes TF-IDF features, or the
            tokens of a model ``"hf:NAME"``.
        model: A name, ``"name(option=value)"``, a module (copied, trained on from its weights), or
            a function that makes one, which a method with two networks needs. Default: by the
            shape of the data, ``"mlp"`` for tables, ``"small-cnn"``, ``"cnn8"`` or
            ``"timm:resnet18"`` for images.
        head: The classifier layer: a name (``"sem(rho=0.3)"``, ``"kan"`` ...), a class with the
            signature of ``nn.Linear``, or a function. On a model of your own its last linear layer
            is replaced in the copy, weights kept. Default: ``"linear"``.
        loss: A name, a module called as ``loss(logits, target)``, or its class. Default: ``"elr"``,
            early-learning regularisation, where no head, loss, method or recipe is named, because
            it was measured to be safe on clean labels and good on wrong ones (docs/defaults.md);
            otherwise ``"ce"``.
        method: A name, a ``Method``, or its class. Default: ``"supervised"``.
        noise: Noise to put on clean labels, for experiments: ``"sym:0.6"``; or ready labels.
            Default: none.
        epochs: Passes over the data.
        batch_size: Samples of one step. Default: 128; with fewer than 10,000 samples 64, with fewer
            than 2,000 32, so that an epoch has enough steps. A recipe has its own.
        lr: Learning rate.
        seed: Seed of weights, order, augmentation and masks.
        validation: Share of the noisy data held out to choose an epoch by.
        select: Whose weights to keep: those of the ``last`` epoch, or of the best one on those
            samples (``validation``) or on the dataset's clean ones (``clean_validation``).
            Default: ``"last"``.
        corrections: What a person decided about labels (``keep``, ``relabel``, ``drop``): a CSV
            file, a frame, a list of mappings or :class:`~edgemask.audit.Corrections`.
        class_names: Names of the classes, where ``data`` has none.
        recipe: Published settings to start from, by name (``"cifar10/jal-sem"``).
        config: A YAML file of settings.
        settings: Settings as nested mapping, as in such a file.
        set: Settings as ``"optim.lr=0.1"`` lines, or as a mapping by dotted key.
        out: The run's folder; None means ``runs/<name>-<hash>`` below the working directory.
        fresh: Whether to remove what the folder holds and start over.
        device: ``auto`` (the fastest there is), ``cpu``, ``cuda`` or ``cuda:N``.
        dry_run: Whether to return what would be done, in ``config`` and ``plan``, without training.
        observers: Objects that are called during training.

    Returns:
        The run, with ``model``, ``history``, ``summary``, ``trust`` and ``samples``. The same call
        again opens the finished run, or continues a half-done one.

    Example:
        >>> import edgemask as em
        >>> run = em.fit("digits", noise="sym:0.6", epochs=30)   # doctest: +SKIP
        >>> run.summary["test/accuracy"]["last"]                 # doctest: +SKIP
        0.93
        >>> em.fit("digits", head="sem(rho=0.3)", dry_run=True).config.head.options["rho"]
        0.3
    """
    bundle, columns = None, {}
    if isinstance(data, str) or data is None:
        columns = column_keywords(data, labels, id, text)
        for name, value in (("test", test), ("class_names", class_names)):
            if value is not None:
                raise UserError(f"{name}: the dataset {data!r} has its own {name}")
    else:
        bundle = own_bundle(data, labels, test, class_names, id, text, model)
    decisions = None
    if isinstance(corrections, Path):
        corrections = str(corrections)
    elif corrections is not None and not isinstance(corrections, str):
        decisions = read_corrections(corrections)
    objects = Objects(
        bundle=bundle,
        labels=noise if isinstance(noise, NoisyLabels) else None,
        corrections=decisions,
        model=_given(model),
        head=_given(head),
        criterion=_given(loss),
        method=_given(method),
    )
    keywords = {
        "data": data if bundle is None else f"object:{bundle.name}",
        **columns,
        "noise": object_name(noise) if isinstance(noise, NoisyLabels) else noise,
        "model": model,
        "head": head,
        "loss": loss,
        "method": method,
        "epochs": epochs,
        "batch_size": batch_size,
        "lr": lr,
        "seed": seed,
        "validation": validation,
        "corrections": corrections if decisions is None else object_name(decisions),
        "select": select,
    }
    resolved, objects = compose(recipe, config, keywords, set, settings=settings, objects=objects)
    start = plan if dry_run else train
    return start(
        resolved, out=out, fresh=fresh, device=device, objects=objects, observers=observers
    )


def _given(part: Any) -> Any:
    return None if isinstance(part, str) else part


def column_keywords(data: str | None, labels: Any, ids: Any, text: Any) -> dict[str, Any]:
    """Return the columns of a table that is read by name, as keywords."""
    named = {"label": labels, "id": ids, "text": text}
    if data is not None and data.partition(":")[0] not in ("csv", "parquet"):
        for name, value in named.items():
            if value is not None:
                called = "labels" if name == "label" else name
                raise UserError(
                    f"{called}: the dataset {data!r} has no columns to name, and its own labels"
                )
    for name, value in named.items():
        if value is not None and not isinstance(value, str | list | tuple):
            raise UserError(f"{name}: expected the name of a column of {data!r}, got {value!r}")
    return {key: list(v) if isinstance(v, tuple) else v for key, v in named.items()}


def own_bundle(
    data: Any,
    labels: Any,
    test: Any,
    class_names: Sequence[str] | None,
    ids: Any,
    text: Any,
    model: Any,
) -> DataBundle:
    """Return samples that are in memory as a dataset; see :func:`fit` for the arguments."""
    if isinstance(data, DataBundle):
        given = (("labels", labels), ("test", test), ("class_names", class_names), ("id", ids),
                 ("text", text))  # fmt: skip
        for name, value in given:
            if value is not None:
                raise UserError(f"{name}: a DataBundle has its own {name}")
        return data
    options: dict[str, Any] = {}
    transformer = is_transformers_model(model)
    if transformer or (isinstance(model, str) and model.startswith("hf:")):
        options["tokenizer"] = _tokenizer(model)
        if str(getattr(data, "dtype", "")).removeprefix("torch.").startswith("int"):
            options["recipe"] = "as-given"  # token ids
    return from_samples(
        data, labels, test=test, class_names=class_names, id=ids, text=text, **options
    )


def _tokenizer(model: Any) -> str | None:
    if isinstance(model, str):
        return model.removeprefix("hf:").partition("(")[0].strip()
    return getattr(model, "name_or_path", None) or None
