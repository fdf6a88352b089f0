"""The config of a run: every setting with its type, range, default and meaning."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from edgemask._options import Range
from edgemask.errors import MissingExtraError, UserError, unknown_key

try:
    from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
except ImportError as error:
    raise MissingExtraError("pydantic", "app", "to train and to read configs", error) from error

__all__ = [
    "Config",
    "DataConfig",
    "EvalConfig",
    "HeadConfig",
    "LogConfig",
    "LossConfig",
    "MethodConfig",
    "ModelConfig",
    "NoiseConfig",
    "OptimConfig",
    "ScheduleConfig",
    "TrainConfig",
    "build",
    "flatten",
    "json_schema",
    "merge",
    "to_dict",
    "unflatten",
]

Scalar = bool | int | float | str | None
Options = dict[str, Scalar | list[Scalar] | list[list[float]]]
Count = Annotated[int, AfterValidator(Range(1))]
CountOrZero = Annotated[int, AfterValidator(Range(0))]
NonNegative = Annotated[float, AfterValidator(Range(0))]
Positive = Annotated[float, AfterValidator(Range(above=0))]
Seed = Annotated[int, AfterValidator(Range(0, 2**32 - 1))]
BelowOne = Annotated[float, AfterValidator(Range(0, below=1))]


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class DataConfig(_Section):
    """The training data."""

    spec: str = "digits"
    """The dataset: a name (``digits``, ``cifar10``) or ``kind:path`` (``npz:my.npz``,
    ``imagefolder:photos/``)."""

    options: Options = {}
    """Arguments of the dataset's reader (``size``, ``test_fraction`` ...)."""

    views: str | None = None
    """How views are made, by the name of a code base (``cifar10/dividemix``); None means the
    dataset's own."""

    root: str | None = None
    """Folder of the datasets; None means the ``EDGEMASK_DATA`` variable or the usual cache."""

    corrections: str | None = None
    """A CSV file of corrected labels, as the review page saves it; None means none."""

    fold: str | None = None
    """Train on all samples, test ones included, but those of a fold, and test on that: ``FILE#K``,
    where the ``.npy`` file holds the fold of each sample; ``all`` leaves none out. None: training
    and test data as they are."""

    limit: Count | None = None
    """Train on this many samples only, drawn evenly over the classes; None means all."""

    test_limit: Count | None = None
    """Test on this many samples of each test set; None means all."""

    validation: BelowOne = 0.0
    """Share of the noisy training data held out to choose an epoch by; 0 means none."""

    workers: CountOrZero = 0
    """Processes that read images from files; 0 reads in the main process."""


class NoiseConfig(_Section):
    """Label noise that is added to clean labels."""

    spec: str = "none"
    """``none`` (labels as they come), ``kind:rate`` (``sym:0.6``, ``asym:0.4``), ``human:worst``
    or ``file:labels.csv``."""

    protocol: Literal["paper", "jal", "apl", "dividemix", "nust"] = "paper"
    """The code base whose generator is meant; ignored where no generator makes the labels."""

    seed: Seed = 0
    """Seed of the label noise, separate from the run's."""


class ModelConfig(_Section):
    """The network."""

    name: str | None = None
    """Name of the backbone, or ``timm:<name>``; None: one that fits the data."""

    width: Positive = 1.0
    """Factor on the number of channels."""

    pretrained: bool | str = False
    """Whether to start from published weights (timm models), or a file of weights."""

    options: Options = {}
    """Arguments of the model itself."""


class HeadConfig(_Section):
    """The classifier layer."""

    name: str = "linear"
    """Name of the head: ``linear``, ``sem``, ``kan``, ``dropconnect`` ..."""

    at: Annotated[str, Field(coerce_numbers_to_str=True)] | None = None
    """Dotted name of the layer to replace in a foreign model, such as ``fc`` or, in a Sequential,
    ``2``; None finds it."""

    options: Options = {}
    """Arguments of the head (``rho``, ``beta`` ...)."""


class LossConfig(_Section):
    """The loss."""

    name: str = "ce"
    """Name of the loss."""

    preset: str | None = "auto"
    """Dataset whose published hyper-parameters are taken (``cifar10``); ``auto`` means the one
    trained on or its nearest stand-in, None the loss's own defaults. ``options`` override them."""

    options: Options = {}
    """Arguments of the loss."""


