"""Any image classifier of timm, as ``timm:NAME``."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from edgemask.errors import MissingExtraError, UserError, one_line
from edgemask.models.adapter import Adapter
from edgemask.models.base import check_image_shape

__all__ = ["TimmModel"]


class TimmModel(Adapter):
    """Image classifiers of timm, such as ``timm:resnet50``; ``pretrained=True`` fetches weights.

    ``encode`` is timm's ``forward_features`` followed by ``forward_head(pre_logits=True)``;
    ``feature_maps`` is the former alone (tokens, for a transformer), and ``last_block`` names what
    timm lists as the last feature stage. Models with a fixed input size (ViT) are built for
    ``input_shape``.

    Args:
        num_classes: Number of classes.
        name: timm's name of the model.
        input_shape: Shape of one image.
        pretrained: Whether timm fetches its weights; the classifier starts afresh.
        options: Further arguments of ``timm.create_model``, such as ``drop_path_rate``.

    Reference:
        R. Wightman, "PyTorch Image Models", https://github.com/huggingface/pytorch-image-models.
    """

    def __init__(
        self,
        num_classes: int,
        *,
        name: str,
        input_shape: Sequence[int] = (3, 224, 224),
        pretrained: bool = False,
        **options: Any,
    ):
        label = f"timm:{name}"
        channels = check_image_shape(label, input_shape)
        net = _build(name, num_classes, input_shape, pretrained, {"in_chans": channels, **options})
        classifier = net.get_classifier()
        names = [key for key, module in net.named_modules() if module is classifier]
        if not names:
            raise UserError(f"{label} has no single classifier; EdgeMask cannot give it a head")
        super().__init__(
            net,
            names[0],
            num_classes,
            input_shape=input_shape,
            label=label,
        )
        stages = getattr(net, "feature_info", None) or [{}]
        stage = stages[-1].get("module") if isinstance(stages, list) else None
        if stage in {key for key, _ in net.named_modules()} - {""}:
            self.last_block = f"net.{stage}"
        self._try(torch.zeros(1, *input_shape), label)

    def feature_maps(self, x: Tensor) -> Tensor:
        """Return timm's ``forward_features``."""
        maps: Tensor = self.net.forward_features(x)  # type: ignore[operator]
        return maps

    def features_from_maps(self, maps: Tensor) -> Tensor:
        """Return timm's ``forward_head`` up to the classifier."""
        features: Tensor = self.net.forward_head(maps, pre_logits=True)  # type: ignore[operator]
        return features


def _build(
    name: str,
    num_classes: int,
    input_shape: Sequence[int],
    pretrained: bool,
    options: dict[str, Any],
) -> Any:
    try:
        import timm
    except Exception as error:
        raise MissingExtraError("timm", "timm", f"for the model timm:{name}", error) from error
    local = ":" not in name  # "hf-hub:..." and "local-dir:..." are looked up elsewhere
    if local and not timm.is_model(name):
        near = get_close_matches(name, timm.list_models(), n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UserError(f"timm has no model {name!r}{hint} See timm.list_models()")
    config = timm.get_pretrained_cfg(name) if local else None
    if config is not None and config.fixed_input_size:
        options = {"img_size": tuple(input_shape[1:]), **options}
    try:
        net: nn.Module = timm.create_model(
            name, pretrained=pretrained, num_classes=num_classes, **options
        )
    except TypeError as error:
        raise UserError(
            f"timm:{name} does not take the options {options}: {one_line(error)}"
        ) from error
    except Exception as error:
        if not pretrained and local:
            raise UserError(
                f"timm:{name} cannot be built with {options}: {one_line(error)}"
            ) from error
        raise UserError(
            f"the pretrained weights of timm:{name} cannot be fetched or used "
            f"({one_line(error)}). Check the network, or use pretrained=False to "
            "start from random weights, or pretrained=FILE with weights that were saved before"
        ) from error
    return net
