"""Measurements on training steps that change nothing: what ``log.record`` switches on.

A probe reads the step's own forward pass (features, logits, mask) before ``backward``. It draws
from none of the run's generators and changes no state, so that a run with probes ends exactly as
one without.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from edgemask._registry import Registry
from edgemask.data import Batch
from edgemask.diagnostics import (
    block_parameters,
    cdr_overlap,
    criteria_statistics,
    gradient_bounds,
    gradient_error,
    masking_bounds,
)
from edgemask.engine.config import Config, LogConfig
from edgemask.errors import UserError
from edgemask.heads import find_classifier
from edgemask.methods import Clock, Method
from edgemask.methods.supervised import Supervised
from edgemask.noise import NoisyLabels

__all__ = ["PROBES", "Probes", "build_probes", "check_record"]

_ALWAYS = ("confidence", "memorisation", "retention")
_AT_TEST = ("calibration",)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The forward pass of a step, as a probe reads it."""

    features: Tensor
    """The input of the head, with its autograd graph, ``(B, d)``."""

    logits: Tensor
    """The output of the head, ``(B, C)``."""

    given: Tensor
    """The labels trained on."""

    clean: Tensor
    """The true labels; the given ones where they are not known."""

    index: Tensor
    """Positions of the samples in the training set."""

    net: nn.Module
    """The network."""

    head: nn.Module
    """Its classifier."""

    criterion: Callable[[Tensor, Tensor], Tensor] | None
    """The loss, or None for cross entropy."""

    rate: float
    """The share of wrong labels."""

    generator: torch.Generator
    """A generator that only probes draw from."""

    @property
    def mask(self) -> Tensor:
        """The mask of the step; all ones for a head without masks."""
        mask = getattr(self.head, "last_mask", None)
        weight: Any = self.head.weight
        return torch.ones_like(weight) if mask is None else mask


def _gradient_error(snapshot: Snapshot) -> dict[str, float]:
    """Gradient error D_f at the last convolutional block, its relative size, and the cosine."""
    found = gradient_error(
        snapshot.logits,
        snapshot.given,
        snapshot.clean,
        block_parameters(snapshot.net),
        criterion=snapshot.criterion,
    )
    return {
        "gradient_error": found.error,
        "gradient_error_relative": found.relative,
        "gradient_cosine": found.cosine,
    }


def _bounds(snapshot: Snapshot) -> dict[str, float]:
    """Proposition 1's bound and estimates of Proposition 2's, for the step's mask."""
    head: Any = snapshot.head
    weight, mask = head.weight.detach(), snapshot.mask
    values = masking_bounds(snapshot.features.detach(), weight, mask, head.bias)
    return values | gradient_bounds(
        snapshot.features,
        weight,
        mask,
        snapshot.given,
        snapshot.clean,
        block_parameters(snapshot.net),
        samples=8,
        draws=1,
        generator=snapshot.generator,
    )


def _criteria(snapshot: Snapshot) -> dict[str, float]:
    """Dynamic range of each criterion, and its rank correlation with the true damage."""
    head: Any = snapshot.head
    return criteria_statistics(snapshot.features, head.weight, head.bias, snapshot.given)


def _overlap(snapshot: Snapshot) -> dict[str, float]:
    """The share of kept edges that CDR calls critical."""
    head: Any = snapshot.head
    return cdr_overlap(
        snapshot.features.detach(),
        head.weight,
        head.bias,
        snapshot.given,
        snapshot.mask,
        tau=snapshot.rate,
    )


Probe = Callable[[Snapshot], dict[str, float]]
PROBES: Registry[Probe] = Registry(
    "probe",
    {
        "gradient_error": _gradient_error,
        "bounds": _bounds,
        "criteria": _criteria,
        "overlap": _overlap,
    },
)
_NEED_TRUTH = frozenset({"gradient_error", "bounds"})
_NEED_BLOCK = frozenset({"gradient_error", "bounds"})
_NEED_LINEAR = frozenset({"bounds", "criteria", "overlap"})


def check_record(log: LogConfig) -> None:
    """Refuse names that ``log.record`` does not know."""
    known = (*PROBES, *_AT_TEST, *_ALWAYS)
    for name in log.record:
        if name not in known:
            raise UserError(f"wrong config: log.record: {name!r} is not one of {', '.join(known)}")


