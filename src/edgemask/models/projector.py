"""Projectors: a second output, for the contrastive terms of some methods."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from edgemask._options import checked
from edgemask.errors import UserError
from edgemask.models.base import Count
from edgemask.models.init import he_normal

__all__ = ["Projector"]


class Projector(nn.Module):
    """Maps the features of the encoder into a space of comparison.

    - ``kind="mlp"``: linear, batch norm, ReLU, linear; Kaiming-normal, zero biases. Jo-SNC has
      ``hidden`` and ``out`` as wide as the features (256), CA2C ``out=128, bias=False``.
    - ``kind="linear-bn"``: linear and batch norm; torch's initialisation. UNICON has ``out=128``.

    Args:
        in_features: Width of ``model.encode(x)``.
        kind: ``"mlp"`` or ``"linear-bn"``.
        hidden: Hidden width of the MLP; as wide as the input by default.
        out: Width of the projection; by default as wide as the input for the MLP, else 128.
        normalise: Whether projections have unit length.
        bias: Whether the first linear layer has a bias.

    Example:
        >>> import torch
        >>> projector = Projector(512, kind="linear-bn")
        >>> projector(torch.randn(4, 512)).shape
        torch.Size([4, 128])
    """

    @checked
    def __init__(
        self,
        in_features: int,
        *,
        kind: Literal["mlp", "linear-bn"] = "mlp",
        hidden: Count | None = None,
        out: Count | None = None,
        normalise: bool = True,
        bias: bool = True,
    ):
        super().__init__()
        self.normalise = normalise
        if kind == "mlp":
            hidden = in_features if hidden is None else hidden
            self.out_features = in_features if out is None else out
            self.layers = nn.Sequential(
                nn.Linear(in_features, hidden, bias=bias),
                nn.BatchNorm1d(hidden),
                nn.ReLU(),
                nn.Linear(hidden, self.out_features),
            )
            he_normal(self.layers)
        else:
            if hidden is not None:
                raise UserError("a projector of kind 'linear-bn' has no hidden layer: drop hidden")
            self.out_features = 128 if out is None else out
            self.layers = nn.Sequential(
                nn.Linear(in_features, self.out_features, bias=bias),
                nn.BatchNorm1d(self.out_features),
            )

    def forward(self, features: Tensor) -> Tensor:
        """Return projections, ``(B, out)``."""
        projection: Tensor = self.layers(features)
        return F.normalize(projection, dim=1) if self.normalise else projection

    def extra_repr(self) -> str:
        """Say whether projections have unit length."""
        return f"normalise={self.normalise}"
