"""The common part of models from other libraries: their classifier becomes our `head`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from edgemask.errors import UserError, one_line
from edgemask.models.base import Backbone

__all__ = ["Adapter"]


class Adapter(Backbone):
    """Wraps a model of another library as ``net`` and moves its classifier to ``head``.

    In place of the classifier, ``net`` has the identity, so every parameter has one name:
    ``net.*`` for the backbone and ``head.*`` for the classifier. Files in the library's own layout
    are understood by ``create(..., pretrained=FILE)``; :meth:`to_native` gives that layout back.

    Args:
        net: The model, with a classifier of ``num_classes`` outputs.
        classifier: The dotted name of the classifier within ``net``.
        num_classes: Number of classes.
        input_shape: Shape of one sample.
        label: What the model is called in error messages.
    """

    def __init__(
        self,
        net: nn.Module,
        classifier: str,
        num_classes: int,
        *,
        input_shape: Sequence[int],
        label: str,
    ):
        super().__init__(num_classes, input_shape=input_shape)
        try:
            linear = net.get_submodule(classifier)
        except AttributeError as error:
            raise UserError(
                f"{label} has no part {classifier!r} to use as its classifier"
            ) from error
        if not isinstance(linear, nn.Linear) or linear.out_features != num_classes:
            raise UserError(
                f"the classifier of {label} is {linear}, not a Linear layer with {num_classes} "
                "outputs; EdgeMask cannot give it another head"
            )
        net.set_submodule(classifier, nn.Identity())
        self.net = net
        self.classifier_name = classifier
        self.neck = nn.Identity()
        self.head = _plain(linear)
        self.register_module("projector", None)
        self.num_features = self.encoder_features = linear.in_features

    def _try(self, probe: Tensor, label: str) -> None:
        """Encode a batch of one; the last call of a constructor, so that misfits show at once."""
        training = self.training
        self.eval()
        try:
            with torch.no_grad():
                shape = tuple(self.encode(probe).shape)
        except Exception as error:
            raise UserError(
                f"{label} cannot take an input of shape {tuple(probe.shape[1:])} "
                f"({one_line(error)}). Images have to be of the size that the model "
                "is made for: resize them and give that input_shape"
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
        """Return the state dict in the library's own layout, without projector or head's scores."""
        if not isinstance(self.neck, nn.Identity):
            raise UserError("a model with a neck has no place in the library's own layout")
        if not isinstance(self.head, nn.Linear):
            raise UserError(
                f"a {type(self.head).__name__} head has no place in the library's own layout"
            )
        native: dict[str, Tensor] = self.net.state_dict()
        for name in ("weight", "bias"):
            value = getattr(self.head, name)
            if value is not None:
                native[f"{self.classifier_name}.{name}"] = value.detach()
        return native


def _plain(linear: nn.Linear) -> nn.Linear:
    """Return a layer of a subclass as nn.Linear itself, with the same parameters."""
    if type(linear) is nn.Linear:
        return linear
    plain = nn.Linear(
        linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta"
    )
    plain.weight, plain.bias = linear.weight, linear.bias
    return plain
