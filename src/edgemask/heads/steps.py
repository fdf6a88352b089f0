"""One mask per step: which forward passes draw a mask, reuse it, or see the dense layer.

Algorithm 1 scores the edges and draws a mask once for a mini-batch. Methods that run the network
several times in one optimisation step (two views, mix-up, SAM, micro-batches, teachers, recomputed
activations) have to say which passes belong together; :func:`one_step` and :func:`predicting` do.

=====================================================  ============================================
situation                                              what a masking head does
=====================================================  ============================================
forward in ``train()`` with gradient                   a step of its own: scores the batch, updates,
                                                       draws a mask and uses it at once
several passes inside ``with one_step(model):``        the first one scores and draws, the others
                                                       use its mask; one update
``eval()``; ``no_grad`` outside such a block;          a prediction, as at test; nothing is written
``inference_mode``; ``with predicting(model):``
the same forward again inside ``backward``             the mask of the pass that it repeats, or an
(activation checkpointing)                             error where that cannot be known
=====================================================  ============================================
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from edgemask.errors import UserError
from edgemask.heads.philox import stream_of, uniform

__all__ = [
    "MaskingHead",
    "StepState",
    "StepwiseHead",
    "check_features",
    "is_distributed",
    "mean_over_ranks",
    "new_seed",
    "observe",
    "one_step",
    "predicting",
    "to_linear",
]

_PURPOSES = ("mask", "shuffle-coarse", "shuffle-fine", "samples")


class StepState:
    """What a head knows about the step it is in. Copies and pickles start outside any step.

    Attributes:
        drawn_with: What the mask of the last step was drawn with, to draw it again: it is not kept.
        mask: That mask while its block is open, and where it cannot be drawn again: booleans, or
            factors where kept edges are scaled.
        kept: The weights times the mask, from the native path to the pass that asked for it.
        seen: The sums of squares of the passes that used it, to know one of them when it returns.
        returned: Those of them that backward has repeated.
        missed: Those of the step before that it did not repeat, and whose mask is gone.
        blocks: How many :func:`one_step` blocks are open around the head.
        drawn: Whether the mask belongs to the open block.
        predicting: How many :func:`predicting` blocks are open around it.
        observed: Samples and labels of the coming pass, or of the last one, from :func:`observe`.
        fresh: Whether that pass is still to come.
    """

    __slots__ = (
        "blocks",
        "drawn",
        "drawn_with",
        "fresh",
        "kept",
        "mask",
        "missed",
        "observed",
        "predicting",
        "returned",
        "seen",
    )

    def __init__(self) -> None:
        self.drawn_with: tuple[Any, ...] | None = None
        self.mask: Tensor | None = None
        self.kept: Tensor | None = None
        self.seen: list[Tensor] = []
        self.returned: list[Tensor] = []
        self.missed: list[Tensor] = []
        self.blocks = 0
        self.drawn = False
        self.predicting = 0
        self.observed: tuple[Tensor, Tensor] | None = None
        self.fresh = False

    def take_kept(self) -> Tensor | None:
        """Return the kept weights once: the weights may have moved when a next pass comes."""
        kept, self.kept = self.kept, None
        return kept

    def take_observed(self) -> tuple[Tensor, Tensor, bool] | None:
        """Return samples and labels of this pass, and whether it is not one that backward repeats.

        None if nothing was observed since the pass before.
        """
        fresh, self.fresh = self.fresh, False
        if self.observed is None or not (fresh or _inside_backward()):
            return None
        return *self.observed, fresh

    def __deepcopy__(self, memo: dict[int, object]) -> StepState:
        return StepState()

    def __reduce__(self) -> tuple[type[StepState], tuple[()]]:
        return StepState, ()


class StepwiseHead(nn.Module):
    """A head that is random in training: it tells training steps from predictions.

    A subclass sets ``step_state``, a :class:`StepState`.
    """

    step_state: StepState
    uses_labels: ClassVar[bool] = False
    """Whether the head wants to know what :func:`observe` tells."""

    def is_step(self) -> bool:
        """Whether a pass made now belongs to a training step; otherwise it is a prediction."""
        state = self.step_state
        if not self.training or state.predicting:
            return False
        return torch.is_grad_enabled() or (state.blocks > 0 and not _inference_mode())


class MaskingHead(StepwiseHead):
    """A head that draws one mask of edges per step, as a function of its seed and step count.

    A subclass says how a step's mask is made (:meth:`next_mask`), how to make it again
    (:meth:`mask_options`, :meth:`draw_again`) and what a pass does with it.
    Seed and count are in the ``state_dict``, so that a run resumes with the masks it would have
    drawn. The checkpoint of a plain layer, which has neither, loads all the same, with
    ``strict=True``, and starts the state afresh. The mask is never a buffer: distributed wrappers
    overwrite buffers between passes.

    Attributes:
        steps: How many steps the head has made.
        seed: The key of its random numbers. A seed that was given explicitly stays when a
            checkpoint is loaded; another one is replaced by the checkpoint's.
    """

    steps: Tensor
    seed: Tensor

    _state_names: ClassVar[tuple[str, ...]] = ("steps", "seed")

    def edge_weight(self) -> Tensor:
        """Return a ``(C, d)`` parameter with one entry per edge."""
        weight = self.weight
        assert isinstance(weight, Tensor)
        return weight

    def reset_state(self, *, seed: int | None = None) -> None:
        """Start afresh; ``__init__`` calls it as well.

        Args:
            seed: The new seed. Default: one number of torch's generator (none on the meta device,
                which holds no values).
        """
        weight = self.edge_weight()
        rows, columns = weight.shape
        self._given_seed = seed
        if seed is None:
            seed = 0 if weight.device.type == "meta" else new_seed()
        self.step_state = StepState()
        self._streams = {purpose: stream_of(rows, columns, purpose) for purpose in _PURPOSES}
        for name, number in (("steps", 0), ("seed", int(seed))):
            buffer = torch.full((), number, dtype=torch.int64, device=weight.device)
            self.register_buffer(name, buffer)

    def reset_parameters(self) -> None:
        """Draw new parameters and start the state afresh, as ``to_empty`` asks for."""
        super().reset_parameters()  # type: ignore[misc]
        if hasattr(self, "step_state"):
            self.reset_state()

    def uniform(self, purpose: str = "mask", steps: Tensor | None = None) -> Tensor:
        """Return a step's random numbers, one per edge, ``(C, d)``.

        Args:
            purpose: What they are for.
            steps: The number of steps before it. Default: the coming step's.
        """
        rows, columns = self.edge_weight().shape
        steps = self.steps if steps is None else steps
        return uniform(self.seed, steps, rows, columns, self._streams[purpose])

    @property
    def last_mask(self) -> Tensor | None:
        """The last step's mask as new floating-point numbers, or None before the first.

        It is drawn again from the scores, seed and step count: no mask is kept between steps.
        """
        mask = self._mask_of_last_step()
        if mask is None:
            return None
        dtype = torch.promote_types(self.edge_weight().dtype, torch.float32)
        return mask.to(dtype, copy=True)

    @torch.no_grad()
    def _mask_of_last_step(self) -> Tensor | None:
        state = self.step_state
        if state.mask is None and state.drawn_with is not None:
            return self.draw_again(*state.drawn_with)
        return state.mask

    @property
    def retention(self) -> float:
        """The share of edges kept by the last mask; the expected one before the first."""
        mask = self._mask_of_last_step()
        if mask is None:
            return self.expected_retention()
        return float((mask != 0).float().mean()) if mask.numel() else 1.0

    def expected_retention(self) -> float:
        """Return the share of edges that a step made now would keep, on average."""
        return 1.0

    def next_mask(self, samples: Tensor) -> Tensor:
        """Make one step: learn from a batch and return a new mask. Runs without gradient.

        Args:
            samples: The batch, ``(N, d)``, in float32 or float64.

        Returns:
            A new tensor: booleans, or the factors of the edges where they are scaled.
        """
        raise NotImplementedError

    def mask_options(self, steps: Tensor | int) -> tuple[Any, ...] | None:
        """Return what a step made now draws its mask with, for :meth:`draw_again`.

        None where a mask cannot be drawn again, so that it has to be kept.

        Args:
            steps: The number of steps made so far, which the buffer soon no longer holds.
        """
        return None

    def draw_again(self, *options: Any) -> Tensor:
        """Return the mask of the last step as :meth:`next_mask` did, given its options."""
        raise NotImplementedError

    def mask_for(self, input: Tensor) -> Tensor | None:
        """Decide what this pass is; return its mask, or None for a dense pass."""
        if not self.is_step():
            return None
        state = self.step_state
        again = state.blocks > 0 and state.drawn
        if _inside_backward():
            return self._mask_of_repeated_pass(_sum_of_squares(input), again)
        if again:
            state.seen.append(_sum_of_squares(input))
            return state.mask
        mask, squares, state.drawn_with = self._new_mask(input)
        state.mask = mask if state.blocks > 0 or state.drawn_with is None else None
        state.missed, state.seen, state.returned = state.seen, [squares], []
        state.drawn = True
        return mask

    @torch.no_grad()
    def _new_mask(self, input: Tensor) -> tuple[Tensor, Tensor, tuple[Any, ...] | None]:
        """Return the mask of a new step, the batch's sums of squares, and the mask's options."""
        options = self.mask_options(self.steps.clone())
        return self.next_mask(_as_samples(input)), _sum_of_squares(input), options

    def _mask_of_repeated_pass(self, squares: Tensor, in_block: bool) -> Tensor:
        """Find the pass that backward repeats among those that used the current mask.

        A pass of the step before may have had the same input. It is taken for the nearer of the
        two, and where they are equally near, for the current one only inside its block.
        """
        state = self.step_state
        current = _distances(state.seen + state.returned, squares)
        near = min(current, default=math.inf)
        gone = min(_distances(state.missed, squares), default=math.inf)
        if near <= 1e-3 and (near < gone or (in_block and near == gone)):
            index = current.index(near)
            if index < len(state.seen):
                state.returned.append(state.seen.pop(index))
            mask = self._mask_of_last_step()
            assert mask is not None
            return mask
        raise RuntimeError(
            f"{self} ran inside backward, as activation checkpointing makes it, on a pass whose "
            "mask it does not know: a newer step has replaced it, or the pass ran under no_grad, "
            "as with use_reentrant=True. Put the forward passes and the backward of each "
            "optimisation step inside `with edgemask.one_step(model):`"
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        given = own = self._given_seed
        if own is None and self.seed.device.type != "meta":
            own = int(self.seed)
        plain = not any(prefix + name in state_dict for name in self._state_names)
        if plain:
            state = {prefix + name: getattr(self, name) for name in self._state_names}
            state_dict = {**state_dict, **state}
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if plain:  # after the weights, which may have come to another device (assign=True)
            self.reset_state(seed=own)
        elif given is not None:
            self.seed.fill_(given)
        self._given_seed = given
        self.step_state = StepState()


def check_features(head: nn.Module, input: Tensor) -> None:
    """Refuse an input whose last dimension is not the head's, before any state is written.

    Raises:
        UserError: Names the head, its sizes and the input's shape.
    """
    if input.dim() == 0 or input.shape[-1] != head.in_features:
        raise UserError(
            f"{type(head).__name__}({head.in_features}, {head.out_features}) takes inputs of shape "
            f"(*, {head.in_features}), got {tuple(input.shape)}"
        )


def to_linear(head: nn.Linear) -> nn.Linear:
    """Return the plain layer with a head's size, mode and very parameters."""
    plain = nn.Linear(head.in_features, head.out_features, head.bias is not None, device="meta")
    plain.weight = head.weight
    plain.bias = head.bias
    return plain.train(head.training)


