"""A linear layer that slows down once held-out labels stop getting more likely."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.errors import UserError
from edgemask.heads import native
from edgemask.heads.scaled import times
from edgemask.heads.steps import MaskingHead, check_features, is_distributed

__all__ = ["AdaptiveLinear"]

_TEMPERATURES = 2.0 ** torch.arange(-7, 3)
_SLOTS = 4096  # of the table of held-out samples seen in this round
_GOLDEN, _MULTIPLIER = (w - 2**64 for w in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9))  # SplitMix64


class AdaptiveLinear(MaskingHead, nn.Linear):
    """A linear layer with logits ``s (W v + b)``; s falls when the network starts to memorise.

    A factor s on the logits slows the layer down by s^2 and the gradient of the network below by s
    (see :class:`ScaledLinear`), so that single wrong labels are learnt late or never. How small it
    must be depends on the data, so it is found while training: a share of the samples is held out,
    that is, their logits carry no gradient. After each round through them the factor is doubled, up
    to 1, if their given labels have become more likely than in any round before, by the cross
    entropy at the best temperature, and halved if not. It stays above ``least ** min(1, 5 e)`` with
    ``e = (k + 1) / (n + 2)``, where the network disagreed with k of n held-out labels in its best
    round: where it agrees with nearly all of many, few labels can be wrong, and there is little to
    protect from.

    The layer cannot see labels: :func:`edgemask.observe` tells it which samples and labels come
    next. Without that call nothing is held out and the factor is ``unobserved``. At inference
    the factor of the last step is used; it never changes which class is predicted.

    Args:
        in_features: Size of each input sample.
        out_features: Number of classes.
        bias: Whether to learn an additive bias.
        held_out: Share of samples that are held out.
        least: The smallest factor.
        unobserved: The factor as long as nothing was observed.
        seed: Seed of the choice of held-out samples. Default: one number of torch's generator.
        device: Device of the parameters.
        dtype: Type of the parameters.

    Reference:
        EdgeMask's own; the page on defaults says what was measured.

    Example:
        >>> import edgemask as em
        >>> head = AdaptiveLinear(4, 3)
        >>> x, labels = torch.randn(8, 4), torch.randint(3, (8,))
        >>> for _ in range(5):
        ...     em.observe(head, torch.arange(8), labels)
        ...     loss = nn.functional.cross_entropy(head(x), labels)
    """

    uses_labels: ClassVar[bool] = True
    _state_names: ClassVar[tuple[str, ...]] = (
        "steps",
        "seed",
        "observed_steps",
        "adapted",
        "best",
        "seen",
        "sums",
    )

    observed_steps: Tensor
    adapted: Tensor
    best: Tensor
    seen: Tensor
    sums: Tensor

    @checked
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        held_out: Annotated[float, Range(above=0, below=1)] = 0.05,
        least: Annotated[float, Range(above=0, high=1)] = 0.03,
        unobserved: Annotated[float, Range(above=0, high=1)] = 0.5,
        seed: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.held_out = held_out
        self.least = least
        self.unobserved = unobserved
        self.reset_state(seed=seed)

    def reset_state(self, *, seed: int | None = None) -> None:
        super().reset_state(seed=seed)
        device = self.weight.device
        state = {
            "observed_steps": torch.zeros((), dtype=torch.int64, device=device),
            "adapted": torch.ones((), device=device),
            # cross entropy and estimated share of errors of the best round
            "best": torch.tensor([torch.inf, 1.0], device=device),
            # of this round: samples, errors, samples seen before, cross entropy by temperature
            "sums": torch.zeros(3 + len(_TEMPERATURES), device=device),
            "seen": torch.zeros(_SLOTS + 1, dtype=torch.bool, device=device),
        }
        for name, value in state.items():
            self.register_buffer(name, value)

    @property
    def factor(self) -> Tensor:
        """The factor as it stands; 1 before the first step."""
        fixed = torch.where(self.steps > 0, self.unobserved, 1.0)
        return torch.where(self.observed_steps > 0, self.adapted, fixed)

    def next_mask(self, samples: Tensor) -> Tensor:
        self.steps.add_(1)
        if not self.step_state.fresh:
            return self.factor
        self.observed_steps.add_(1)
        return self.adapted.clone()

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer and scale its logits; those of held-out samples carry no gradient."""
        check_features(self, input)
        factor = self.mask_for(input)
        logits = F.linear(input, self.weight, self.bias)
        if factor is None:
            return logits * self.factor.to(logits.dtype)
        observed = self.step_state.take_observed()
        scaled = logits * factor.to(logits.dtype)
        if observed is None:
            return scaled
        index, target, fresh = observed
        if input.dim() != 2 or len(index) != len(input):
            raise UserError(
                f"observe got {len(index)} samples, and the next pass through {self} has an input "
                f"of shape {tuple(input.shape)}; it takes one row per sample"
            )
        held = self._record(logits.detach(), index, target) if fresh else self._choose(index)[0]
        return torch.where(held[:, None], scaled.detach(), scaled)

    @property
    def _limit(self) -> int:
        """A sample is held out if 30 bits of its hash are below."""
        return round(self.held_out * 2**30)

    def _choose(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return which samples are held out, and their places in the table of those seen.

        Both come from a hash of the index and the seed, which takes fewer operations than a block
        of random numbers. All samples that are not held out share the last place.
        """
        word = (index.to(self.seed.device) + self.seed) * _GOLDEN
        word = (word ^ (word >> 30)) * _MULTIPLIER
        held = (word >> 33) & 0x3FFFFFFF < self._limit
        return held, torch.where(held, (word >> 20) & (_SLOTS - 1), _SLOTS)

    @torch.no_grad()
    def _record(self, logits: Tensor, index: Tensor, target: Tensor) -> Tensor:
        """Add a batch to the round; end the round first if its samples come again.

        Returns:
            Which samples are held out.
        """
        known = None
        if native.enabled and logits.is_cpu and not is_distributed():
            state = self.seed, self.sums, self.seen
            known = native.record_held_out(state, index, target, logits, self._limit)
        if known is None:
            held, slots = self._choose(index)
            batch = self._sum(logits, target, held, slots)
        else:
            held, slots, coming = known
            if coming is None:
                return held
            batch = coming
        if is_distributed():
            marks = torch.zeros(_SLOTS + 1, device=logits.device)
            marks[slots] = 1.0
            batch = torch.cat([batch, marks])
            dist.all_reduce(batch)
            batch, marks = batch.split([len(self.sums), len(marks)])
        ended = 2 * batch[2] > batch[0]
        if not _known_to_be_false(ended):
            self._end_round(ended)
        self.sums += batch
        if is_distributed():
            self.seen |= marks > 0
        else:
            self.seen[slots] = True
        return held

    def _sum(self, logits: Tensor, target: Tensor, held: Tensor, slots: Tensor) -> Tensor:
        """Sum over the held-out samples of a batch what :meth:`_end_round` compares."""
        # a fixed number of rows, so that the device is not waited for; few batches have more
        weight, rows = held.float().topk(min(len(held), max(8, len(held) // 4)))
        logits, target = logits[rows].float(), target.to(logits.device)[rows]
        tempered = logits * _TEMPERATURES.to(logits.device)[:, None, None]
        given = target.expand(len(_TEMPERATURES), -1)[..., None]
        losses = -tempered.log_softmax(2).gather(2, given)[..., 0]
        wrong, again = logits.argmax(1) != target, self.seen[slots[rows]]
        return torch.cat([torch.stack([torch.ones_like(weight), wrong, again]), losses]) @ weight

    def _end_round(self, ended: Tensor) -> None:
        """Compare the round with the best one where it has ended, and start the next."""
        count, errors, losses = self.sums[0], self.sums[1], self.sums[3:]
        result = torch.stack([losses.min() / count, (errors + 1) / (count + 2)])
        better = result[0] < self.best[0]
        self.best.copy_(torch.where(ended & better, result, self.best))
        floor = self.least ** (5.0 * self.best[1]).clamp_max(1.0)
        faster = (2.0 * self.adapted).clamp_max(1.0)
        slower = torch.maximum(0.5 * self.adapted, torch.minimum(floor, self.adapted))
        new = torch.where(better, faster, slower)
        self.adapted.copy_(torch.where(ended, new, self.adapted))
        self.sums.masked_fill_(ended, 0.0)
        self.seen.logical_and_(~ended)

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """Move with the module, but count in full precision: half would stop at 2,048 samples."""
        before = {name: getattr(self, name) for name in ("adapted", "best", "sums")}
        result: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            new = getattr(self, name)
            if new.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, old.to(new.device, torch.float32))
        return result

    def to_plain(self) -> nn.Linear:
        """Return the plain layer with the same logits."""
        return times(self, self.factor)

    def extra_repr(self) -> str:
        return (
            f"{nn.Linear.extra_repr(self)}, held_out={self.held_out}, least={self.least}, "
            f"unobserved={self.unobserved}"
        )


def _known_to_be_false(flag: Tensor) -> bool:
    """Whether a flag is false, where looking at it costs nothing: a device is not waited for."""
    return flag.is_cpu and not torch.compiler.is_compiling() and not flag
