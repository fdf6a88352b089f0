"""What all losses share: the module class, the checks of a batch, and parts of formulas.

A formula takes log-probabilities (N, C) and a target, which is labels as a column (N, 1) or label
distributions (N, C), and returns one value per row as a column (N, 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import (
    Annotated,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    dataclass_transform,
    get_type_hints,
)

import torch
import torch.distributed as dist
from torch import Tensor, nn

from edgemask._options import Range, checked
from edgemask.errors import UserError
from edgemask.losses.published import Preset

__all__ = [
    "BelowHalf",
    "Clip",
    "Exponent",
    "Loss",
    "NonNegative",
    "OpenUnit",
    "Positive",
    "Reduction",
    "Rows",
    "at_label",
    "check_index",
    "clamp_log",
    "expected",
    "loss",
    "off_label",
    "on_label",
    "over_processes",
    "read_rows",
    "sum_over_processes",
    "to_float32",
    "valid_labels",
]

Reduction = Literal["mean", "none"]
NonNegative = Annotated[float, Range(0)]
Positive = Annotated[float, Range(above=0)]
Exponent = Annotated[float, Range(above=0, high=1)]
Clip = Annotated[float, Range(0, below=1)]
OpenUnit = Annotated[float, Range(above=0, below=1)]
BelowHalf = Annotated[float, Range(above=0, below=0.5)]

T = TypeVar("T", bound="Loss")


@dataclass_transform(field_specifiers=(field,))
def loss(cls: type[T]) -> type[T]:
    """Make a loss from a class whose annotated attributes are its options.

    The options become the arguments of the constructor, which checks their types and ranges.
    """
    made = dataclass(eq=False, repr=False)(cls)
    hints = get_type_hints(made, include_extras=True)
    init = made.__init__
    init.__annotations__ = {name: hints.get(name) for name in init.__annotations__}
    made.__init__ = checked(init)  # type: ignore[method-assign]
    return made


class Rows(NamedTuple):
    """A checked batch with one row per label; dense logits have a row per position."""

    logits: Tensor
    """Scores, (N, C), in float32 or float64."""
    target: Tensor
    """Labels (N, 1), or label distributions (N, C)."""
    valid: Tensor | None
    """False for the rows to ignore, (N, 1); None if there are none."""
    shape: torch.Size
    """Shape (B, ...) of the unreduced loss."""


@loss
class Loss(nn.Module):
    """A loss of logits and targets.

    A subclass fills in :meth:`formula`. One that starts from something else than
    log-probabilities, has a memory or a term of the whole batch overrides :meth:`values`.

    Args:
        scale: Factor of the whole loss.
        weight: Weight of each class, (C,). As in torch's cross entropy, a sample counts with the
            weight of its label, and the mean is divided by the sum of the weights, over all
            processes of a distributed job. A soft target has the mean weight of its labels.
        ignore_index: Samples with this label count nothing and get no gradient.
        reduction: ``"mean"`` over the batch or ``"none"`` for one value per sample. The mean of
            an empty batch, or of one whose labels are all ignored, is zero.

    Attributes:
        equation: The loss of one sample, in plain text (p = softmax of the logits, y the label,
            t the target distribution, K classes, sg[] without gradient).
        reference: Where the loss comes from.
        symmetric: Whether the losses of all labels sum to the same number for every prediction.
        bounded: Whether the loss has an upper bound.
        needs_index: Whether the loss remembers samples and has to be given ``index``.
        files: Options that may name a file, whose contents are then part of what a run is.
        settings: The published settings, where the loss was made by ``preset``.
        l1: Strength of the L1 penalty on all parameters of the model that belongs to the
            published settings; 0 where the loss was not made by ``preset``.
    """

    equation: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    symmetric: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    files: ClassVar[tuple[str, ...]] = ()

    _: KW_ONLY
    scale: Annotated[float, Range()] = 1.0
    weight: Tensor | Sequence[float] | None = None
    ignore_index: int = -100
    reduction: Reduction = "mean"
    needs_index: bool = field(default=False, init=False)
    settings: Preset | None = field(default=None, init=False)
    l1: float = field(default=0.0, init=False)
    class_weight: Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        super().__init__()
        weight = None
        if self.weight is not None:
            weight = torch.as_tensor(self.weight, dtype=torch.float32).detach().clone()
            if weight.ndim != 1 or not bool((weight >= 0).all() & weight.isfinite().all()):
                raise UserError(
                    f"weight={self.weight!r}: expected one number per class, not negative"
                )
        self.register_buffer("class_weight", weight)

    def formula(self, log_probs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each row, (N, 1), or (N, C) where it is the mean over classes.

        Args:
            log_probs: Log-probabilities, (N, C).
            target: Labels (N, 1), or label distributions (N, C).
        """
        raise NotImplementedError

    def values(self, rows: Rows, index: Tensor | None) -> Tensor:
        """Return what :meth:`formula` returns, without scale and class weights.

        Where :meth:`is_plain_mean`, the mean may be returned instead, if it is quicker to get.
        """
        del index
        return self.formula(torch.log_softmax(rows.logits, dim=1), rows.target)

    def forward(self, logits: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """Compute the loss of a batch.

        Args:
            logits: Scores, (B, C) or dense (B, C, ...); half precision is computed in float32.
            target: Labels (B, ...), or label distributions of the logits' shape.
            index: Positions of the samples in the training set, of the labels' shape; needed by
                losses with a memory, ignored by the others.

        Returns:
            A scalar, or the labels' shape with ``reduction="none"``.
        """
        rows = read_rows(logits, target, self.ignore_index)
        return self.reduce(self.values(rows, index), rows)

    def is_plain_mean(self, rows: Rows) -> bool:
        """Whether the loss is the mean over all rows, of which there are some, with one weight."""
        all_alike = rows.valid is None and self.weight is None
        return all_alike and self.reduction == "mean" and len(rows.logits) > 0

    def reduce(self, values: Tensor, rows: Rows) -> Tensor:
        """Scale, weight and reduce the losses of the rows."""
        if self.scale != 1.0:
            values = self.scale * values
        if self.is_plain_mean(rows):
            return values.mean() if values.ndim else values
        if values.shape[1] > 1:
            values = values.mean(dim=1, keepdim=True)
        if rows.valid is not None or self.weight is not None or self.reduction == "mean":
            weights = self._row_weights(rows, values)
            values = torch.where(weights > 0, weights * values, 0.0)
        if self.reduction == "none":
            return values.reshape(rows.shape)
        sums = torch.stack([values.sum(), weights.sum()])
        if self.class_weight is not None:  # the mean of the joint batch of all processes
            sums, _ = over_processes(sums, sums.new_full((), len(values)))
        total, size = sums.unbind()
        return total / size.clamp(min=torch.finfo(values.dtype).tiny)

    def _row_weights(self, rows: Rows, values: Tensor) -> Tensor:
        """Return how much each row counts in the mean, (N, 1)."""
        if self.class_weight is None:
            return torch.ones_like(values) if rows.valid is None else rows.valid.to(values)
        classes = rows.logits.shape[1]
        if len(self.class_weight) != classes:
            raise ValueError(f"weight of {len(self.class_weight)} classes: logits have {classes}")
        weight = self.class_weight.to(values)
        if rows.target.is_floating_point():
            weights = (rows.target * weight).sum(dim=1, keepdim=True)
        else:
            weights = weight[rows.target]
        return weights if rows.valid is None else weights * rows.valid

    def extra_repr(self) -> str:
        """Show the options, of those that all losses have only the ones that were changed."""
        common = [f for f in fields(Loss) if f.init]
        names = {f.name for f in common}
        shown = [f.name for f in fields(self) if f.init and f.name not in names]
        shown += [f.name for f in common if getattr(self, f.name) is not f.default]
        shown += ["reduction"] * ("reduction" not in shown)
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)


