"""What the losses cost, beside the formulas of the released code and beside formulas by hand.

    python benchmarks/losses.py [--threads N] [--seconds S] [--only NAME ...]

Forward and backward on given logits. "Released" computes a loss in the steps of the official
repositories (one-hot labels, one softmax per part, clamps), as a module, as there. "By hand" is
the shortest formula on one ``log_softmax`` and labels, without any checks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from _measure import announce, arguments, ratios, table, verdict
from edgemask import losses

Formula = Callable[[Tensor, Tensor], Tensor]

SHAPES = [(128, 10), (128, 100), (1024, 1000)]
SPREAD = 1.05  # a ratio of 1 is measured with an error of about five percent
EPS = 1e-7
LOG_EPS = math.log(EPS)
LOG_TARGET = math.log(1e-4)


def one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    return F.one_hot(labels, logits.shape[1]).float()


# The released formulas: logits and labels in, the mean over the batch out.


def released_focal(logits: Tensor, labels: Tensor) -> Tensor:
    log_p = F.log_softmax(logits, dim=1).gather(1, labels.view(-1, 1)).view(-1)
    return (-((1 - log_p.detach().exp()) ** 0.5) * log_p).mean()


def released_mae(logits: Tensor, labels: Tensor) -> Tensor:
    label = one_hot(logits, labels)
    return (1 - (label * F.softmax(logits, dim=1)).sum(dim=1)).mean()


def released_mse(logits: Tensor, labels: Tensor, a: float = 1.0) -> Tensor:
    return F.mse_loss(F.softmax(logits, dim=1), a * one_hot(logits, labels))


def released_gce(logits: Tensor, labels: Tensor) -> Tensor:
    probs = F.softmax(logits, dim=1).clamp(EPS, 1.0)
    return ((1 - (one_hot(logits, labels) * probs).sum(dim=1) ** 0.7) / 0.7).mean()


def released_rce(logits: Tensor, labels: Tensor) -> Tensor:
    probs = F.softmax(logits, dim=1).clamp(EPS, 1.0)
    label = one_hot(logits, labels).clamp(1e-4, 1.0)
    return (-(probs * label.log()).sum(dim=1)).mean()


def released_nce(logits: Tensor, labels: Tensor) -> Tensor:
    log_probs = F.log_softmax(logits, dim=1)
    label = one_hot(logits, labels)
    return (-(label * log_probs).sum(dim=1) / -log_probs.sum(dim=1)).mean()


def released_nfl(logits: Tensor, labels: Tensor) -> Tensor:
    log_probs = F.log_softmax(logits, dim=1)
    total = (-((1 - log_probs.detach().exp()) ** 0.5) * log_probs).sum(dim=1)
    log_p = log_probs.gather(1, labels.view(-1, 1)).view(-1)
    return (-((1 - log_p.detach().exp()) ** 0.5) * log_p / total).mean()


def released_ngce(logits: Tensor, labels: Tensor) -> Tensor:
    probs = F.softmax(logits, dim=1).clamp(EPS, 1.0)
    label = one_hot(logits, labels)
    top = 1 - (label * probs).sum(dim=1) ** 0.7
    return (top / (logits.shape[1] - (probs**0.7).sum(dim=1))).mean()


def released_nnce(logits: Tensor, labels: Tensor) -> Tensor:
    terms = -LOG_EPS + F.softmax(logits, dim=1).clamp(EPS, 1.0).log()
    label = one_hot(logits, labels)
    return (1 - (label * terms).sum(dim=1) / terms.sum(dim=1)).mean()


def released_nnfl(logits: Tensor, labels: Tensor) -> Tensor:
    log_probs = F.log_softmax(logits, dim=1).clamp(min=LOG_EPS)
    worst = -((1 - EPS) ** 0.5) * LOG_EPS
    terms = worst + (1 - log_probs.detach().exp()) ** 0.5 * log_probs
    label = one_hot(logits, labels)
    return (1 - (label * terms).sum(dim=1) / terms.sum(dim=1)).mean()


def label_probability(logits: Tensor, labels: Tensor) -> Tensor:
    return (one_hot(logits, labels) * F.softmax(logits, dim=1)).sum(dim=1)


def released_agce(logits: Tensor, labels: Tensor) -> Tensor:
    p = label_probability(logits, labels)
    return ((1.6**0.6 - (0.6 + p) ** 0.6) / 0.6).mean()


def released_aul(logits: Tensor, labels: Tensor) -> Tensor:
    p = label_probability(logits, labels)
    return (((5.5 - p) ** 3 - 4.5**3) / 3).mean()


def released_ael(logits: Tensor, labels: Tensor) -> Tensor:
    return (-label_probability(logits, labels) / 2.5).exp().mean()


def released_amse(logits: Tensor, labels: Tensor) -> Tensor:
    return released_mse(logits, labels, 30.0)


def released_anorm(logits: Tensor, labels: Tensor) -> Tensor:
    probs = F.softmax(logits, dim=1).clamp(1e-5, 1.0)
    distance = (1.5 * one_hot(logits, labels) - probs).abs().pow(2).sum(dim=1)
    return ((distance - 0.25) / 2).mean()


def released_ldr(logits: Tensor, labels: Tensor) -> Tensor:
    scores = F.softplus(logits)
    scores = scores / scores.mean(dim=1, keepdim=True)
    label = one_hot(logits, labels)
    gaps = 0.1 * (1 - label) + scores - (label * scores).sum(dim=1, keepdim=True)
    return (10 * (torch.logsumexp(gaps / 10, dim=1) - math.log(logits.shape[1]))).mean()


def released_logit_clip(logits: Tensor, labels: Tensor) -> Tensor:
    norm = logits.norm(dim=1, keepdim=True) + 1e-8
    clipped = torch.where(norm > 1 / 2.5, 2.5 * logits / norm, logits)
    probs = F.softmax(clipped, dim=1).clamp(1e-8, 1.0)
    return (-(one_hot(logits, labels) * probs.log()).sum(dim=1)).mean()


RELEASED: dict[str, Formula] = {
    "ce": F.cross_entropy,
    "focal": released_focal,
    "mae": released_mae,
    "mse": released_mse,
    "gce": released_gce,
    "rce": released_rce,
    "nce": released_nce,
    "nfl": released_nfl,
    "ngce": released_ngce,
    "nnce": released_nnce,
    "nnfl": released_nnfl,
    "agce": released_agce,
    "aul": released_aul,
    "ael": released_ael,
    "amse": released_amse,
    "anorm": released_anorm,
    "ldr": released_ldr,
    "ce+lc": released_logit_clip,
}

# The same by hand: log-probabilities and labels in, one value per sample out.


def pick(values: Tensor, labels: Tensor) -> Tensor:
    return values.gather(1, labels[:, None]).squeeze(1)


def focal_terms(log_probs: Tensor) -> Tensor:
    return -((1 - log_probs.detach().exp()) ** 0.5) * log_probs


def by_hand_rce(log_probs: Tensor, labels: Tensor) -> Tensor:
    probs = log_probs.exp().clamp(min=EPS)
    return -LOG_TARGET * (probs.sum(dim=1) - pick(probs, labels))


def by_hand_nfl(log_probs: Tensor, labels: Tensor) -> Tensor:
    terms = focal_terms(log_probs)
    return pick(terms, labels) / terms.sum(dim=1)


def by_hand_ngce(log_probs: Tensor, labels: Tensor) -> Tensor:
    terms = 1 - (0.7 * log_probs.clamp(min=LOG_EPS)).exp()
    return pick(terms, labels) / terms.sum(dim=1)


def by_hand_nnce(log_probs: Tensor, labels: Tensor) -> Tensor:
    terms = log_probs.clamp(min=LOG_EPS) - LOG_EPS
    return 1 - pick(terms, labels) / terms.sum(dim=1)


def by_hand_nnfl(log_probs: Tensor, labels: Tensor) -> Tensor:
    terms = -((1 - EPS) ** 0.5) * LOG_EPS - focal_terms(log_probs.clamp(min=LOG_EPS))
    return 1 - pick(terms, labels) / terms.sum(dim=1)


def by_hand_mse(log_probs: Tensor, labels: Tensor, a: float = 1.0) -> Tensor:
    probs = log_probs.exp()
    total = probs.square().sum(dim=1) - 2 * a * pick(probs, labels) + a * a
    return total / log_probs.shape[1]


def by_hand_anorm(log_probs: Tensor, labels: Tensor) -> Tensor:
    probs = log_probs.exp().clamp(min=1e-5)
    return (probs.square().sum(dim=1) - 3 * pick(probs, labels) + 2.25 - 0.25) / 2


BY_HAND: dict[str, Formula] = {
    "ce": lambda log_probs, y: -pick(log_probs, y),
    "focal": lambda log_probs, y: focal_terms(pick(log_probs, y)),
    "mae": lambda log_probs, y: 1 - pick(log_probs, y).exp(),
    "mse": by_hand_mse,
    "gce": lambda log_probs, y: (1 - (0.7 * pick(log_probs, y).clamp(min=LOG_EPS)).exp()) / 0.7,
    "rce": by_hand_rce,
    "nce": lambda log_probs, y: pick(log_probs, y) / log_probs.sum(dim=1),
    "nfl": by_hand_nfl,
    "ngce": by_hand_ngce,
    "nnce": by_hand_nnce,
    "nnfl": by_hand_nnfl,
    "agce": lambda log_probs, y: (1.6**0.6 - (0.6 + pick(log_probs, y).exp()) ** 0.6) / 0.6,
    "aul": lambda log_probs, y: ((5.5 - pick(log_probs, y).exp()) ** 3 - 4.5**3) / 3,
    "ael": lambda log_probs, y: (-pick(log_probs, y).exp() / 2.5).exp(),
    "amse": lambda log_probs, y: by_hand_mse(log_probs, y, 30.0),
    "anorm": by_hand_anorm,
}

# Pairs: the two parts with their weights, and the options that give the parts above.
PAIRS: dict[str, tuple[float, str, float, str, dict[str, float]]] = {
    "sce": (0.1, "ce", 1.0, "rce", {}),
    "nce+rce": (1.0, "nce", 1.0, "rce", {}),
    "nce+mae": (1.0, "nce", 1.0, "mae", {}),
    "nfl+rce": (1.0, "nfl", 1.0, "rce", {}),
    "nfl+mae": (1.0, "nfl", 1.0, "mae", {}),
    "nce+agce": (1.0, "nce", 4.0, "agce", {"a": 0.6, "q": 0.6}),
    "nce+aul": (1.0, "nce", 4.0, "aul", {"a": 5.5, "q": 3.0}),
    "nce+ael": (1.0, "nce", 4.0, "ael", {"a": 2.5}),
    "anl-ce": (5.0, "nce", 5.0, "nnce", {}),
    "anl-fl": (5.0, "nfl", 5.0, "nnfl", {}),
    "jal-ce": (1.0, "nce", 1.0, "amse", {}),
    "jal-fl": (1.0, "nfl", 1.0, "amse", {}),
}
NAMES = [*RELEASED, *PAIRS]


class Released(nn.Module):
    """A loss, or a weighted sum of two, in the steps of the released code."""

    def __init__(self, name: str):
        super().__init__()
        alpha, first, beta, second, _ = PAIRS.get(name, (1.0, name, 0.0, "", {}))
        self.parts = [(alpha, RELEASED[first])]
        if second:
            self.parts.append((beta, RELEASED[second]))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over the batch."""
        if len(self.parts) == 1:
            return self.parts[0][1](logits, labels)
        (alpha, active), (beta, passive) = self.parts
        return alpha * active(logits, labels) + beta * passive(logits, labels)


