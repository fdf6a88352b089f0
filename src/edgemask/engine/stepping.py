"""One optimiser step: forward passes, gradients, clipping, and the update."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from edgemask.data import Batch
from edgemask.engine.config import Config
from edgemask.engine.optim import build_optimiser, l1_term, loss_optimiser, set_rate
from edgemask.engine.probes import Probes
from edgemask.engine.processes import Processes
from edgemask.engine.schedules import build_schedule
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.heads import one_step
from edgemask.methods import Clock, Method, Phase, StepResult

__all__ = ["HUGE_WEIGHT", "LossError", "Stepper"]

HUGE_WEIGHT = 1e4
"""A weight beyond this is a sign that training has collapsed."""


class LossError(UserError):
    """The loss or the weights are no longer finite."""


class _StepModule(nn.Module):
    """Everything that learns, as one module whose forward is a whole step of the method.

    Distributed wrappers expect one forward per backward; methods make several passes, call parts
    of their networks and combine losses. Here the wrapper sees a single call.
    """

    def __init__(self, parts: Mapping[str, nn.Module]):
        super().__init__()
        self.parts = nn.ModuleDict(parts)

    def forward(self, function: Callable[[], Any]) -> Any:
        """Call the step."""
        return function()


class Stepper:
    """Makes the optimiser steps of a run. A step does not wait for the device.

    Args:
        config: The resolved config.
        method: The method, set up.
        processes: The processes that share the work.
        probes: Measurements on some of the steps, or None.
    """

    def __init__(
        self, config: Config, method: Method, processes: Processes, probes: Probes | None = None
    ):
        self.config = config
        self.method = method
        self.processes = processes
        self.probes = probes
        self.schedule = build_schedule(config.optim.schedule, config.train.epochs)
        self._rate = config.optim.lr
        self._warned = False
        criterion = method.task.criterion
        learners = {name: method.nets[name] for name in method.networks}
        parts = learners | ({"criterion": criterion} if method.uses_criterion else {})
        self.module: Any = processes.accelerator.prepare(_StepModule(parts))
        self.groups = dict(method.optimisers())
        self.optimisers: dict[str, Any] = {
            name: processes.accelerator.prepare(
                build_optimiser(config.optim, _parameters(learners[net] for net in nets))
            )
            for name, nets in self.groups.items()
        }
        extra = loss_optimiser(criterion) if method.uses_criterion else None
        self.loss_optimiser: Any = extra and processes.accelerator.prepare(extra)

    @property
    def rate(self) -> float:
        """The learning rate of the last step."""
        return self._rate

    def begin(self, phase: Phase) -> None:
        """Set the mode of every network and which parameters learn, as a phase asks."""
        method = self.method
        for name, net in method.nets.items():
            net.train(name in phase.learners or name in phase.shadow)
            net.requires_grad_(requires_grad=False)
        for path in phase.train:
            name, _, part = path.partition(".")
            method.nets[name].get_submodule(part).requires_grad_(requires_grad=True)

    def step(
        self, phase: Phase, batches: Sequence[Mapping[str, Batch]], clock: Clock, samples: int
    ) -> list[StepResult]:
        """Make one optimiser step from one or several micro-batches.

        Args:
            phase: The running phase.
            batches: This process's micro-batches.
            clock: Where the run stands.
            samples: Samples of the step over all processes.

        Returns:
            What the method returned for each micro-batch, detached.
        """
        learners = [self.method.nets[name] for name in phase.learners]
        active = self._active(phase)
        for optimiser in active.values():
            self._rate = set_rate(
                optimiser,
                self.config.optim,
                self.schedule,
                epoch=clock.epoch,
                time=clock.time,
                fixed=phase.lr,
            )
            optimiser.zero_grad(set_to_none=True)
        if self.loss_optimiser is not None:
            self.loss_optimiser.zero_grad(set_to_none=True)
        with one_step(*learners):
            before = _random_state(self.method) if phase.sam_radius else None
            results = self._gradients(phase, batches, clock, samples)
            if before is not None:
                self._sharpness_aware(phase, batches, clock, samples, before)
        for optimiser in active.values():
            self.processes.accelerator.unscale_gradients(optimiser)
        self.method.after_backward(phase, clock)
        self._update(active)
        self.method.after_step(phase, clock)
        return results

    def _active(self, phase: Phase) -> dict[str, Any]:
        return {
            name: self.optimisers[name]
            for name, nets in self.groups.items()
            if any(net in phase.learners for net in nets)
        }

    def _gradients(
        self, phase: Phase, batches: Sequence[Mapping[str, Batch]], clock: Clock, samples: int
    ) -> list[StepResult]:
        """Add up the gradients of the micro-batches, each weighted by its samples."""
        accelerator = self.processes.accelerator
        first = next(iter(phase.feeds))
        # Wrappers average over processes, whose parts of a step may differ by a sample.
        mean_share = samples / self.processes.count
        self.method.task.joint.scale = samples / sum(len(batch[first].index) for batch in batches)
        results: list[StepResult] = []
        for number, batch in enumerate(batches):
            last = number == len(batches) - 1
            with nullcontext() if last else accelerator.no_sync(self.module):
                with self._measuring(batch[first], clock, first=not number) as measured:
                    loss, logs = self.module(lambda batch=batch: self._forward(phase, batch, clock))
                accelerator.backward(loss * (len(batch[first].index) / mean_share))
            results.append(StepResult(loss.detach(), logs | measured))
        return results

    def _measuring(
        self, batch: Batch, clock: Clock, *, first: bool
    ) -> AbstractContextManager[dict[str, float]]:
        """Return a context that fills a dict with what the probes measure of a forward pass."""
        if self.probes is None or not first or not self.probes.due(clock):
            return nullcontext({})
        return self.probes.measuring(batch, clock)

    def _forward(
        self, phase: Phase, batch: Mapping[str, Batch], clock: Clock
    ) -> tuple[Tensor, dict[str, Tensor | float]]:
        result = self.method.step(phase, batch, clock)
        loss = result.loss
        if self.config.optim.l1:
            weights = _parameters(self.method.nets[name] for name in phase.learners)
            loss = loss + self.config.optim.l1 * l1_term(weights)
        logs = {
            name: value.detach() if isinstance(value, Tensor) else value
            for name, value in result.logs.items()
        }
        return loss, logs

    def _sharpness_aware(
        self,
        phase: Phase,
        batches: Sequence[Mapping[str, Batch]],
        clock: Clock,
        samples: int,
        before: tuple[Tensor, Tensor],
    ) -> None:
        """Replace the gradient by that at ``w + radius * g / ||g||`` (SAM)."""
        learners = [self.method.nets[name] for name in phase.learners]
        weights = [p for p in _parameters(learners) if p.grad is not None]
        gradients: list[Any] = [p.grad for p in weights]
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(g.float()) for g in gradients])
        )
        scale = phase.sam_radius / (norm + 1e-12)
        home = [p.detach().clone() for p in weights]
        with torch.no_grad():
            for p, gradient in zip(weights, gradients, strict=True):
                p.add_(gradient * scale)
        for p in _parameters(learners):
            p.grad = None
        if self.loss_optimiser is not None:
            self.loss_optimiser.zero_grad(set_to_none=True)
        # The second pass draws the same random numbers and leaves running statistics alone.
        after = _random_state(self.method)
        _restore_random(self.method, before)
        with _frozen_statistics(learners):
            self._gradients(phase, batches, clock, samples)
        _restore_random(self.method, after)
        with torch.no_grad():
            for p, value in zip(weights, home, strict=True):
                p.copy_(value)

    def _update(self, active: Mapping[str, Any]) -> None:
        for name, optimiser in active.items():
            if self.config.optim.clip is not None:
                nets = (self.method.nets[net] for net in self.groups[name])
                nn.utils.clip_grad_norm_(_parameters(nets), self.config.optim.clip)
            optimiser.step()
        if self.loss_optimiser is not None:
            self.loss_optimiser.step()

    def check_finite(self) -> None:
        """Refuse to continue with weights that are not finite; waits for the device once.

        Warns:
            EdgeMaskWarning: Once, if weights are so large that training has collapsed.
        """
        names, sizes = [], []
        for name in self.method.networks:
            for path, weight in self.method.nets[name].named_parameters():
                if weight.numel():
                    names.append((path, name))
                    sizes.append(torch.linalg.vector_norm(weight.detach(), ord=math.inf))
        largest = torch.stack(sizes).tolist() if sizes else []
        for (path, name), size in zip(names, largest, strict=True):
            if size > HUGE_WEIGHT and math.isfinite(size) and not self._warned:
                self._warned = True
                warnings.warn(
                    f"the weights {path} of network {name!r} have grown to {size:.1g}: training "
                    "has collapsed; stop it and try a lower optim.lr or optim.clip",
                    EdgeMaskWarning,
                    stacklevel=2,
                )
            if not math.isfinite(size):
                raise LossError(
                    f"the weights {path} of network {name!r} are no longer finite; the last "
                    "good checkpoint is kept. Try a lower optim.lr or optim.clip"
                )

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all optimisers and the learning rate."""
        state = {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()}
        if self.loss_optimiser is not None:
            state["loss"] = self.loss_optimiser.state_dict()
        scaler = self.processes.accelerator.scaler
        return {
            "optimisers": state,
            "scaler": None if scaler is None else scaler.state_dict(),
            "rate": self._rate,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned."""
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        if self.loss_optimiser is not None:
            self.loss_optimiser.load_state_dict(state["optimisers"]["loss"])
        if state["scaler"] is not None and self.processes.accelerator.scaler is not None:
            self.processes.accelerator.scaler.load_state_dict(state["scaler"])
        self._rate = state["rate"]


def _parameters(nets: Iterable[nn.Module]) -> list[nn.Parameter]:
    return [parameter for net in nets for parameter in net.parameters()]


def _random_state(method: Method) -> tuple[Tensor, Tensor]:
    return torch.get_rng_state(), method.task.generator.get_state()


def _restore_random(method: Method, state: tuple[Tensor, Tensor]) -> None:
    torch.set_rng_state(state[0])
    method.task.generator.set_state(state[1])


@contextmanager
def _frozen_statistics(nets: Sequence[nn.Module]) -> Iterator[None]:
    """Leave the running statistics of batch normalisation as they are (momentum 0)."""
    layers = [m for net in nets for m in net.modules() if isinstance(m, _BatchNorm)]
    momenta = [layer.momentum for layer in layers]
    counts = [
        None if m.num_batches_tracked is None else m.num_batches_tracked.clone() for m in layers
    ]
    try:
        for layer in layers:
            layer.momentum = 0.0
        yield
    finally:
        for layer, momentum, count in zip(layers, momenta, counts, strict=True):
            layer.momentum = momentum
            if count is not None and layer.num_batches_tracked is not None:
                layer.num_batches_tracked.copy_(count)
