"""The lasting state of a random head: what a checkpoint holds besides the weights."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from edgemask.heads.random import StepKey, fresh_seed, step_key
from edgemask.heads.steps import StepState, StepwiseHead

__all__ = ["SeededHead", "to_linear"]


class SeededHead(StepwiseHead):
    """A head whose masks are a function of its seed and its step count.

    Both are in the ``state_dict``, so that a run resumes with the masks it would have drawn. The
    checkpoint of a plain layer, which has neither, loads all the same, with ``strict=True``, and
    starts the state afresh.

    Attributes:
        steps: How many steps the head has made.
        seed: What its random numbers come from.
    """

    steps: Tensor
    seed: Tensor

    _state_names: ClassVar[tuple[str, ...]] = ("steps", "seed")

    def edge_weight(self) -> Tensor:
        """Return a ``(C, d)`` parameter with one entry an edge."""
        weight = self.weight
        assert isinstance(weight, Tensor)
        return weight

    def reset_state(self, *, seed: int | None = None) -> None:
        """Start afresh, with a new seed unless one is given; ``__init__`` calls it as well."""
        weight = self.edge_weight()
        value = fresh_seed(weight) if seed is None else int(seed)
        self.step_state = StepState()
        for name, number in (("steps", 0), ("seed", value)):
            buffer = torch.full((), number, dtype=torch.int64, device=weight.device)
            self.register_buffer(name, buffer)

    def reset_parameters(self) -> None:
        """Draw new parameters and start the state afresh, as ``to_empty`` asks for."""
        super().reset_parameters()  # type: ignore[misc]
        if hasattr(self, "step_state"):
            self.reset_state()

    def next_key(self) -> StepKey:
        """Return the key of the coming step's random numbers."""
        return step_key(self.seed, self.steps)

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
        plain = not any(prefix + name in state_dict for name in self._state_names)
        if plain:
            state = {prefix + name: getattr(self, name) for name in self._state_names}
            state_dict = {**state_dict, **state}
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if plain:  # after the weights, which may have come to another device (assign=True)
            self.reset_state(seed=int(self.seed) if self.seed.device.type != "meta" else None)
        self.step_state = StepState()


def to_linear(head: nn.Linear) -> nn.Linear:
    """Return the plain layer with a head's size, mode and very parameters."""
    plain = nn.Linear(head.in_features, head.out_features, head.bias is not None, device="meta")
    plain.weight = head.weight
    plain.bias = head.bias
    return plain.train(head.training)