class Probes:
    """The probes of a run.

    Args:
        names: Which ones.
        method: The method, set up.
        noise: Given and true labels of the training samples.
        steps: Steps per epoch that are measured.
        cross_entropy: Whether the loss is plain cross entropy.
    """

    def __init__(
        self,
        names: list[str],
        method: Method,
        noise: NoisyLabels,
        *,
        steps: int,
        cross_entropy: bool,
    ):
        self.names = names
        self.method = method
        self.steps = steps
        self.cross_entropy = cross_entropy
        self.net = method.nets[method.networks[0]]
        self.head = _classifier(self.net)
        truth = noise.noisy if noise.clean is None else noise.clean
        self.clean = torch.from_numpy(truth.copy())
        self.rate = noise.rate if noise.rate is not None else noise.realised_rate or 0.0

    def due(self, clock: Clock) -> bool:
        """Whether a step is one of those that are measured."""
        every = max(1, clock.steps // self.steps)
        return clock.step % every == 0 and clock.step // every < self.steps

    @contextmanager
    def measuring(self, batch: Batch, clock: Clock) -> Iterator[dict[str, float]]:
        """Measure the head's first training pass inside the block.

        Yields:
            A dict that holds the values once the block has ended.
        """
        captured: list[tuple[Tensor, Tensor]] = []
        values: dict[str, float] = {}

        def capture(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if not captured and output.requires_grad:
                captured.append((inputs[0], output))

        handle = self.head.register_forward_hook(capture)
        try:
            yield values
        finally:
            handle.remove()
        if captured and len(captured[0][1]) == len(batch.index):
            values |= self._measure(*captured[0], batch, clock)

    def _measure(
        self, features: Tensor, logits: Tensor, batch: Batch, clock: Clock
    ) -> dict[str, float]:
        # in mixed precision both are half as wide as the weights
        features, logits = (
            tensor.to(torch.promote_types(tensor.dtype, torch.float32))
            for tensor in (features, logits)
        )
        snapshot = Snapshot(
            features=features,
            logits=logits,
            given=batch.target,
            clean=self.clean[batch.index.cpu()].to(batch.target.device),
            index=batch.index,
            net=self.net,
            head=self.head,
            criterion=None if self.cross_entropy else self._criterion(batch.index),
            rate=self.rate,
            # The same numbers whether or not the run was resumed in between.
            generator=torch.Generator().manual_seed(clock.epoch * clock.steps + clock.step),
        )
        values: dict[str, float] = {}
        with torch.enable_grad():
            for name in self.names:
                values |= PROBES[name](snapshot)
        return values

    def _criterion(self, index: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the loss as a function of logits and labels that leaves its state alone."""

        def loss(logits: Tensor, target: Tensor) -> Tensor:
            value: Tensor = copy.deepcopy(self.method.task.criterion)(logits, target, index)
            return value

        return loss


def build_probes(config: Config, method: Method, noise: NoisyLabels) -> Probes | None:
    """Build the probes that a config names, or None.

    Raises:
        UserError: If the method, the labels, the model or the head do not allow one of them.
    """
    names = [name for name in dict.fromkeys(config.log.record) if name in PROBES]
    if not names:
        return None
    plain = isinstance(method, Supervised) and not (
        method.mixup or method.label_smoothing or method.sam
    )
    if not plain:
        raise UserError(
            f"log.record: {', '.join(names)} needs one network, one view and hard labels (method "
            f"supervised without mix-up, smoothing and SAM, or one built on it), not "
            f"{config.method.name!r}"
        )
    probes = Probes(
        names,
        method,
        noise,
        steps=config.log.record_steps,
        cross_entropy=config.loss.name == "ce",
    )
    missing = [name for name in names if name in _NEED_TRUTH and noise.clean is None]
    if missing:
        raise UserError(f"log.record: {missing[0]} needs true labels, which this data has not")
    for name in names:
        if name in _NEED_BLOCK and getattr(probes.net, "last_block", None) is None:
            raise UserError(
                f"log.record: {name} needs a model that names its last convolutional block, not "
                f"{config.model.name!r}"
            )
        if name in _NEED_LINEAR and not isinstance(getattr(probes.head, "weight", None), Tensor):
            raise UserError(f"log.record: {name} needs a linear head, not {config.head.name!r}")
    return probes


def _classifier(net: nn.Module) -> nn.Module:
    head = getattr(net, "head", None)
    return head if isinstance(head, nn.Module) else net.get_submodule(find_classifier(net))
