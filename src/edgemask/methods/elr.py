"""ELR: cross entropy, and loyalty to one's own early predictions."""

from __future__ import annotations

from torch import Tensor

from edgemask._options import checked
from edgemask.losses.elr import ELRLoss
from edgemask.methods.options import Augmentation
from edgemask.methods.supervised import Supervised

__all__ = ["ELR"]


class ELR(Supervised):
    """Plain training with early-learning regularisation, on one weak view.

    ``L = CE(p, y) + lam mean_i log(1 - <t_i, p_i>)`` with the running target
    ``t_i <- beta t_i + (1 - beta) p_i``, updated before it is used. The loss is ``elr`` of
    :mod:`edgemask.losses`, its ``beta`` and ``lam`` are ``loss.options``. There is no warm-up, and
    nothing to know about the noise. The trust in a label is its share in the target.

    Args:
        views: The augmentation of the one view: ``weak``, ``strong`` or ``none``.

    Reference:
        Liu et al., Early-Learning Regularization Prevents Memorization of Noisy Labels,
        NeurIPS 2020.
    """

    loss = "elr"

    @checked
    def __init__(self, *, views: Augmentation = "weak"):
        super().__init__(views=views)

    def trust(self) -> Tensor | None:
        """Return the share of the given label in the target, None before the first step."""
        criterion = self.task.criterion
        if not isinstance(criterion, ELRLoss):
            return None
        total = criterion.ensemble.sum(dim=1)
        if not total.any():
            return None
        given = criterion.ensemble.gather(1, self.task.labels[:, None]).squeeze(1)
        return given / total.clamp(min=1e-12)
