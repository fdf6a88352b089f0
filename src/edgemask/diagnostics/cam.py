"""Which parts of an image support a class: CAM and Grad-CAM (Figs. S5, S6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemask.diagnostics.modes import eval_mode

__all__ = ["activation_map", "cam", "grad_cam", "overlay"]


def activation_map(model: nn.Module, x: Tensor, classes: Tensor | None = None) -> Tensor:
    """Return CAM where the model averages its maps before a linear head, Grad-CAM elsewhere.

    Args:
        model: A model of EdgeMask, with ``feature_maps`` and ``features_from_maps``.
        x: Inputs, prepared as for the model, ``(B, ...)``.
        classes: The class to explain, ``(B,)``; None is the predicted one.

    Returns:
        ``(B, h, w)``, at the size of the last block's maps; not clipped at zero.
    """
    linear = isinstance(getattr(model, "head", None), nn.Linear)
    averaged = getattr(model, "pooling", None) == "average"
    neck = isinstance(getattr(model, "neck", None), nn.Identity)
    return (cam if linear and averaged and neck else grad_cam)(model, x, classes)


@torch.no_grad()
def cam(model: nn.Module, x: Tensor, classes: Tensor | None = None) -> Tensor:
    """Return the maps weighted by the dense weights of a class, as at test: ``sum_k w_ck f_k``.

    Its mean plus the bias is the logit. For models that average their maps.

    Reference:
        Zhou et al., Learning Deep Features for Discriminative Localization, CVPR 2016.
    """
    net: Any = model
    with eval_mode(net):
        maps = net.feature_maps(x)
        logits = net.head(net.neck(net.features_from_maps(maps)))
        chosen = logits.argmax(1) if classes is None else classes
        return torch.einsum("bk,bkhw->bhw", net.head.weight[chosen], maps)


def grad_cam(model: nn.Module, x: Tensor, classes: Tensor | None = None) -> Tensor:
    """Return the maps weighted by the mean gradient of a class's logit at each of them.

    Works for every model with feature maps; for one that averages them before a linear head it is
    CAM divided by the number of places.

    Reference:
        Selvaraju et al., Grad-CAM, ICCV 2017 (before its ReLU).
    """
    net: Any = model
    with eval_mode(net):
        with torch.no_grad():
            maps = net.feature_maps(x)
        with torch.enable_grad():
            maps = maps.detach().requires_grad_()
            logits = net.head(net.neck(net.features_from_maps(maps)))
            chosen = logits.argmax(1) if classes is None else classes
            value = logits.gather(1, chosen[:, None]).sum()
            (slope,) = torch.autograd.grad(value, maps)
        heat: Tensor = (slope.mean(dim=(2, 3), keepdim=True) * maps).sum(1).detach()
        return heat


def overlay(image: NDArray[np.uint8], heat: Tensor, *, strength: float = 0.45) -> NDArray[np.uint8]:
    """Draw a map over an image: red where it is high, blue where it is low.

    Args:
        image: ``(H, W, 3)`` or ``(H, W, 1)``.
        heat: ``(h, w)``; negative values count as none, the largest as full.
        strength: Share of the colours in the result.
    """
    high, wide = image.shape[:2]
    values = heat.detach().float().clamp_min(0.0)
    values = values / values.max().clamp_min(1e-12)
    grown = F.interpolate(values[None, None], (high, wide), mode="bilinear", align_corners=False)
    level = grown[0, 0].numpy()[..., None]
    centres = np.array([0.75, 0.5, 0.25])
    colours = np.clip(1.5 - 4.0 * np.abs(level - centres), 0.0, 1.0)
    base = np.broadcast_to(image, (high, wide, 3)) / 255.0
    mixed = (1 - strength) * base + strength * colours
    picture: NDArray[np.uint8] = np.round(255 * np.clip(mixed, 0.0, 1.0)).astype(np.uint8)
    return picture
