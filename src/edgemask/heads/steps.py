"""One mask a step: which forward passes draw a mask, which reuse it, and which see the dense layer.

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

import torch
from torch import Tensor, nn

__all__ = ["StepState", "StepwiseHead", "one_step", "predicting"]


class StepState:
    """What a head knows about the step it is in. Copies and pickles start outside any step.

    Attributes:
        mask: The mask of the last step.
        seen: The sums of squares of the passes that used it, to know one of them when it returns.
        returned: Those of them that backward has repeated.
        missed: Those of the step before that it did not repeat, and whose mask is gone.
        blocks: How many :func:`one_step` blocks are open around the head.
        drawn: Whether the mask belongs to the open block.
        predicting: How many :func:`predicting` blocks are open around it.
    """

    __slots__ = ("blocks", "drawn", "mask", "missed", "predicting", "returned", "seen")

    def __init__(self) -> None:
        self.mask: Tensor | None = None
        self.seen: list[Tensor] = []
        self.returned: list[Tensor] = []
        self.missed: list[Tensor] = []
        self.blocks = 0
        self.drawn = False
        self.predicting = 0

    def __deepcopy__(self, memo: dict[int, object]) -> StepState:
        return StepState()

    def __reduce__(self) -> tuple[type[StepState], tuple[()]]:
        return StepState, ()


class StepwiseHead(nn.Module):
    """A head that is random in training and obeys the one-mask-a-step rule.

    A subclass says how a step's mask is made (:meth:`draw_mask`) and what a pass does with it, and
    has an attribute ``step_state``, a :class:`StepState`. The mask is never a buffer: distributed
    wrappers overwrite buffers between passes.
    """

    step_state: StepState

    @property
    def last_mask(self) -> Tensor | None:
        """The mask of the last step, or None before the first."""
        return self.step_state.mask

    def is_step(self) -> bool:
        """Whether a pass made now belongs to a training step; otherwise it is a prediction."""
        state = self.step_state
        if not self.training or state.predicting:
            return False
        return torch.is_grad_enabled() or (state.blocks > 0 and not _inference_mode())

    def draw_mask(self, samples: Tensor, squares: Tensor) -> Tensor:
        """Make one step: learn from a batch and return a new mask. Runs without gradient.

        Args:
            samples: The batch, ``(N, d)``, in float32 or float64.
            squares: The sum of squares of each of its columns, ``(d,)``.
        """
        raise NotImplementedError

    def mask_for(self, input: Tensor) -> Tensor | None:
        """Decide what this pass is; return its mask, or None for a dense pass."""
        if not self.is_step():
            return None
        state = self.step_state
        again = state.blocks > 0 and state.drawn
        with torch.no_grad():
            samples = _as_samples(input)
            squares = samples.square().sum(dim=0)
            if _inside_backward():
                return self._mask_of_repeated_pass(squares, again)
            if again:
                state.seen.append(squares)
                return state.mask
            state.mask = None  # gives its memory back, if nobody else holds it
            state.mask = self.draw_mask(samples, squares)
            state.missed, state.seen, state.returned = state.seen, [squares], []
            state.drawn = True
        return state.mask

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
            assert state.mask is not None
            return state.mask
        raise RuntimeError(
            f"{self} ran inside backward, as activation checkpointing makes it, on a pass whose "
            "mask it does not know: a newer step has replaced it, or the pass ran under no_grad, "
            "as with use_reentrant=True. Put the forward passes and the backward of each "
            "optimisation step inside `with edgemask.one_step(model):`"
        )


def _distances(passes: list[Tensor], squares: Tensor) -> list[float]:
    """Return by how much the sums of squares of each pass differ from those given, relatively."""
    squares = squares.nan_to_num()
    size = squares + squares.amax() * 1e-6 + torch.finfo(squares.dtype).tiny
    return [float(((other.nan_to_num() - squares).abs() / size).amax()) for other in passes]


def _as_samples(input: Tensor) -> Tensor:
    """Flatten the leading dimensions, and leave half precision: statistics need the range."""
    samples = input.detach().reshape(-1, input.shape[-1])
    return samples.float() if samples.dtype in (torch.float16, torch.bfloat16) else samples


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
    heads = _heads(models) if per == "step" else []
    for head in heads:
        head.step_state.blocks += 1
        if head.step_state.blocks == 1:
            head.step_state.drawn = False
    try:
        yield
    finally:
        for head in heads:
            head.step_state.blocks -= 1


@contextmanager
def predicting(*models: nn.Module) -> Iterator[None]:
    """Make all forward passes inside the block predictions: dense, as at test, nothing written.

    For pseudo-labels, teachers, peers and scoring passes that run in training mode. It holds inside
    :func:`one_step` as well.
    """
    heads = _heads(models)
    for head in heads:
        head.step_state.predicting += 1
    try:
        yield
    finally:
        for head in heads:
            head.step_state.predicting -= 1