class MethodConfig(_Section):
    """The training method."""

    name: str = "supervised"
    """Name of the method."""

    options: Options = {}
    """Arguments of the method."""


class ScheduleConfig(_Section):
    """The learning-rate schedule."""

    name: str = "cosine"
    """``constant``, ``cosine``, ``step``, ``milestones``, ``restarts`` or ``linear``."""

    options: Options = {}
    """Arguments of the schedule (``period``, ``gamma``, ``at`` ...)."""

    warmup: NonNegative = 0.0
    """Epochs over which the rate first rises linearly from 0, step by step."""


class OptimConfig(_Section):
    """The optimiser."""

    name: Literal["sgd", "adam", "adamw"] = "sgd"
    """The optimiser."""

    lr: Annotated[float, AfterValidator(Range(0, 1e36))] = 0.01
    """Learning rate."""

    momentum: BelowOne = 0.9
    """Momentum of SGD."""

    nesterov: bool = False
    """Nesterov momentum of SGD."""

    beta1: BelowOne = 0.9
    """First-moment decay of Adam and AdamW."""

    beta2: BelowOne = 0.999
    """Second-moment decay of Adam and AdamW."""

    weight_decay: NonNegative = 0.0
    """L2 term of SGD and Adam, decoupled decay of AdamW."""

    l1: NonNegative | None = None
    """Weight of the sum of absolute parameters, added to the loss before ``backward``; None: what
    is published with the settings of the loss, else 0."""

    clip: Positive | None = None
    """Largest gradient norm of one optimiser's networks, the L1 part included; None: no limit."""

    schedule: ScheduleConfig = ScheduleConfig()
    """The learning-rate schedule."""


class TrainConfig(_Section):
    """The training loop."""

    epochs: Count = 20
    """Passes over the training data."""

    batch_size: Count = 128
    """Samples of one optimiser step, over all processes and micro-batches. ``fit`` and ``train``
    take 64 for fewer than 10,000 samples and 32 for fewer than 2,000, where neither this nor a
    recipe is given."""

    accumulate: Count = 1
    """Micro-batches that one optimiser step is split into."""

    seed: int = 0
    """Seed of initial weights, data order, augmentation and masks."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Number format of the forward pass."""

    compile: str | None = None
    """Backend of ``torch.compile`` (``inductor``, ``aot_eager``); None runs eagerly."""

    channels_last: bool | None = None
    """Whether the numbers of a pixel lie side by side in memory, which makes convolutions faster
    and changes results by rounding alone; None: for images of three channels or more."""

    record_every: CountOrZero | None = None
    """Epochs between two evaluation passes over the training set (loss, confidence, share
    memorised), each about a third of an epoch's work. None: every fourth epoch; 0 evaluates at the
    end only."""

    threads: Count | None = None
    """CPU threads; None leaves torch's choice."""

    select: Literal["last", "validation", "clean_validation"] = "last"
    """Whose weights are the model in the end: the last epoch's; or, for each network, those of the
    tested epoch that did best on the noisy samples of ``data.validation`` (``validation``) or on
    the dataset's own clean validation samples (``clean_validation``)."""

    rollback: bool = False
    """Whether each network continues from its best weights after every test of ``select``."""


class EvalConfig(_Section):
    """How the model is tested. Not part of the run's identity, but for ``train.select``."""

    batch_size: Count = 128
    """Samples of one forward pass. Larger ones leave a CPU's cache and take twice the time."""

    every: Count = 1
    """Epochs between two tests; the last epoch is always tested. Only a tested epoch can be chosen
    by ``train.select``."""

    top5: bool = False
    """Whether to report top-5 accuracy too."""


class LogConfig(_Section):
    """What is written beside the results. Not part of the run's identity."""

    trackers: list[str] = ["tensorboard"]
    """Trackers of Accelerate by name (``tensorboard``, ``wandb``, ``mlflow``, ``trackio`` ...)."""

    checkpoint_epochs: CountOrZero = 1
    """Epochs between two checkpoints; 0: only where the run is stopped. Until the next one a run
    that is killed loses what it has done, its metrics included."""

    checkpoint_steps: Count | None = None
    """Optimiser steps between two checkpoints inside an epoch; None: epochs only."""

    checkpoint_seconds: NonNegative | None = None
    """Seconds between two checkpoints inside an epoch; None: epochs only."""

    thumbnails: CountOrZero = 64
    """Images of the most doubtful samples that are kept for the report."""

    record: list[str] = []
    """What else is measured during training: ``gradient_error``, ``bounds``, ``criteria``,
    ``overlap``, ``calibration``. Confidence, memorisation and retention always are."""

    record_steps: Count = 8
    """Steps per epoch that ``record`` measures, evenly spaced."""


