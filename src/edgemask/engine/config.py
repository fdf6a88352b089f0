"""The config of a run: every knob, with its meaning beside it.

The classes hold values and know nothing of files or of checks; :mod:`edgemask.engine.schema` reads
and checks them at the border.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

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
    "flatten",
    "to_dict",
]

Scalar = bool | int | float | str | None
Options = dict[str, Scalar | list[Scalar]]
_FORBID = {"extra": "forbid", "use_attribute_docstrings": True}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What is learned from."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    spec: str = "digits"
    """The dataset: a name (``digits``, ``cifar10``) or ``kind:path`` (``npz:my.npz``,
    ``imagefolder:photos/``)."""

    options: Options = field(default_factory=dict)
    """Arguments of the dataset's reader (``size``, ``test_fraction`` ...)."""

    views: str | None = None
    """How views are made, by the name of a code base (``cifar10/dividemix``); None means the
    dataset's own."""

    root: str | None = None
    """Folder of the datasets; None means the ``EDGEMASK_DATA`` variable or the usual cache."""

    limit: int | None = None
    """Train on this many samples only, drawn evenly over the classes; None means all."""

    test_limit: int | None = None
    """Test on this many samples of each test set; None means all."""

    validation: float = 0.0
    """Share of the noisy training data held out to choose an epoch by; 0 means none."""

    workers: int = 0
    """Processes that read images from files; 0 reads in the main process."""


@dataclass(frozen=True, kw_only=True)
class NoiseConfig:
    """How labels are made wrong on purpose."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    spec: str = "none"
    """``none`` (labels as they come), ``kind:rate`` (``sym:0.6``, ``asym:0.4``), ``human:worst``
    or ``file:labels.csv``."""

    protocol: str = "paper"
    """The code base whose generator is meant: ``paper``, ``jal``, ``apl``, ``dividemix`` or
    ``nust``."""

    seed: int = 0
    """Seed of the label noise, separate from the run's."""


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The network."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str = "small-cnn"
    """Name of the backbone, or ``timm:<name>``."""

    width: float = 1.0
    """Factor on the number of channels."""

    pretrained: bool | str = False
    """Whether to start from published weights (timm models), or a file of weights."""

    options: Options = field(default_factory=dict)
    """Arguments of the model itself."""


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The classifier layer."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str = "linear"
    """Name of the head: ``linear``, ``sem``, ``kan``, ``dropconnect`` ..."""

    at: str | None = None
    """Dotted name of the layer to replace in a foreign model; None finds it."""

    options: Options = field(default_factory=dict)
    """Arguments of the head (``rho``, ``beta`` ...)."""


@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """The loss."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str = "ce"
    """Name of the loss."""

    preset: str | None = "auto"
    """Dataset whose published hyper-parameters are taken (``cifar10``); ``auto`` means the one
    trained on or its nearest stand-in, None the loss's own defaults. ``options`` go before."""

    options: Options = field(default_factory=dict)
    """Arguments of the loss."""


