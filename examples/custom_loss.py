"""A loss of your own: tried at once, and by name in configs, sweeps and on the command line.

    python examples/custom_loss.py
    cd examples && edgemask train --data digits --import custom_loss --loss "tempered(t=0.5)"

Needs: pip install "edgemask[app]".
"""

import torch
from torch import Tensor, nn

import edgemask as em
from edgemask.methods.options import Share


class TemperedLoss(nn.Module):
    """Cross-entropy with a bounded logarithm, ``(1 - p^(1 - t)) / (1 - t)`` for the label's p.

    t = 1 is cross-entropy; at t < 1 a sample whose label is thought impossible costs at most
    1 / (1 - t), so that wrong labels cannot pull as hard.

    Args:
        t: The temperature.
        reduction: "mean", or "none" for one value per sample.
    """

    def __init__(self, *, t: Share = 0.5, reduction: str = "mean"):
        super().__init__()
        self.t = t
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Return the loss; `index` is each sample's position, for losses that remember samples."""
        log_p = logits.log_softmax(dim=1).gather(1, target[:, None]).squeeze(1)
        rest = 1 - self.t
        loss = -torch.expm1(rest * log_p) / rest if rest else -log_p
        return loss.mean() if self.reduction == "mean" else loss


# A name for it: now loss="tempered(t=0.7)" works, with t checked against its range.
em.register("loss", "tempered", TemperedLoss)


def main(epochs: int = 6) -> dict[str, float]:
    """Train with three losses on digits whose labels are 60 % wrong; return their accuracy."""
    found = {}
    for loss in ("ce", "tempered(t=0.5)", TemperedLoss(t=0.2)):  # by name, or the object itself
        run = em.fit("digits", noise="sym:0.6", loss=loss, epochs=epochs, batch_size=32)
        name = loss if isinstance(loss, str) else f"TemperedLoss(t={loss.t})"
        found[name] = run.summary["test/accuracy"]["last"]
    return found


if __name__ == "__main__":
    for name, accuracy in main().items():
        print(f"{name:20s} {accuracy:.1%} of the test digits right")
