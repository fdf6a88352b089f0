"""Optimisers: what the config says for the networks, what a loss says for its own parameters."""

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
    """Make the optimiser of one or several networks.

    Args:
        config: Which optimiser, with what settings.
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
    """Make the optimiser of a loss's own per-sample parameters (SOP), or None if it has none.

    Its learning rates are the loss's business: schedules, clipping and decay pass it by.
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
        schedule: How the rate moves.
        epoch: The epoch, from 0.
        time: The epoch with its fraction.
        fixed: A rate that stands above the schedule.
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