@dataclass(frozen=True, kw_only=True)
class MethodConfig:
    """The way of learning."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str = "supervised"
    """Name of the method."""

    options: Options = field(default_factory=dict)
    """Arguments of the method."""


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How the learning rate moves."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str = "cosine"
    """``constant``, ``cosine``, ``step``, ``milestones``, ``restarts`` or ``linear``."""

    options: Options = field(default_factory=dict)
    """Arguments of the schedule (``period``, ``gamma``, ``at`` ...)."""

    warmup: float = 0.0
    """Epochs over which the rate first rises linearly from 0, step by step."""


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """How weights move."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: Literal["sgd", "adam", "adamw"] = "sgd"
    """The optimiser."""

    lr: float = 0.01
    """Learning rate."""

    momentum: float = 0.9
    """Momentum of SGD."""

    nesterov: bool = False
    """Nesterov momentum of SGD."""

    beta1: float = 0.9
    """First-moment decay of Adam and AdamW."""

    beta2: float = 0.999
    """Second-moment decay of Adam and AdamW."""

    weight_decay: float = 0.0
    """L2 term of SGD and Adam, decoupled decay of AdamW."""

    l1: float = 0.0
    """Weight of the sum of absolute parameters, added to the loss before ``backward``."""

    clip: float | None = None
    """Largest gradient norm of one optimiser's networks, the L1 part included; None: no limit."""

    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    """How the learning rate moves."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The loop."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    epochs: int = 20
    """Passes over the training data."""

    batch_size: int = 128
    """Samples of one optimiser step, over all processes and micro-batches."""

    accumulate: int = 1
    """Micro-batches that one optimiser step is split into."""

    seed: int = 0
    """Seed of initial weights, data order, augmentation and masks."""

    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    """Number format of the forward pass."""

    compile: str | None = None
    """Backend of ``torch.compile`` (``inductor``, ``aot_eager``); None runs eagerly."""

    channels_last: bool | None = None
    """Whether the numbers of a pixel lie side by side in memory, which makes convolutions faster
    and changes results by rounding alone; None: for pictures of three channels or more."""

    record_every: int | None = None
    """Epochs between two looks at all training samples (loss, confidence, what was memorised),
    each about a third of an epoch's work. None: every epoch up to 5,000 samples, every fourth
    beyond; 0 looks at the end only."""

    threads: int | None = None
    """CPU threads; None leaves torch's choice."""

    select: Literal["last", "validation", "clean_validation"] = "last"
    """Whose weights are the model in the end: the last epoch's; or, for each network, those of the
    tested epoch that did best on the noisy samples of ``data.validation`` (``validation``) or on
    the dataset's own clean validation samples (``clean_validation``)."""

    rollback: bool = False
    """Whether each network goes on from its best weights so far after every test of ``select``."""


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """How the model is tested. Not part of the run's identity, but for ``train.select``."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    batch_size: int = 128
    """Samples of one forward pass. Larger ones leave a CPU's cache and take twice the time."""

    every: int = 1
    """Epochs between two tests; the last epoch is always tested. Only a tested epoch can be chosen
    by ``train.select``."""

    top5: bool = False
    """Whether to report top-5 accuracy too."""


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """What is written beside the results. Not part of the run's identity."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    trackers: list[str] = field(default_factory=lambda: ["tensorboard"])
    """Trackers of Accelerate by name (``tensorboard``, ``wandb``, ``mlflow``, ``trackio`` ...)."""

    checkpoint_steps: int | None = None
    """Optimiser steps between two checkpoints inside an epoch; None: epochs only."""

    checkpoint_seconds: float | None = None
    """Seconds between two checkpoints inside an epoch; None: epochs only."""

    thumbnails: int = 64
    """Pictures of the most doubtful samples that are kept for the report."""

    record: list[str] = field(default_factory=list)
    """What else is measured as training goes on: ``gradient_error``, ``bounds``, ``criteria``,
    ``overlap``, ``calibration``. Confidence, memorisation and retention always are."""

    record_steps: int = 8
    """Steps an epoch that ``record`` looks into, evenly spaced."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """One run."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    name: str | None = None
    """Name of the run, the first part of its folder; None makes one from data, loss and head."""

    data: DataConfig = field(default_factory=DataConfig)
    """What is learned from."""

    noise: NoiseConfig = field(default_factory=NoiseConfig)
    """How labels are made wrong on purpose."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """The network."""

    head: HeadConfig = field(default_factory=HeadConfig)
    """The classifier layer."""

    loss: LossConfig = field(default_factory=LossConfig)
    """The loss."""

    method: MethodConfig = field(default_factory=MethodConfig)
    """The way of learning."""

    optim: OptimConfig = field(default_factory=OptimConfig)
    """How weights move."""

    train: TrainConfig = field(default_factory=TrainConfig)
    """The loop."""

    eval: EvalConfig = field(default_factory=EvalConfig)
    """How the model is tested."""

    log: LogConfig = field(default_factory=LogConfig)
    """What is written beside the results."""


def to_dict(config: Config) -> dict[str, Any]:
    """Return the config as nested plain values."""
    return dataclasses.asdict(config)


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
