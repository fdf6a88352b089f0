"""The interface of a method: networks, phases, one step, and what it remembers.

A :class:`Method` defines *what* is done; the loop of :mod:`edgemask.engine` does it. The loop

1. builds the networks that the method names (same weights for the same seed), gives them to
   :meth:`Method.extend` and then calls :meth:`Method.setup`;
2. for each epoch calls :meth:`~Method.start_epoch`, then for each name of :meth:`~Method.phases`
   calls :meth:`~Method.begin` (which may score the whole training set) and runs the
   :class:`~edgemask.methods.phase.Phase` that comes back;
3. for each optimiser step calls :meth:`~Method.step` inside ``one_step`` over the networks that
   learn, so that a masking head draws one mask, then calls
   :meth:`~Method.after_backward`, steps, and calls :meth:`~Method.after_step`;
4. calls :meth:`~Method.end_epoch`, tests the mean of :meth:`~Method.predict_logits`, and stores
   :meth:`~Method.state_dict`.

Every forward pass has a role, and :meth:`Method.logits` applies it:

========== ========= ============== =====================================================
role       gradient  masking head   meaning
========== ========= ============== =====================================================
main       yes       masks, scores  enters the loss; the first one of a step draws the mask
auxiliary  yes       dense          the output of the classifier is not part of the loss
pseudo     no        dense          a pseudo-label by a network that learns (mode unchanged)
teacher    no        dense          a momentum copy
peer       no        dense          the other network, frozen
========== ========= ============== =====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from edgemask.errors import UserError
from edgemask.heads import predicting
from edgemask.methods.parts.joint import Joint
from edgemask.methods.parts.memory import Memory
from edgemask.methods.phase import Clock, Feed, Phase, StepResult
from edgemask.models.base import Backbone, Neck

if TYPE_CHECKING:
    from edgemask.data import Batch

__all__ = ["Clock", "Ensemble", "Feed", "Method", "Phase", "Role", "Scorer", "StepResult", "Task"]

M = TypeVar("M", bound=Memory)
Role = Literal["main", "auxiliary", "pseudo", "teacher", "peer"]
_WITHOUT_GRADIENT = frozenset({"pseudo", "teacher", "peer"})


class Scorer(Protocol):
    """Runs a function over training samples: the only way to see the whole set at once."""

    def __call__(
        self,
        function: Callable[[Batch], Mapping[str, Tensor]],
        *,
        views: tuple[str, ...] = ("none",),
        indices: Tensor | None = None,
        whole: bool = True,
        epoch: int = 0,
    ) -> dict[str, Tensor]:
        """Call ``function`` on every batch, without gradient and with all networks in ``eval()``.

        Args:
            function: Takes a batch, returns tensors with one row per sample.
            views: The augmentations of the batch's views.
            indices: The samples to run over; None means all.
            whole: Whether there is a row for every training sample. Without it there is one for
                each of ``indices``, in their order: for wide rows of a part of a large set.
            epoch: Names the draws of random views, so that each epoch has its own.

        Returns:
            Each tensor with its rows, the same on all processes. With ``whole``, a sample's row is
            at its index, and rows of samples outside ``indices`` are zero.
        """


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a method knows about the run. True labels are not part of it."""

    num_classes: int
    """Number of classes."""

    labels: Tensor
    """The given, partly wrong labels of the training samples, ``(N,)`` long."""

    epochs: int
    """Epochs of the run."""

    batch_size: int
    """Samples of one optimiser step, over all processes."""

    criterion: nn.Module
    """The loss of the config: ``criterion(logits, target, index) -> scalar``."""

    device: torch.device
    """Where the networks and the batches are."""

    generator: torch.Generator
    """Draws for the method itself (mix-up and the like); part of the checkpoint."""

    score: Scorer
    """Runs a function over the training set."""

    joint: Joint = field(default_factory=Joint)
    """The batches of all processes as one."""

    nominal_rate: float | None = None
    """The rate that the noise was made with, where it is known: the probability that the label of
    an affected class changes, or of a closed class. Published settings are chosen by it."""

    realised_rate: float | None = None
    """The share of the given labels that are wrong, where it is known. It differs from the nominal
    rate where only some classes are affected or some samples belong to no class."""

    noise_kind: str | None = None
    """The kind of label noise (``symmetric``, ``asymmetric`` ...), where it is known."""

    dataset: str | None = None
    """The name of the dataset, for settings that depend on it."""

    class_names: tuple[str, ...] = ()
    """The names of the classes, where there are any."""

    positions: Tensor | None = None
    """Position of each training sample in the dataset, ``(N,)``; None where they are the same."""

    normalisation: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,), (1.0,))
    """Mean and standard deviation per channel that views are normalised with (pixels in 0..1)."""

    seed: int = 0
    """Seed of the run, for draws that all processes must make alike."""

    @property
    def num_samples(self) -> int:
        """Number of training samples."""
        return len(self.labels)