class Config(_Section):
    """One run."""

    name: str | None = None
    """Name of the run, the first part of its folder; None makes one from data, loss and head."""

    data: DataConfig = DataConfig()
    """The training data."""

    noise: NoiseConfig = NoiseConfig()
    """Label noise that is added to clean labels."""

    model: ModelConfig = ModelConfig()
    """The network."""

    head: HeadConfig = HeadConfig()
    """The classifier layer."""

    loss: LossConfig = LossConfig()
    """The loss."""

    method: MethodConfig = MethodConfig()
    """The training method."""

    optim: OptimConfig = OptimConfig()
    """Optimiser, regularisation and learning rate."""

    train: TrainConfig = TrainConfig()
    """The training loop."""

    eval: EvalConfig = EvalConfig()
    """How the model is tested."""

    log: LogConfig = LogConfig()
    """What is written beside the results."""

    contents: dict[str, str] = {}
    """Fingerprints of the files and objects that went into the run; filled in when it starts."""


def to_dict(config: Config) -> dict[str, Any]:
    """Return the config as nested plain values."""
    return config.model_dump()


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a config file, with the meaning of every key."""
    return Config.model_json_schema()


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Join nested mappings; later ones override earlier ones.

    Example:
        >>> merge({"train": {"epochs": 3, "seed": 0}}, {"train": {"epochs": 5}})
        {'train': {'epochs': 5, 'seed': 0}}
    """
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
                result[key] = merge(result[key], value)
            else:
                result[key] = copy.deepcopy(value)
    return result


def build(*layers: Mapping[str, Any]) -> Config:
    """Join layers of settings and check keys, types and ranges; names and options stay unchecked.

    Raises:
        UserError: Names the full path of each wrong key, what was expected and the nearest match.

    Example:
        >>> build({"train": {"epochs": 3}}, {"head": {"name": "sem"}}).train.epochs
        3
    """
    try:
        return Config.model_validate(merge(*layers))
    except ValidationError as error:
        lines: dict[str, list[str]] = {}
        for item in error.errors(include_url=False):
            wrong, expected = _explain(item)
            lines.setdefault(wrong, []).append(expected)
        text = "\n".join(wrong + " or ".join(expected) for wrong, expected in lines.items())
        raise UserError(f"wrong config: {text}") from None


_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "finite": "a finite number",
}


def _explain(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return what is wrong and what was expected, from one of pydantic's errors."""
    path, known = _locate(item["loc"])
    kind, value, context = item["type"], item["input"], item.get("ctx", {})
    if kind == "extra_forbidden":
        name = str(item["loc"][-1])
        return f"{path}: ", unknown_key(name, known)
    expected = context.get("error") or context.get("expected")
    expected = expected or _EXPECTED.get(kind.partition("_")[0], item["msg"].lower())
    return f"{path}={value!r}: expected ", str(expected)


def _locate(location: Iterable[str | int]) -> tuple[str, list[str]]:
    """Return a key's dotted path and the keys that its section has.

    pydantic adds the branches of a union behind the key; they are left out.
    """
    path: list[str] = []
    section: Any = Config
    for key in location:
        path.append(str(key))
        field = section.model_fields.get(key)
        if field is None or not _is_section(field.annotation):
            inside_options = field is not None and key == "options"
            if not inside_options:
                break
            path += [str(part) for part in list(location)[len(path) : len(path) + 1]]
            break
        section = field.annotation
    return ".".join(path), list(section.model_fields)


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, _Section)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn nested mappings into dotted keys.

    Example:
        >>> flatten({"a": {"b": 1}, "c": 2})
        {'a.b': 1, 'c': 2}
    """
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def unflatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn values by dotted key into nested mappings.

    Example:
        >>> unflatten({"a.b": 1, "c": 2})
        {'a': {'b': 1}, 'c': 2}
    """
    nested: dict[str, Any] = {}
    for path, value in values.items():
        *parents, last = path.split(".")
        node = nested
        for key in parents:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise UserError(f"{path}: {key!r} holds a value, it has no {last!r}")
        node[last] = copy.deepcopy(value)
    return nested
