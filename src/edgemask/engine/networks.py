"""Networks, method and loss of a run, made by name or taken as objects."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgemask.data import DataBundle
from edgemask.engine.config import Config
from edgemask.engine.job import Objects
from edgemask.engine.randomness import seed_everything, stream
from edgemask.errors import UserError
from edgemask.methods import METHODS, Method

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
    """Make the networks that a method names; weights depend on the seed, never on the head.

    Args:
        config: Model, head and seed.
        method: Says how many networks, and what they have besides.
        objects: A model that was handed in.
        num_classes: Number of classes.
        input_shape: Shape of one sample.
        pretrained: Whether to fetch published weights where the config asks for them.
    """
    nets: dict[str, nn.Module] = {}
    for number, name in enumerate(method.networks):
        seed_everything(stream("weights", config.train.seed, number))
        if objects.model is None:
            if config.head.at is not None:
                raise UserError(
                    f"head.at is for model objects; {config.model.name!r} knows its classifier"
                )
            net = _own_model(config, method, number, num_classes, input_shape, pretrained)
        else:
            net = _foreign_model(objects.model, number)
            if config.head.name != "linear":
                from edgemask.heads import attach

                attach(net, config.head.name, at=config.head.at, **_head_options(config, number))
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


def _head_options(config: Config, number: int) -> dict[str, Any]:
    """Return the options of a head, the seed of its masks included.

    It comes from the run's seed, so that it is the same on all processes.
    """
    from edgemask.heads import HEADS

    options: dict[str, Any] = dict(config.head.options)
    if "seed" in inspect.signature(HEADS[config.head.name]).parameters:
        options["seed"] = stream("masks", config.train.seed, number)
    return options


def _own_model(
    config: Config,
    method: Method,
    number: int,
    classes: int,
    shape: Sequence[int],
    pretrained: bool,
) -> nn.Module:
    from edgemask.models import create

    options: dict[str, Any] = dict(config.model.options)
    return create(
        config.model.name,
        classes,
        input_shape=shape,
        width=config.model.width,
        head=config.head.name,
        head_options=_head_options(config, number),
        projector=method.projector,
        pretrained=config.model.pretrained if pretrained else False,
        **options,
    )


def _foreign_model(model: nn.Module | Callable[[], nn.Module], number: int) -> nn.Module:
    if not isinstance(model, nn.Module):
        return model()
    net = copy.deepcopy(model)
    if number:
        # A second network must not start as the first one did.
        for module in net.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
    return net


def build_method(config: Config, objects: Objects) -> Method:
    """Make the method that the config names."""
    if objects.method is not None:
        return objects.method
    options: Any = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in config.method.options.items()
    }
    return METHODS[config.method.name](**options)


def build_criterion(
    config: Config, bundle: DataBundle, samples: int, objects: Objects
) -> nn.Module:
    """Make the loss that the config names."""
    if objects.criterion is not None:
        return _Indexed(objects.criterion)
    from edgemask.losses import build

    criterion: nn.Module = build(
        config.loss.name,
        num_classes=bundle.num_classes,
        num_samples=samples,
        **config.loss.options,
    )
    return criterion


class _Indexed(nn.Module):
    """A foreign loss that takes logits and targets, called as ours are."""

    def __init__(self, criterion: nn.Module):
        super().__init__()
        self.criterion = criterion
        self.takes_index = "index" in inspect.signature(criterion.forward).parameters
        groups = getattr(criterion, "parameter_groups", None)
        if groups is not None:
            self.parameter_groups = groups

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Call the loss, with the index if it knows what that is."""
        extra = {"index": index} if self.takes_index else {}
        loss: Tensor = self.criterion(logits, target, **extra)
        return loss
