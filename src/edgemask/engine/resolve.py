"""From settings to a config in which every name exists and every option is written out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from edgemask.engine.config import Config, LossConfig, Options
from edgemask.engine.probes import check_record
from edgemask.engine.schedules import SCHEDULES, build_schedule
from edgemask.engine.schema import build, check_options
from edgemask.engine.selection import check_selection
from edgemask.errors import UserError

__all__ = ["is_object", "resolve"]

# What the engine passes to a factory by itself.
_HEAD_GIVEN = ("in_features", "out_features", "bias", "device", "dtype", "seed")
_LOSS_GIVEN = ("num_classes", "num_samples", "reduction")


def resolve(*layers: Mapping[str, Any]) -> Config:
    """Join settings, check them, and fill in every option, so that no default stays hidden.

    Args:
        layers: Nested settings; the later ones go before.

    Raises:
        UserError: Names the full path of a wrong key or value, what is allowed and what is near.

    Example:
        >>> resolve({"head": {"name": "sem"}}).head.options["rho"]
        0.5
    """
    config = _with_own_loss(build(*layers))
    _check_names(config)
    check_record(config.log)
    check_selection(config)
    return dataclasses.replace(
        config,
        data=dataclasses.replace(config.data, options=_data_options(config)),
        head=dataclasses.replace(config.head, options=_head_options(config)),
        loss=dataclasses.replace(config.loss, preset=None, options=_loss_options(config)),
        method=dataclasses.replace(config.method, options=_method_options(config)),
        optim=_optim(config),
    )


def is_object(name: str) -> bool:
    """Whether a name stands for something that was handed in as an object."""
    return name.startswith("object:")


def _data_options(config: Config) -> Options:
    from edgemask.data import DATASETS

    if is_object(config.data.spec):
        return config.data.options
    factory = _named(DATASETS, config.data.spec.partition(":")[0], "data.spec")
    given = ("root", "path")
    return check_options(factory, config.data.options, "data.options", given=given)


def _check_names(config: Config) -> None:
    from edgemask.models import ADAPTERS, MODELS

    if not is_object(config.model.name) and config.model.name.partition(":")[0] not in ADAPTERS:
        _named(MODELS, config.model.name, "model.name")


def _named(registry: Mapping[str, Any], name: str, path: str) -> Any:
    try:
        return registry[name]
    except UserError as error:
        raise UserError(f"wrong config: {path}: {error}") from None


def _with_own_loss(config: Config) -> Config:
    """Put in the loss that a method stands on, where the config names none of its own."""
    from edgemask.methods import METHODS

    if is_object(config.method.name):
        return config
    own = _named(METHODS, config.method.name, "method.name").loss
    if own is None or config.loss.name == own:
        return config
    if config.loss.name != LossConfig().name:
        raise UserError(
            f"wrong config: loss.name: the method {config.method.name!r} stands on the loss "
            f"{own!r}, got {config.loss.name!r}; leave loss.name out, or take another method"
        )
    return dataclasses.replace(config, loss=dataclasses.replace(config.loss, name=own))


def _head_options(config: Config) -> Options:
    from edgemask.heads import HEADS

    factory = _named(HEADS, config.head.name, "head.name")
    return check_options(factory, config.head.options, "head.options", given=_HEAD_GIVEN)


def _loss_options(config: Config) -> Options:
    from edgemask.losses import LOSSES, preset_settings

    if is_object(config.loss.name):
        return config.loss.options
    factory = _named(LOSSES, config.loss.name, "loss.name")
    options = config.loss.options
    if config.loss.preset is not None:
        dataset = config.data.spec if config.loss.preset == "auto" else config.loss.preset
        published = preset_settings(config.loss.name, dataset)
        options = {**published.params, **options}
    return check_options(factory, options, "loss.options", given=_LOSS_GIVEN)


def _method_options(config: Config) -> Options:
    from edgemask.methods import METHODS

    if is_object(config.method.name):
        return config.method.options
    factory = _named(METHODS, config.method.name, "method.name")
    return check_options(factory, config.method.options, "method.options")


def _optim(config: Config) -> Any:
    schedule = config.optim.schedule
    factory = _named(SCHEDULES, schedule.name, "optim.schedule.name")
    options = check_options(factory, schedule.options, "optim.schedule.options", given=("epochs",))
    schedule = dataclasses.replace(schedule, options=options)
    build_schedule(schedule, config.train.epochs)  # its own checks speak now, not after an hour
    return dataclasses.replace(config.optim, schedule=schedule)
