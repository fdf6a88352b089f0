"""DivideMix: divide by a mixture on the losses, each network for the other, and mix."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.data import Batch
from edgemask.methods.base import Task
from edgemask.methods.mixmatch import MixMatch
from edgemask.methods.options import Count, NonNegative, Share, options
from edgemask.methods.parts.memory import SampleTable
from edgemask.methods.parts.schedules import is_asymmetric
from edgemask.methods.parts.selection import low_loss_posterior, min_max

__all__ = ["DivideMix", "published_lambda_u"]

# Nominal rate of symmetric noise -> lambda_u: Table 7 of the paper's appendix as its author and
# users quote it (LiJunnan1992/DivideMix, issues 10, 41, 46 and 50); asymmetric noise: 0 on CIFAR-10
# there, 150 on CIFAR-100 by the sweep of C2D (ContrastToDivide/C2D, issue 2).
_LAMBDA_U = {
    "cifar10": {0.2: 0.0, 0.5: 25.0, 0.8: 25.0, 0.9: 50.0},
    "cifar100": {0.2: 25.0, 0.5: 150.0, 0.8: 150.0, 0.9: 150.0},
}
_ASYMMETRIC = {"cifar10": 0.0, "cifar100": 150.0}


def published_lambda_u(dataset: str | None, kind: str | None, rate: float | None) -> float:
    """Return the published weight of the unlabelled loss, and 25 where none is.

    Args:
        dataset: ``cifar10`` or ``cifar100``; CIFAR80N-O takes that of CIFAR-100, others have none.
        kind: The kind of noise.
        rate: Its nominal rate; the nearest one that was published counts.

    Example:
        >>> published_lambda_u("cifar10", "symmetric", 0.2), published_lambda_u(None, None, None)
        (0.0, 25.0)
    """
    name = "cifar100" if (dataset or "").startswith("cifar80n") else dataset
    if name not in _LAMBDA_U or rate is None:
        return 25.0
    if is_asymmetric(kind):
        return _ASYMMETRIC[name]
    table = _LAMBDA_U[name]
    return table[min(table, key=lambda published: abs(published - rate))]


@options
class DivideMix(MixMatch):
    """Divide by a Gaussian mixture on the losses, each network for its peer, then MixMatch.

    At the start of an epoch both networks, in ``eval()``, take the cross entropy of every training
    sample as stored. Two Gaussians are fitted to the losses of each; ``w`` is the posterior of the
    lower one and a label is kept where ``w > threshold``. The first network learns from the second
    one's division and the other way round. The step is that of :class:`MixMatch`.

    Args:
        warmup: Epochs of plain cross entropy; None takes the published share (10 of 300).
        threshold: Posterior above which a label is kept; None takes the published 0.5, and 0.6 at a
            nominal noise rate of 0.9 and above.
        loss_window: Epochs over which normalised losses are averaged before the fit; None means 5
            at a nominal noise rate of 0.9 and above, else 1. With a ``subset`` it is always 1.
        entropy_penalty: Whether the warm-up punishes sure predictions; None: where the noise is
            known to be asymmetric.
        temperature: Temperature of the sharpening.
        alpha: Parameter of the Beta distribution of the mix.
        lambda_u: Weight of the unlabelled loss; None takes the published one of the dataset and the
            noise (:func:`published_lambda_u`), which is not the 25 of the released code.
        ramp: Epochs over which that weight rises from 0.
        unlabelled_loss: Whether unlabelled rows are learned from, as on CIFAR; without it they are
            only mixed into labelled ones, as on WebVision and Clothing1M.
        subset: Samples of a fresh class-balanced draw for each network and epoch (twice as many in
            the warm-up), as on Clothing1M; None means all.
        reg_covar: Added to the variances of the mixture.

    Reference:
        Li et al., DivideMix: Learning with Noisy Labels as Semi-supervised Learning, ICLR 2020.
    """

    published_warmup = (10, 300)

    lambda_u: NonNegative | None = None
    threshold: Share | None = None
    loss_window: Count | None = None
    reg_covar: NonNegative = 5e-4

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the tables of the losses of the last epochs."""
        super().setup(task, nets)
        rate = task.nominal_rate if task.nominal_rate is not None else task.realised_rate
        extreme = (rate or 0.0) >= 0.9
        self.window = self.loss_window or (5 if extreme else 1)
        default = 0.6 if extreme else 0.5
        self.kept_above = default if self.threshold is None else self.threshold
        self._lambda_u = self.lambda_u
        if self._lambda_u is None:
            self._lambda_u = published_lambda_u(task.dataset, task.noise_kind, rate)
        if self.subset is not None:
            self.window = 1  # a sample is hardly ever drawn in several epochs on end
        self.losses: dict[str, SampleTable] = {}
        for name in self.networks:
            table = SampleTable(task.num_samples, self.window, device=task.device)
            self.losses[name] = self.remember(f"losses/{name}", table)

    @property
    def unlabelled_weight(self) -> float:
        """The weight of the unlabelled loss."""
        assert self._lambda_u is not None
        return self._lambda_u

    def divide(self, name: str, epoch: int) -> None:
        """Let both networks score before either learns; each divides for the other."""
        if name == self.networks[0]:
            for scorer, learner in zip(self.networks, reversed(self.networks), strict=True):
                self._divide_for(learner, scorer, epoch)

    def _divide_for(self, learner: str, scorer: str, epoch: int) -> None:
        drawn = self.drawn(scorer, epoch)
        chosen = slice(None) if drawn is None else drawn
        losses = self._mean_loss(scorer, epoch, drawn)
        posterior = torch.zeros_like(losses)
        posterior[chosen] = low_loss_posterior(losses[chosen], reg_covar=self.reg_covar)
        self.keep(learner, posterior > self.kept_above, posterior, drawn)
        everyone = torch.arange(len(posterior), device=posterior.device)
        self.trusts[scorer].write(everyone[chosen], posterior[chosen])

    def _mean_loss(self, name: str, epoch: int, drawn: Tensor | None) -> Tensor:
        """Return the normalised loss of each sample, averaged over the last epochs."""

        def losses_of(batch: Batch) -> dict[str, Tensor]:
            logits = self.logits(name, batch.views[0], "peer")
            return {"loss": F.cross_entropy(logits.float(), batch.target, reduction="none")}

        losses = self.task.score(losses_of, indices=drawn)["loss"]
        if drawn is None:
            losses = min_max(losses)
        else:
            losses[drawn] = min_max(losses[drawn])
        past = epoch - self.warmup_epochs
        table = self.losses[name]
        history = table.values.clone()
        history[:, past % self.window] = losses
        table.write(torch.arange(len(losses), device=losses.device), history)
        return table.values[:, : past + 1].mean(dim=1)