def by_hand(name: str) -> Formula:
    """Return a loss as a formula on one ``log_softmax``, reduced to its mean."""
    if name not in PAIRS:
        formula = BY_HAND[name]
        return lambda logits, labels: formula(F.log_softmax(logits, dim=1), labels).mean()
    alpha, first, beta, second, _ = PAIRS[name]
    active, passive = BY_HAND[first], BY_HAND[second]

    def pair(logits: Tensor, labels: Tensor) -> Tensor:
        log_probs = F.log_softmax(logits, dim=1)
        return (alpha * active(log_probs, labels) + beta * passive(log_probs, labels)).mean()

    return pair


def forward_backward(criterion: Formula, logits: Tensor, labels: Tensor) -> Callable[[], None]:
    def run() -> None:
        logits.grad = None
        criterion(logits, labels).backward()

    return run


def compare(name: str, shape: tuple[int, int], seconds: float) -> dict[str, float]:
    """Return the time of the loss here over that of the others; checks that all agree."""
    batch, classes = shape
    logits = (3 * torch.randn(batch, classes)).requires_grad_()
    labels = torch.randint(classes, (batch,))
    options = PAIRS[name][4] if name in PAIRS else {}
    criteria: dict[str, Formula] = {"here": losses.build(name, **options)}
    criteria["released"] = Released(name)
    if shape == SHAPES[-1] and (name in BY_HAND or name in PAIRS):
        criteria["by hand"] = by_hand(name)
    value = criteria["here"](logits, labels)
    for other in criteria.values():
        torch.testing.assert_close(other(logits, labels), value, rtol=1e-4, atol=1e-5)
    runs = {k: forward_backward(v, logits, labels) for k, v in criteria.items()}
    found = ratios(runs, to="here", seconds=seconds)
    return {key: 1 / ratio for key, ratio in found.items()}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="some losses")
    options = parser.parse_args()
    torch.manual_seed(0)
    announce("Losses, forward and backward: time here over that of the others", options.threads)
    rows = []
    worst_released = worst_by_hand = (0.0, "")
    for name in options.only:
        cells = [name]
        for shape in SHAPES:
            found = compare(name, shape, options.seconds)
            cells.append(f"{found['released']:.2f}")
            worst_released = max(worst_released, (found["released"], f"{name} at {shape}"))
        cells.append(f"{found['by hand']:.2f}" if "by hand" in found else "")
        worst_by_hand = max(worst_by_hand, (found.get("by hand", 0.0), name))
        rows.append(cells)
    header = ["loss", *(f"/ released {shape}" for shape in SHAPES), f"/ by hand {SHAPES[-1]}"]
    table(header, rows)
    verdict(f"slowest beside the released code: {worst_released[1]}", worst_released[0], SPREAD)
    verdict(f"slowest beside the formula by hand: {worst_by_hand[1]}", worst_by_hand[0], 1.5)


if __name__ == "__main__":
    main()
