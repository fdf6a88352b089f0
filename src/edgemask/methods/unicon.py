"""UNICON: equally many trusted labels of each class, and contrast on the rest."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range
from edgemask.data import Batch
from edgemask.errors import UserError
from edgemask.methods.base import Phase, Role
from edgemask.methods.mixmatch import GUESSES, MixMatch
from edgemask.methods.options import Count, NonNegative, Positive, Share, options
from edgemask.methods.parts.losses import contrastive_loss, js_divergence
from edgemask.methods.parts.pseudo_labels import co_guess
from edgemask.methods.parts.selection import divergence_cutoff, uniform_selection

__all__ = ["UNICON"]


@options
class UNICON(MixMatch):
    """Keep equally many labels of each class by divergence, then MixMatch and contrast.

    Before each network learns, ``d_i = JS(p_i, onehot(y_i))`` in natural logarithms, p the mean
    prediction of both networks, in ``eval()``, on the sample as stored. R is the share of samples
    below the cut-off; of each given class the ``int(R N / C)`` labels of smallest d are kept.
    The weight of a kept label in its refinement is 1 where ``d < 0.5``, else ``1 - d``. The step is
    that of :class:`MixMatch`: labels are guessed from weak views, strong ones are mixed. The
    SimCLR loss on projections of the strong unlabelled views is added.

    Args:
        warmup: Epochs of plain cross entropy; None takes the published share (10 of 350).
        cutoff: ``paper``: the mean of d, lowered to ``mean - (mean - min) / tau`` where the mean is
            above ``adjust_above`` times its largest value ln 2; ``code``: always the mean, since
            the released code compares with a value that it cannot reach.
        adjust_above: See there.
        tau: See there.
        contrastive: Weight of the contrastive loss; 0 leaves it out, and the projector with it.
        contrastive_temperature: Its temperature.
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
        rewarm_every: Every so many epochs one is a warm-up epoch again, as on WebVision; 0: never.
        rewarm_lr: Learning rate of those epochs; None leaves it to the schedule.
        repeats: Times that a network runs through its parts before they are divided anew, as on
            Clothing1M.
        repeat_more_after: Epoch after which there is one more repeat, as on Clothing1M (100); None:
            never.
        second_first: Whether the second network learns before the first one once the data are
            divided, as on WebVision.
        warmup_batch: Samples of a step of the warm-up, in batches: 2, or 4 as on WebVision.

    Reference:
        Karim et al., UNICON: Combating Label Noise Through Uniform Selection and Contrastive
        Learning, CVPR 2022.
    """

    roles: ClassVar[Mapping[str, tuple[Role, ...]]] = {
        **MixMatch.roles,
        "train/first": (*GUESSES, "auxiliary", "auxiliary", "main"),
        "train/second": (*GUESSES, "auxiliary", "auxiliary", "main"),
    }
    views: ClassVar[tuple[str, ...]] = ("weak", "weak", "strong", "strong")
    drop_last: ClassVar[bool] = True
    published_warmup = (10, 350)

    cutoff: Literal["paper", "code"] = "paper"
    adjust_above: Share = 0.7
    tau: Annotated[float, Range(1)] = 5.0
    contrastive: NonNegative = 0.025
    contrastive_temperature: Positive = 0.05
    lambda_u: NonNegative = 30.0
    rewarm_every: Annotated[int, Range(0)] = 0
    rewarm_lr: Positive | None = None
    repeats: Count = 1
    repeat_more_after: Annotated[int, Range(0)] | None = None
    second_first: bool = False
    warmup_batch: Count = 2

    def __post_init__(self) -> None:
        """Request a projector where there is a contrastive term."""
        if self.contrastive:
            self.projector = {"kind": "linear-bn", "out": 128}

    def extend(self, name: str, net: nn.Module) -> nn.Module:
        """See that the network has a projector where one is needed."""
        if self.contrastive and getattr(net, "projector", None) is None:
            raise UserError(
                f"unicon contrasts projections, and {type(net).__name__} has no projector: name a "
                "model of edgemask.models, or set method.options.contrastive to 0"
            )
        return super().extend(name, net)

    def warms_up(self, epoch: int) -> bool:
        """Whether an epoch is plain training: the first ones, and one in ``rewarm_every``."""
        again = self.rewarm_every and (epoch + 1) % self.rewarm_every == 0
        return super().warms_up(epoch) or bool(again)

    def phases(self, epoch: int) -> Sequence[str]:
        """Train one network, then the other, each ``repeats`` times."""
        if self.warms_up(epoch):
            return super().phases(epoch)
        more = self.repeat_more_after is not None and epoch > self.repeat_more_after
        again = self.repeats - 1 + more
        order = reversed(self.networks) if self.second_first else self.networks
        return tuple(
            phase for name in order for phase in (f"train/{name}", *[f"again/{name}"] * again)
        )

    def begin(self, phase: str, epoch: int) -> Phase:
        """Hold the learning rate of a warm-up that comes again."""
        planned = super().begin(phase, epoch)
        again = phase.startswith("warmup") and epoch >= self.warmup_epochs
        return replace(planned, lr=self.rewarm_lr) if again else planned

    @property
    def unlabelled_weight(self) -> float:
        """The weight of the unlabelled loss."""
        return self.lambda_u

    def divide(self, name: str, epoch: int) -> None:
        """Score with both networks, anew for each of them."""

        def divergence_of(batch: Batch) -> dict[str, Tensor]:
            scores = [self.logits(net, batch.views[0], "peer").float() for net in self.networks]
            label = F.one_hot(batch.target, self.task.num_classes).to(scores[0])
            return {"divergence": js_divergence(co_guess(scores), label, base=math.e)}

        drawn = self.drawn(name, epoch)
        divergence = self.task.score(divergence_of, indices=drawn)["divergence"]
        everyone = torch.arange(len(divergence), device=divergence.device)
        chosen = everyone if drawn is None else drawn
        cutoff = divergence_cutoff(
            divergence[chosen],
            adjust_above=self.adjust_above if self.cutoff == "paper" else None,
            tau=self.tau,
        )
        labelled = torch.zeros_like(everyone, dtype=torch.bool)
        labelled[chosen] = uniform_selection(
            divergence[chosen], self.task.labels[chosen], self.task.num_classes, cutoff=cutoff
        )
        weights = torch.where(divergence < 0.5, 1.0, 1.0 - divergence)
        self.keep(name, labelled, weights, drawn)
        self.trusts[name].write(chosen, 1.0 - divergence[chosen] / math.log(2))

    def unlabelled_batch(self, labelled: int, unlabelled: int) -> int:
        """Return ``int(B / (2 R))``, at least one for each process."""
        ratio = labelled / max(labelled + unlabelled, 1)
        size = int(self.task.batch_size / (2 * ratio)) if ratio else self.task.batch_size
        return max(size, self.task.joint.count)

    def more_terms(self, name: str, unlabelled: Batch) -> dict[str, Tensor]:
        """Return the contrastive loss; the classifier has no part in it."""
        if not self.contrastive:
            return {}
        projections = [
            self.task.joint.rows(
                self.run(name, operator.methodcaller("project", view), "auxiliary")
            )
            for view in unlabelled.views[-2:]
        ]
        loss = contrastive_loss(*projections, temperature=self.contrastive_temperature)
        return {"contrastive": self.contrastive * loss}