class Ensemble(nn.Module):
    """Several networks as one: the mean of their logits.

    Args:
        nets: The networks.
    """

    def __init__(self, nets: Sequence[nn.Module]):
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean logits."""
        return torch.stack([net(x) for net in self.nets]).mean(0)


def backbone(method: str, net: nn.Module) -> Backbone:
    """Return a network whose features can be read, or say that a method needs one.

    Args:
        method: The method's name, for the message.
        net: The network.
    """
    if not isinstance(net, Backbone):
        raise UserError(
            f"{method} reads the features before the classifier: name one of EdgeMask's models, "
            f"timm:NAME or hf:NAME, instead of giving a {type(net).__name__}"
        )
    return net


class Method:
    """A way of learning from partly wrong labels.

    A subclass takes its options as keyword-only arguments of ``__init__`` (the config and the
    command line read them from the signature), names its networks and writes :meth:`step`. All
    other hooks have a default that fits a single network trained on all samples.
    """

    networks: ClassVar[tuple[str, ...]] = ("net",)
    """Networks with initial weights of their own, in the order of their seeds."""

    copies: ClassVar[Mapping[str, str]] = {}
    """Networks that start as a copy of another: ``{"teacher": "net"}``. Never optimised."""

    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {"train": ("main",)}
    """The roles of the forward passes through the classifier in one step, by phase and in order."""

    needs: ClassVar[str] = "nothing"
    """What a person has to know to use it: ``"noise rate"``, ``"features from a file"``."""

    uses_criterion: ClassVar[bool] = True
    """Whether the loss of the config is used; a method with losses of its own sets False."""

    files: ClassVar[tuple[str, ...]] = ()
    """Options that may name a file, whose contents are then part of what a run is."""

    loss: ClassVar[str | None] = None
    """The loss that the method is defined with, by name (ELR, SOP), or None."""

    projector: Mapping[str, Any] | None = None
    """Options of a projector that each network gets beside its head (``net.project``), or None."""

    neck: ClassVar[Neck] = "none"
    """Layers that each network gets before its head, where ``model.options.neck`` names none."""

    task: Task
    nets: dict[str, nn.Module]
    least_rows: int
    """Rows that a forward pass needs in ``train()`` mode: 2 with batch normalisation, else 1."""

    @classmethod
    def passes(cls) -> dict[str, str]:
        """Return the forward passes of one step and those with a gradient, by kind of phase.

        Example:
            >>> Method.passes()
            {'train': '1 / 1'}
        """
        counts = {}
        for phase, roles in cls.roles.items():
            learning = sum(role not in _WITHOUT_GRADIENT for role in roles)
            # Networks that take turns do the same in their phases.
            counts[phase.partition("/")[0]] = f"{len(roles)} / {learning}"
        return counts

    def extend(self, name: str, net: nn.Module) -> nn.Module:
        """Return the network with what the method adds to it: a predictor, a second classifier.

        Called once per network, before optimisers and copies are made and after the head was put
        in place, which replaces nothing that is added here.
        """
        return net

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Take the job and the networks; subclasses make their tables here."""
        self.task = task
        self.nets = nets
        self._memories: dict[str, Memory] = {}
        layers = (layer for net in nets.values() for layer in net.modules())
        self.least_rows = 2 if any(isinstance(layer, _BatchNorm) for layer in layers) else 1

    def remember(self, name: str, memory: M) -> M:
        """Add a table or queue to what checkpoints store and processes exchange; return it."""
        self._memories[name] = memory
        return memory

    def optimisers(self) -> Mapping[str, tuple[str, ...]]:
        """Return the optimisers, each with the networks it moves: by default one per network."""
        return {name: (name,) for name in self.networks}

    def start_epoch(self, epoch: int) -> None:
        """Set what depends on the epoch (thresholds, drop rates)."""

    def phases(self, epoch: int) -> Sequence[str]:
        """Name the phases of an epoch, in order. Must not depend on anything but ``epoch``."""
        return ("train",)

    def begin(self, phase: str, epoch: int) -> Phase:
        """Describe a phase that is about to run; may call ``self.task.score``."""
        return Phase(name=phase, train=self.networks)

    def step(self, phase: Phase, batch: Mapping[str, Batch], clock: Clock) -> StepResult:
        """Return the loss of one batch (one from each feed of the phase).

        Called once per micro-batch under gradient accumulation, and twice per step where
        ``Phase.sam_radius`` is above 0; :meth:`after_step` is called exactly once per step.
        """
        raise NotImplementedError

    def after_backward(self, phase: Phase, clock: Clock) -> None:
        """Change gradients in place before they are clipped and the optimisers move."""

    def after_step(self, phase: Phase, clock: Clock) -> None:
        """Act after the optimisers have moved: momentum copies, queues."""

    def end_epoch(self, epoch: int) -> Mapping[str, float]:
        """Roll up the epoch; return numbers to write beside its metrics."""
        return {}

    def predict_logits(self, x: Tensor) -> dict[str, Tensor]:
        """Return the logits of each network of :attr:`networks`.

        Their mean is what is tested, as :meth:`deployed` has it; where there are several, the
        accuracy of each is reported beside that of the mean.
        """
        return {name: self.nets[name](x) for name in self.networks}

    def deployed(self) -> nn.Module:
        """Return the model that is tested and exported: the mean logits of :attr:`networks`."""
        nets = [self.nets[name] for name in self.networks]
        return nets[0] if len(nets) == 1 else Ensemble(nets)

    def trust(self) -> Tensor | None:
        """Return the probability that each given label is right, or None if not estimated."""
        return None

    def kept_labels(self) -> Tensor | None:
        """Return by sample the share of networks that learn from its given label.

        None where the method does not divide the samples: labels of trust 1/2 or more then count
        as selected.
        """
        return None

    def logits(self, name: str, x: Tensor, role: Role = "main") -> Tensor:
        """Run a network in one of the roles above and return its logits."""
        return self.run(name, lambda net: net(x), role)  # type: ignore[no-any-return]

    def run(self, name: str, function: Callable[[nn.Module], Any], role: Role = "main") -> Any:
        """Call ``function`` on a network in one of the roles above.

        For passes that want more than logits, such as ``embed`` and a projector.
        """
        net = self.nets[name]
        with ExitStack() as stack:
            if role != "main":
                stack.enter_context(predicting(net))
            if role in _WITHOUT_GRADIENT:
                stack.enter_context(torch.no_grad())
            return function(net)

    def sync(self, total: Callable[[Tensor], Tensor]) -> None:
        """Make all processes agree on what is remembered; called after each phase."""
        for memory in self._memories.values():
            memory.sync(total)

    def state_dict(self) -> dict[str, Any]:
        """Return everything remembered; the networks are stored by the loop."""
        return {name: memory.state_dict() for name, memory in self._memories.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        if set(state) != set(self._memories):
            raise ValueError(
                f"the checkpoint remembers {sorted(state)}, "
                f"{type(self).__name__} needs {sorted(self._memories)}"
            )
        for name, memory in self._memories.items():
            memory.load_state_dict(state[name])
