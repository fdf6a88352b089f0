"""From settings to a config in which every name exists and every option is written out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from edgemask._options import check_argument, check_options
from edgemask._registry import Registry
from edgemask.engine.config import (
    Config,
    DataConfig,
    HeadConfig,
    LossConfig,
    MethodConfig,
    ModelConfig,
    Options,
    ScheduleConfig,
    build,
)
from edgemask.engine.probes import check_record
from edgemask.engine.schedules import SCHEDULES, build_schedule
from edgemask.engine.selection import check_selection
from edgemask.errors import UserError

if TYPE_CHECKING:
    from edgemask.engine.run_data import Objects
    from edgemask.losses import Preset

__all__ = ["is_object", "object_name", "published", "registries", "resolve", "stored_name"]

# What the engine passes to a factory by itself.
_PROVIDED = {
    "data": ("root", "path"),
    "head": ("in_features", "out_features", "bias", "device", "dtype", "seed"),
    "loss": ("num_classes", "num_samples", "reduction", "weight", "ignore_index"),
    "method": (),
    "model": ("num_classes", "name", "input_shape", "width", "pretrained"),
}


def resolve(*layers: Mapping[str, Any], objects: Objects | None = None) -> Config:
    """Join settings, check them, and fill in every option, so that no default stays hidden.

    Args:
        layers: Nested settings; later ones override earlier ones.
        objects: The objects behind the names ``object:...``.

    Raises:
        UserError: Names the full path of a wrong key or value, what is allowed and what is near.

    Example:
        >>> resolve({"head": {"name": "sem"}}).head.options["rho"]
        0.5
    """
    config = build(*layers)
    check_record(config.log)
    check_selection(config)
    _check_noise(config)
    method, new_method = _part("method", config.method, objects and objects.method)
    config = config.model_copy(update={"method": config.method.model_copy(update=new_method)})
    config = _with_loss_of_method(config, getattr(method, "loss", None))
    _, head = _part("head", config.head, objects and objects.head)
    preset = published(config.loss, config.data.spec)
    l1 = preset.l1 if preset else float(getattr(objects and objects.criterion, "l1", None) or 0.0)
    options = {**preset.params, **config.loss.options} if preset else config.loss.options
    with_preset = config.loss.model_copy(update={"options": options})
    _, loss = _part("loss", with_preset, objects and objects.criterion)
    optim = {"schedule": _schedule(config.optim.schedule, config.train.epochs)}
    return config.model_copy(
        update={
            "data": config.data.model_copy(update=_data(config.data)),
            "model": config.model.model_copy(update=_model(config)),
            "head": config.head.model_copy(update=head),
            "loss": config.loss.model_copy(update={"preset": None, **loss}),
            "optim": config.optim.model_copy(
                update={"l1": l1 if config.optim.l1 is None else config.optim.l1, **optim}
            ),
        }
    )


_FILES = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".npz": "npz"}


def _hint_at_file(spec: str, known: bool) -> None:
    """Say how a file or folder is named, where one is given without its kind."""
    path = Path(spec).expanduser()
    if known or not path.exists():
        return
    kind = "imagefolder" if path.is_dir() else _FILES.get(path.suffix.lower())
    if kind is not None:
        raise UserError(f"wrong config: data.spec: say what {spec} is: --data {kind}:{spec}")


def registries() -> dict[str, Registry[Any]]:
    """Return what a config names, by the section that names it."""
    from edgemask.data import DATASETS
    from edgemask.heads import HEADS
    from edgemask.losses import LOSSES
    from edgemask.methods import METHODS
    from edgemask.models import MODELS

    return {"data": DATASETS, "head": HEADS, "loss": LOSSES, "method": METHODS, "model": MODELS}


def stored_name(section: str, name: Any) -> Any:
    """Return the name that a config stores, for any spelling of it.

    Example:
        >>> stored_name("method", "coteaching")
        'co-teaching'
    """
    registry = registries()[section]
    return registry.stored_name(name) if name in registry else name


def is_object(name: str | None) -> bool:
    """Whether a name stands for something that was given as an object."""
    return name is not None and name.startswith("object:")


def object_name(thing: Any) -> str:
    """Return the name that stands for an object in a config: ``object:<class or function>``."""
    return f"object:{getattr(thing, '__name__', type(thing).__name__)}"


def _part(
    section: str, named: HeadConfig | LossConfig | MethodConfig, given: Any
) -> tuple[Any, dict[str, Any]]:
    """Find what a section names; return it, and the name and all options to store."""
    name = named.name
    if not is_object(name):
        factory = _named(registries()[section], name, f"{section}.name")
        name = stored_name(section, name)
    elif inspect.isclass(given) or inspect.isfunction(given):
        factory = given
    else:
        return given, {"options": _object_options(given, named.options, section)}
    checked = check_options(
        factory, named.options, f"{section}.options", provided=_PROVIDED[section]
    )
    if not is_object(name):
        _try(factory, checked, section)
    return factory, {"name": name, "options": checked}


_SMALL = {
    "head": {"in_features": 2, "out_features": 2},
    "loss": {"num_classes": 2, "num_samples": 2},
    "method": {},
}


def _try(factory: Callable[..., Any], options: Options, section: str) -> None:
    """Make a small one, whose own checks refuse what does not go together now, not in an hour."""
    known = inspect.signature(factory).parameters
    values: dict[str, Any] = {k: v for k, v in _SMALL[section].items() if k in known}
    for key, value in options.items():
        values[key] = tuple(value) if isinstance(value, list) else value
    with torch.random.fork_rng(devices=[]):
        try:
            factory(**values)
        except ValueError as error:
            raise UserError(f"wrong config: {section}.options: {error}") from error


def _object_options(given: Any, options: Options, section: str) -> Options:
    """Return the plain attributes of an object, to be stored beside its name."""
    if given is None:  # a stored config, read without its objects
        return options
    own: Options = {
        key: value
        for key, value in vars(given).items()
        if isinstance(value, bool | int | float | str)
        and not key.startswith("_")
        and key != "training"
    }
    for key, value in options.items():
        if key not in own or own[key] != value:
            raise UserError(
                f"wrong config: {section}.options.{key}: the {section} is an object that was made "
                "with its own options"
            )
    return own


def _named(registry: Mapping[str, Any], name: str, path: str) -> Any:
    try:
        return registry[name]
    except UserError as error:
        raise UserError(f"wrong config: {path}: {error}") from None


def _data(data: DataConfig) -> dict[str, Any]:
    from edgemask.data import views

    new: dict[str, Any] = {}
    if data.views is not None:
        _named(views.RECIPES, data.views, "data.views")
        new["views"] = views.RECIPES.name_of(data.views)
    if not is_object(data.spec):
        kind = data.spec.partition(":")[0]
        _hint_at_file(data.spec, kind in registries()["data"])
        reader = _named(registries()["data"], kind, "data.spec")
        new["options"] = check_options(
            reader, data.options, "data.options", provided=_PROVIDED["data"]
        )
    return new


def _check_noise(config: Config) -> None:
    from edgemask.noise.build import parse

    noise = config.noise
    if is_object(noise.spec):
        return
    try:
        function, _ = parse(noise.spec, config.data.spec)
    except UserError as error:
        raise UserError(f"wrong config: noise.spec: {error}") from None
    takes = inspect.signature(function).parameters.keys()
    given = {key: value for key, value in noise if key in takes}
    check_options(function, given, "noise", provided=takes - given.keys())


def _model(config: Config) -> dict[str, Any]:
    from edgemask.models import ADAPTERS, MODELS
    from edgemask.models.base import Neck

    name = config.model.name
    if is_object(name):
        defaults = ModelConfig(name=name)
        for key, value in config.model:
            if value != getattr(defaults, key):
                raise UserError(
                    f"wrong config: model.{key}={value!r}: the model is an object that was made "
                    "with its own options"
                )
    if name is None or is_object(name):
        return {}
    prefix = name.partition(":")[0]
    factory: Callable[..., Any]
    if prefix in ADAPTERS:
        factory = ADAPTERS[prefix]
        if config.model.width != 1.0:
            raise UserError(
                f"wrong config: model.width={config.model.width}: {name} has a fixed width"
            )
    else:
        factory = _named(MODELS, name, "model.name")
        name = MODELS.stored_name(name)
        if config.model.pretrained is True:
            raise UserError(
                f"wrong config: model.pretrained: there are no published weights for {name!r}; "
                "give a file of weights, or take a timm:NAME model"
            )
    # Every model may have a neck; it is stored where it was given.
    neck = {key: value for key, value in config.model.options.items() if key == "neck"}
    for value in neck.values():
        check_argument(value, Neck, "wrong config: model.options.neck")
    variadic = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(factory).parameters.values())
    if variadic:  # another library checks its options
        return {"name": name}
    own = {key: value for key, value in config.model.options.items() if key not in neck}
    options = check_options(factory, own, "model.options", provided=_PROVIDED["model"])
    return {"name": name, "options": {**options, **neck}}


def _with_loss_of_method(config: Config, own: str | None) -> Config:
    """Put in the loss that a method needs, where the config names none."""
    if own is None or config.loss.name == own:
        return config
    if config.loss.name != LossConfig().name:
        raise UserError(
            f"wrong config: loss.name: the method {config.method.name!r} needs the loss {own!r}, "
            f"got {config.loss.name!r}; leave loss.name out, or take another method"
        )
    return config.model_copy(update={"loss": config.loss.model_copy(update={"name": own})})


def published(loss: LossConfig, dataset: str) -> Preset | None:
    """Return the published settings that a config takes for its loss, if it takes any."""
    from edgemask.losses import LOSSES, preset_settings

    if loss.preset is None or is_object(loss.name):
        return None
    _named(LOSSES, loss.name, "loss.name")
    return preset_settings(loss.name, dataset if loss.preset == "auto" else loss.preset)


def _schedule(schedule: ScheduleConfig, epochs: int) -> ScheduleConfig:
    factory = _named(SCHEDULES, schedule.name, "optim.schedule.name")
    options = check_options(
        factory, schedule.options, "optim.schedule.options", provided=("epochs",)
    )
    schedule = schedule.model_copy(update={"options": options})
    build_schedule(schedule, epochs)  # what it refuses is refused now, not after an hour
    return schedule
