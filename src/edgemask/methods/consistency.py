"""What Jo-SRC and Jo-SNC share: labels judged by the network's own prediction, a momentum copy."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.methods.base import Clock, Phase, Task
from edgemask.methods.options import Share, options
from edgemask.methods.parts.memory import SampleTable, update_ema
from edgemask.methods.parts.pseudo_labels import smoothed_labels
from edgemask.methods.parts.selection import cleanness, trust_from_probability
from edgemask.methods.warmup import WarmupMethod

__all__ = ["ConsistencyMethod"]


@options
class ConsistencyMethod(WarmupMethod):
    """A label is clean where the prediction for the first view is close to it.

    ``P_clean = 1 - JS_2(p(x1), y~)``, with the given label smoothed to ``y~``. The networks of
    :attr:`copies` are momentum copies.

    Args:
        smoothing: The share of the given label that goes to the other classes.
        momentum: The share of a copy that stays in each step.
    """

    uses_criterion = False
    published_warmup = (10, 200)

    smoothing: Share = 0.6
    momentum: Share = 0.99

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the tables of cleanness and of the probability of the given label."""
        super().setup(task, nets)
        size, device = task.num_samples, task.device
        self.clean = self.remember("clean", SampleTable(size, fill=torch.nan, device=device))
        self.given = self.remember("given", SampleTable(size, fill=torch.nan, device=device))

    def judge(self, index: Tensor, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smoothed labels ``(B, C)`` and their cleanness ``(B,)``, which is stored."""
        given = smoothed_labels(labels, self.task.num_classes, self.smoothing)
        probabilities = F.softmax(logits.detach(), dim=1)
        p_clean = cleanness(probabilities, given)
        self.clean.write(index, p_clean)
        self.given.write(index, probabilities.gather(1, labels[:, None]).squeeze(1))
        return given, p_clean

    def after_step(self, phase: Phase, clock: Clock) -> None:
        """Move the momentum copies."""
        for copy, source in self.copies.items():
            update_ema(self.nets[copy], self.nets[source], self.momentum)

    def trust(self) -> Tensor | None:
        """Return the trust in each label by its probability when it was last in a batch.

        Not by ``P_clean``, which is highest where the prediction equals the smoothed label: a sure
        and right prediction has less of it than an unsure one.
        """
        return trust_from_probability(self.given.values)