def is_distributed() -> bool:
    """Whether this process trains together with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def new_seed() -> int:
    """Draw a seed from torch's generator; all processes of a distributed job get rank 0's."""
    seed = [int(torch.randint(2**63 - 1, (), device="cpu"))]
    if is_distributed():
        dist.broadcast_object_list(seed, src=0)
    return seed[0]


def mean_over_ranks(total: Tensor, count: int) -> Tensor:
    """Divide a sum over samples by their number, over all ranks of a distributed job.

    One all-reduce of the sum's entries and the count: exact for ranks with unequal batches, and a
    rank with an empty one joins all the same. With no sample at all the mean is not a number.
    """
    if is_distributed():
        packed = torch.cat([total.flatten(), total.new_full((1,), count)])
        dist.all_reduce(packed)
        return packed[:-1].view_as(total) / packed[-1]
    return total / count


def _distances(passes: list[Tensor], squares: Tensor) -> list[float]:
    """Return by how much the sums of squares of each pass differ from those given, relatively."""
    squares = squares.nan_to_num()
    size = squares + squares.amax() * 1e-6 + torch.finfo(squares.dtype).tiny
    return [float(((other.nan_to_num() - squares).abs() / size).amax()) for other in passes]


def _as_samples(input: Tensor) -> Tensor:
    """Flatten the leading dimensions, and leave half precision: statistics need the range."""
    samples = input.detach().reshape(-1, input.shape[-1])
    return samples.float() if samples.dtype in (torch.float16, torch.bfloat16) else samples


def _sum_of_squares(input: Tensor) -> Tensor:
    return _as_samples(input).square().sum(dim=0)


def _inference_mode() -> bool:
    # its tensors, a mask for one, are of no use to a graph
    return not torch.compiler.is_compiling() and torch.is_inference_mode_enabled()


def _inside_backward() -> bool:
    if torch.compiler.is_compiling():
        return False
    return bool(torch._C._current_graph_task_id() != -1)


def _heads(models: tuple[nn.Module, ...]) -> list[StepwiseHead]:
    found = {
        id(module): module
        for model in models
        for module in model.modules()
        if isinstance(module, StepwiseHead)
    }
    return list(found.values())


@contextmanager
def one_step(*models: nn.Module, per: str = "step") -> Iterator[None]:
    """Make all forward passes inside the block one optimisation step of the heads in ``models``.

    The first pass, with or without gradient, scores and draws; the others use its mask. Blocks may
    be nested: the outermost one is the step. Models without a masking head pass through untouched.

    Args:
        models: The models that are trained in this step.
        per: ``"step"``, or ``"forward"`` for a mask and an update with every pass, for comparison.

    Example:
        >>> import edgemask as em
        >>> head = em.SEMLinear(4, 3)
        >>> with em.one_step(head):
        ...     logits = head(torch.randn(8, 4)) + head(torch.randn(8, 4))
        ...     logits.sum().backward()
        >>> int(head.steps)
        1
    """
    if per not in ("step", "forward"):
        raise ValueError(f"per must be 'step' or 'forward', got {per!r}")
    states = [head.step_state for head in _heads(models)] if per == "step" else []
    for state in states:
        state.blocks += 1
        if state.blocks == 1:
            state.drawn = False
    try:
        yield
    finally:
        for state in states:
            state.blocks -= 1
            if state.blocks == 0 and state.drawn_with is not None:
                state.mask = None


def observe(model: nn.Module, index: Tensor, target: Tensor) -> None:
    """Tell the heads of a model which samples and labels its next training pass will have.

    One optional call before each training pass of a loop; :func:`edgemask.fit` makes it. Heads
    whose strength depends on the labels (``adaptive``) use it, all others ignore it.

    Args:
        model: The model that is trained.
        index: Position of each sample in the training set, ``(B,)``: the same in every epoch.
        target: The given labels, ``(B,)``.

    Example:
        >>> import edgemask as em
        >>> model = em.attach(nn.Sequential(nn.Linear(4, 3)), "adaptive")
        >>> em.observe(model, torch.arange(8), torch.randint(3, (8,)))
        >>> logits = model(torch.randn(8, 4))
    """
    for name, value in (("index", index), ("target", target)):
        if value.dim() != 1 or value.is_floating_point() or len(value) != len(index):
            raise UserError(
                f"observe: {name} must hold one integer per sample, {len(index)} in all, got "
                f"{value.dtype} of shape {tuple(value.shape)}"
            )
    for head in _heads((model,)):
        if head.uses_labels:
            head.step_state.observed = (index.detach(), target.detach())
            head.step_state.fresh = True


@contextmanager
def predicting(*models: nn.Module) -> Iterator[None]:
    """Make all forward passes inside the block predictions: dense, as at test, nothing written.

    For pseudo-labels, teachers, peers and scoring passes that run in training mode. It holds inside
    :func:`one_step` as well.
    """
    states = [head.step_state for head in _heads(models)]
    for state in states:
        state.predicting += 1
    try:
        yield
    finally:
        for state in states:
            state.predicting -= 1
