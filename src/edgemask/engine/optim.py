"""Optimisers of the networks, from the config, and of a loss's own parameters."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from edgemask.engine.config import OptimConfig
from edgemask.engine.schedules import Schedule
from edgemask.errors import UserError

__all__ = ["build_optimiser", "l1_term", "loss_optimiser", "set_rate"]


def build_optimiser(config: OptimConfig, parameters: Iterable[nn.Parameter]) -> Optimizer:
    """Build the optimiser of one or several networks.

    Args:
        config: Name and settings of the optimiser.
        parameters: The weights of the networks.
    """
    weights = list(parameters)
    if config.name == "sgd":
        return SGD(
            weights,
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            weight_decay=config.weight_decay,
        )
    kind = Adam if config.name == "adam" else AdamW
    betas = (config.beta1, config.beta2)
    return kind(weights, lr=config.lr, betas=betas, weight_decay=config.weight_decay)


def loss_optimiser(criterion: nn.Module) -> Optimizer | None:
    """Build the optimiser of a loss's own per-sample parameters (SOP), or None if it has none.

    The loss sets its learning rates; schedules, clipping and weight decay do not apply.
    """
    if not any(True for _ in criterion.parameters()):
        return None
    groups = getattr(criterion, "parameter_groups", None)
    if groups is None:
        raise UserError(
            f"the loss {type(criterion).__name__} has parameters but no parameter_groups() that "
            "gives them to an optimiser; write that method, or make them buffers"
        )
    return SGD(groups())


def set_rate(
    optimiser: Optimizer,
    config: OptimConfig,
    schedule: Schedule,
    *,
    epoch: int,
    time: float,
    fixed: float | None = None,
) -> float:
    """Set the learning rate (and beta1) of the networks for a step; return it.

    Args:
        optimiser: The optimiser.
        config: Its settings.
        schedule: The factor on the learning rate.
        epoch: The epoch, from 0.
        time: The epoch with its fraction.
        fixed: A rate to use instead of the schedule's.
    """
    rate = config.lr * schedule.at(epoch, time) if fixed is None else fixed
    beta1 = schedule.beta1(float(epoch))
    for group in optimiser.param_groups:
        group["lr"] = rate
        if "betas" in group:
            group["betas"] = (config.beta1 if beta1 is None else beta1, config.beta2)
    return rate


def l1_term(parameters: Iterable[Tensor]) -> Tensor:
    """Return the sum of absolute values over all parameters that learn: the L1 norm of theta."""
    return torch.stack([p.abs().sum() for p in parameters if p.requires_grad]).sum()