def to_float32(logits: Tensor) -> Tensor:
    """Check logits and return them in float32 at least."""
    if logits.ndim < 2 or logits.shape[1] < 2:
        raise ValueError(
            f"logits of shape {tuple(logits.shape)}: expected (batch, classes) or (batch, classes, "
            "...), at least 2 classes"
        )
    if logits.dtype in (torch.float32, torch.float64):
        return logits
    if not logits.is_floating_point():
        raise TypeError(f"logits of dtype {logits.dtype}: expected a floating type")
    return logits.float()


def read_rows(logits: Tensor, target: Tensor, ignore_index: int = -100) -> Rows:
    """Check a batch and reshape it into rows."""
    logits = to_float32(logits)
    shape = logits.shape[:1] if logits.ndim == 2 else logits.shape[:1] + logits.shape[2:]
    if target.dtype != torch.int64 or target.shape != shape:
        return _read_other_targets(logits, target, shape, ignore_index)
    if logits.ndim > 2:
        logits = _class_last(logits)
    valid = valid_labels(target, logits.shape[1], ignore_index)
    if valid is not None:
        target = target.masked_fill(~valid, 0)
        valid = valid.reshape(-1, 1)
    return Rows(logits, target.reshape(-1, 1), valid, shape)


def _read_other_targets(
    logits: Tensor, target: Tensor, shape: torch.Size, ignore_index: int
) -> Rows:
    """Read soft targets and labels of other integer types, or say what is wrong with a target."""
    if target.dtype == torch.bool or target.is_complex():
        raise TypeError(f"target of dtype {target.dtype}: expected integer labels or soft targets")
    if target.shape == logits.shape:
        _check_distributions(target)
        soft = target.to(logits.dtype)
        if logits.ndim > 2:
            logits, soft = _class_last(logits), _class_last(soft)
        return Rows(logits, soft, None, shape)
    if target.is_floating_point() or target.shape != shape:
        raise ValueError(
            f"target of dtype {target.dtype} and shape {tuple(target.shape)}: expected integer "
            f"labels of shape {tuple(shape)}, or soft targets of shape {tuple(logits.shape)}"
        )
    return read_rows(logits, target.long(), ignore_index)


