"""The common part of models from other libraries: their classifier becomes our `head`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from edgemask.errors import UserError
from edgemask.models.base import Backbone

__all__ = ["Adapter"]


class Adapter(Backbone):
    """Wraps a model of another library as ``net`` and moves its classifier to ``head``.

    Where the classifier stood, ``net`` has the identity, so every parameter has one name:
    ``net.*`` for the backbone and ``head.*`` for the classifier. Files in the library's own layout
    are understood by ``create(..., pretrained=FILE)``; :meth:`to_native` gives that layout back.

    Args:
        net: The model, with a classifier of ``num_classes`` outputs.
        classifier: The dotted name of the classifier within ``net``.
        num_classes: Number of classes.
        input_shape: Shape of one sample.
        probe: A batch of one, to try the model with.
        label: What the model is called in error messages.
    """

    def __init__(
        self,
        net: nn.Module,
        classifier: str,
        num_classes: int,
        *,
        input_shape: Sequence[int],
        probe: Any,
        label: str,
    ):
        super().__init__(num_classes, input_shape=input_shape)
        linear = net.get_submodule(classifier)
        if not isinstance(linear, nn.Linear) or linear.out_features != num_classes:
            raise UserError(
                f"the classifier of {label} is {linear}, not a Linear layer with {num_classes} "
                "outputs; EdgeMask cannot give it another head"
            )
        net.set_submodule(classifier, nn.Identity())
        self.net = net
        self.classifier_name = classifier
        self.neck = nn.Identity()
        self.head = linear
        self.register_module("projector", None)
        self.num_features = self.encoder_features = linear.in_features
        self._try(probe, label)

    def _try(self, probe: Any, label: str) -> None:
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                shape = tuple(self.encode(probe).shape)
        except (RuntimeError, ValueError, AssertionError, IndexError) as error:
            raise UserError(
                f"{label} cannot take inputs of shape {self.input_shape}: {error}. Give the "
                "input_shape that it is made for, and resize the images to it"
            ) from error
        self.train(training)
        if shape != (1, self.num_features):
            raise UserError(
                f"{label} gives features of shape {shape} before its classifier, expected "
                f"{(1, self.num_features)}; EdgeMask cannot use it"
            )

    def from_native(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Rename the entries of the library's own state dict; ours come back unchanged."""
        if any(name.startswith("net.") for name in state):
            return dict(state)
        prefix = f"{self.classifier_name}."
        return {
            f"head.{name.removeprefix(prefix)}" if name.startswith(prefix) else f"net.{name}": value
            for name, value in state.items()
        }

    def to_native(self) -> dict[str, Tensor]:
        """Return the state dict in the library's own layout, without a projector."""
        native = {}
        for name, value in self.state_dict().items():
            part, rest = name.split(".", 1)
            if part == "net":
                native[rest] = value
            elif part == "head":
                native[f"{self.classifier_name}.{rest}"] = value
        return native
