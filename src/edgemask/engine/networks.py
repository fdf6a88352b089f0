"""Builds networks, method and loss of a run, by name or from objects."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgemask._random import seed_everything, stream
from edgemask.data import DataBundle
from edgemask.engine.config import Config
from edgemask.engine.run_data import Objects
from edgemask.errors import UserError
from edgemask.methods import METHODS, Method
from edgemask.models.hf_model import TransformersObject, is_transformers_model

__all__ = ["build_criterion", "build_method", "build_networks"]


def build_networks(
    config: Config,
    method: Method,
    objects: Objects,
    *,
    num_classes: int,
    input_shape: Sequence[int],
    pretrained: bool = True,
) -> dict[str, nn.Module]:
    """Build the networks that a method names; weights depend on the seed, never on the head.

    Args:
        config: Model, head and seed.
        method: Names the networks and may extend them.
        objects: A model object, if one was given.
        num_classes: Number of classes.
        input_shape: Shape of one sample.
        pretrained: Whether to load published weights where the config names them.
    """
    nets: dict[str, nn.Module] = {}
    for number, name in enumerate(method.networks):
        seed_everything(stream("weights", config.train.seed, number))
        if objects.model is None:
            if config.head.at is not None:
                raise UserError(
                    f"head.at is for model objects; {config.model.name!r} knows its classifier"
                )
            net = _own_model(config, method, objects, number, num_classes, input_shape, pretrained)
        else:
            net = _foreign_model(objects.model, method, num_classes, input_shape)
            if config.head.name != "linear":
                from edgemask.heads import attach

                head = objects.head or config.head.name
                options = _head_options(config, objects, number)
                attach(net, head, at=config.head.at, **options)
        # What a method adds starts from the same weights, whatever the head has drawn.
        seed_everything(stream("added", config.train.seed, number))
        nets[name] = method.extend(name, net)
    for name, source in method.copies.items():
        nets[name] = copy.deepcopy(nets[source]).requires_grad_(requires_grad=False)
    if _channels_last(config, input_shape):
        for net in nets.values():
            net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return nets


def _channels_last(config: Config, shape: Sequence[int]) -> bool:
    chosen = config.train.channels_last
    return len(shape) == 3 and shape[0] >= 3 if chosen is None else chosen


def _head_options(config: Config, objects: Objects, number: int) -> dict[str, Any]:
    """Return the options of a head, the seed of its masks included.

    It comes from the run's seed, so that it is the same on all processes.
    """
    from edgemask.heads import HEADS

    options: dict[str, Any] = dict(config.head.options)
    if "seed" in inspect.signature(objects.head or HEADS[config.head.name]).parameters:
        options["seed"] = stream("masks", config.train.seed, number)
    return options


def _own_model(
    config: Config,
    method: Method,
    objects: Objects,
    number: int,
    classes: int,
    shape: Sequence[int],
    pretrained: bool,
) -> nn.Module:
    from edgemask.models import create

    assert config.model.name is not None
    options: dict[str, Any] = dict(config.model.options)
    return create(
        config.model.name,
        classes,
        input_shape=shape,
        width=config.model.width,
        head=objects.head or config.head.name,
        head_options=_head_options(config, objects, number),
        projector=method.projector,
        neck=options.pop("neck", method.neck),
        pretrained=config.model.pretrained if pretrained else False,
        **options,
    )


def _foreign_model(
    model: nn.Module | Callable[[], nn.Module],
    method: Method,
    num_classes: int,
    shape: Sequence[int],
) -> nn.Module:
    net = _copy_of(model, method)
    if is_transformers_model(net):
        return TransformersObject(net, num_classes, input_shape=shape)
    return net


def _copy_of(model: nn.Module | Callable[[], nn.Module], method: Method) -> nn.Module:
    if not isinstance(model, nn.Module):
        return model()
    if len(method.networks) > 1:
        raise UserError(
            f"the method {type(method).__name__} trains {len(method.networks)} networks that start "
            "differently: give model= a function that makes one, not a module"
        )
    return copy.deepcopy(model)


def build_method(config: Config, objects: Objects) -> Method:
    """Build the method that the config names."""
    if isinstance(objects.method, Method):
        return objects.method
    factory = objects.method or METHODS[config.method.name]
    options: Any = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in config.method.options.items()
    }
    return factory(**options)


def build_criterion(
    config: Config, bundle: DataBundle, samples: int, objects: Objects
) -> nn.Module:
    """Build the loss that the config names, or adapt a loss object."""
    if isinstance(objects.criterion, nn.Module):
        return _Indexed(objects.criterion)
    if objects.criterion is not None:
        provided = {"num_classes": bundle.num_classes, "num_samples": samples}
        known = inspect.signature(objects.criterion).parameters
        needed = {name: value for name, value in provided.items() if name in known}
        return _Indexed(objects.criterion(**needed, **config.loss.options))
    from edgemask.losses import build

    criterion: nn.Module = build(
        config.loss.name,
        num_classes=bundle.num_classes,
        num_samples=samples,
        **config.loss.options,
    )
    return criterion


class _Indexed(nn.Module):
    """Adapts a loss of logits and targets to the call of EdgeMask's losses."""

    def __init__(self, criterion: nn.Module):
        super().__init__()
        self.criterion = criterion
        self.takes_index = "index" in inspect.signature(criterion.forward).parameters
        groups = getattr(criterion, "parameter_groups", None)
        if groups is not None:
            self.parameter_groups = groups

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Call the loss, with the sample index if it takes one."""
        extra = {"index": index} if self.takes_index else {}
        loss: Tensor = self.criterion(logits, target, **extra)
        return loss