def _check_distributions(target: Tensor) -> None:
    """Refuse soft targets that are negative, not numbers, or do not sum to 1; only on the CPU."""
    if not target.is_cpu or torch.compiler.is_compiling() or not target.numel():
        return
    sums = target.detach().sum(dim=1, dtype=torch.float32)
    error = 0.01 if target.dtype in (torch.float32, torch.float64) else 0.05
    if not bool(((sums - 1).abs() <= error).all() & (target.detach() >= -error).all()):
        raise UserError(
            f"soft targets from {float(target.min()):g}, with sums from {float(sums.min()):g} to "
            f"{float(sums.max()):g}: expected shares that are not negative and sum to 1"
        )


def _class_last(dense: Tensor) -> Tensor:
    return dense.movedim(1, -1).reshape(-1, dense.shape[1])


def valid_labels(target: Tensor, classes: int, ignore_index: int) -> Tensor | None:
    """Return which labels count, or None if all do; labels out of range are an error.

    Only on the CPU: elsewhere, looking at the values would make each step wait for the device.
    """
    if not target.is_cpu or torch.compiler.is_compiling():
        return target != ignore_index
    if _in_range(target, classes) and not 0 <= ignore_index < classes:
        return None
    valid = target != ignore_index
    counted = target[valid]
    if not _in_range(counted, classes):
        low, high = int(counted.min()), int(counted.max())
        wrong = low if low < 0 else high
        raise ValueError(f"label {wrong} in target: expected 0 to {classes - 1}")
    return valid


def _in_range(indices: Tensor, size: int) -> bool:
    if not indices.numel():
        return True
    return int(indices.min()) >= 0 and int(indices.max()) < size  # aminmax is slower


def check_index(index: Tensor | None, shape: Sequence[int], num_samples: int, name: str) -> Tensor:
    """Return the sample index of a batch as int64, (N,), or say what is wrong with it."""
    if index is None:
        raise ValueError(
            f"{name} remembers every sample: pass index=, the positions of the batch's samples in "
            "the training set"
        )
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise TypeError(f"index of dtype {index.dtype}: expected integers")
    if index.shape != torch.Size(shape):
        raise ValueError(f"index of shape {tuple(index.shape)}: expected {tuple(shape)}")
    index = index.reshape(-1).long()
    can_check = index.is_cpu and not torch.compiler.is_compiling()
    if can_check and not _in_range(index, num_samples):
        wrong = int(index.min() if index.min() < 0 else index.max())
        raise ValueError(
            f"index {wrong} is out of range: {name} was made for num_samples={num_samples}"
        )
    return index


def over_processes(total: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return a sum over samples and their number, over all processes that train together.

    The gradient is that of this process's own sum, scaled so that the mean of the processes'
    gradients, weighted by their samples, is the gradient of the joint loss.

    Args:
        total: The sum over this process's samples.
        count: Their number, a scalar.
    """
    if not _together() or not total.requires_grad:
        return total, count
    packed = torch.cat([total.detach().flatten(), count.to(total)[None]])
    dist.all_reduce(packed)
    own = (packed[-1] / count.clamp(min=1)) * (total - total.detach())
    return packed[:-1].view_as(total) + own, packed[-1]


def sum_over_processes(value: Tensor) -> bool:
    """Replace a value by its sum over all processes, if several train together; tell if so."""
    if _together():
        dist.all_reduce(value)
        return True
    return False


def _together() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def at_label(values: Tensor, target: Tensor) -> Tensor:
    """Return the values (N, C) at the label, or their mean under a soft target, (N, 1)."""
    if target.is_floating_point():
        return (target * values).sum(dim=1, keepdim=True)
    return values.gather(1, target)


def expected(function: Callable[[Tensor], Tensor], log_probs: Tensor, target: Tensor) -> Tensor:
    """Return ``function(log p_y)``, or ``Σ_k t_k function(log p_k)`` under a soft target, (N, 1).

    The function is elementwise; with labels it is evaluated for them alone.
    """
    if target.is_floating_point():
        return at_label(function(log_probs), target)
    return function(at_label(log_probs, target))


def on_label(value: float, target: Tensor, log_probs: Tensor) -> Tensor:
    """Return value·t, (N, C), for hard and soft targets."""
    if target.is_floating_point():
        return value * target
    return torch.zeros_like(log_probs).scatter_(1, target, value)


def off_label(value: float, target: Tensor, log_probs: Tensor) -> Tensor:
    """Return value·(1 − t), (N, C), for hard and soft targets."""
    if target.is_floating_point():
        return value * (1 - target)
    return torch.full_like(log_probs, value).scatter_(1, target, 0.0)


def clamp_log(log_probs: Tensor, low: float, high: float = 1.0) -> Tensor:
    """Clip probabilities to [low, high] by their logarithms; clipped entries get no gradient."""
    if high < 1.0:
        log_probs = log_probs.clamp(max=math.log(high))
    return log_probs.clamp(min=math.log(low)) if low > 0.0 else log_probs
