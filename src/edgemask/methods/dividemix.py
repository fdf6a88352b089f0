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
from edgemask.methods.parts.selection import low_loss_posterior, min_max

__all__ = ["DivideMix"]


@options
class DivideMix(MixMatch):
    """Divide by a Gaussian mixture on the losses, each network for its peer, then MixMatch.

    At the start of an epoch both networks, in ``eval()``, take the cross entropy of every training
    sample as stored. Two Gaussians are fitted to the losses of each; ``w`` is the posterior of the
    lower one and a label is kept where ``w > threshold``. The first network learns from the second
    one's division and the other way round. The step is that of :class:`MixMatch`.

    Args:
        warmup: Epochs of plain cross entropy; None takes the published share (10 of 300).
        threshold: Posterior above which a label is kept.
        loss_window: Epochs over which normalised losses are averaged before the fit; None means 5
            at a noise rate of 0.9 and above, else 1. With a ``subset`` it is always 1.
        entropy_penalty: Whether the warm-up punishes sure predictions; None: where the noise is
            known to be asymmetric.
        temperature: Temperature of the sharpening.
        alpha: Parameter of the Beta distribution of the mix.
        lambda_u: Weight of the unlabelled loss.
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

    threshold: Share = 0.5
    loss_window: Count | None = None
    reg_covar: NonNegative = 5e-4

    def setup(self, task: Task, nets: dict[str, nn.Module]) -> None:
        """Make the tables of the losses of the last epochs."""
        super().setup(task, nets)
        self.window = self.loss_window or (5 if (task.noise_rate or 0.0) >= 0.9 else 1)
        if self.subset is not None:
            self.window = 1  # a sample is hardly ever drawn in several epochs on end
        self.losses: dict[str, SampleTable] = {}
        for name in self.networks:
            table = SampleTable(task.num_samples, self.window, device=task.device)
            self.losses[name] = self.remember(f"losses/{name}", table)

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
        self.keep(learner, posterior > self.threshold, posterior, drawn)
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
