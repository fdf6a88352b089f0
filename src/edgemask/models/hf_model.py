"""Any text or image classifier of transformers, as ``hf:NAME_OR_PATH``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from edgemask._options import checked
from edgemask.errors import MissingExtraError, UserError, one_line
from edgemask.models.adapter import Adapter
from edgemask.models.base import check_image_shape

__all__ = ["HFModel", "TransformersObject", "is_transformers_model"]

# Where transformers' classifiers keep their last layer; a head of several layers has it inside.
_CLASSIFIERS = ("classifier", "score", "classification_head", "logits_proj", "head", "fc")


class _Transformer(Adapter):
    """What models of transformers share: how they are called."""

    _padding: int | None

    def encode(self, x: Tensor | Mapping[str, Tensor]) -> Tensor:
        """Return what the library's classifier would read."""
        features: Tensor = self.net(**self._arguments(x)).logits
        return features

    def _arguments(self, x: Tensor | Mapping[str, Tensor]) -> dict[str, Tensor]:
        if isinstance(x, Mapping):
            if "labels" in x:
                raise UserError("the inputs hold 'labels'; give them to the loss, not to the model")
            return dict(x)
        if self._padding is None:  # images
            return {"pixel_values": x}
        if x.is_floating_point() or x.dim() != 2:
            raise UserError(
                "a text model takes a mapping of tensors or token ids of shape (B, length), "
                f"got {x.dtype} of shape {tuple(x.shape)}; give texts, with the model by name "
                "(hf:NAME), and they are tokenised"
            )
        return {"input_ids": x, "attention_mask": x.ne(self._padding).long()}


class TransformersObject(_Transformer):
    """A classifier of transformers that somebody else has built.

    Args:
        net: The model, such as a ``BertForSequenceClassification``.
        num_classes: Number of classes.
        input_shape: Shape of one sample.
    """

    def __init__(self, net: nn.Module, num_classes: int, *, input_shape: Sequence[int]):
        label = type(net).__name__
        settings: Any = net.config
        if settings.num_labels != num_classes:
            raise UserError(
                f"the {label} has {settings.num_labels} outputs, and the data have {num_classes} "
                f"classes; build it with num_labels={num_classes}"
            )
        text = getattr(net, "main_input_name", "input_ids") == "input_ids"
        classifier = _find_classifier(label, net, num_classes)
        super().__init__(net, classifier, num_classes, input_shape=input_shape, label=label)
        self._padding = (settings.pad_token_id or 0) if text else None


def is_transformers_model(model: Any) -> bool:
    """Whether an object is a model of transformers."""
    module = type(model).__module__
    return module.partition(".")[0] == "transformers" and hasattr(model, "config")


class HFModel(_Transformer):
    """Text and image classifiers of transformers, such as ``hf:bert-base-uncased`` or a local path.

    Text comes as a mapping of the tokenizer's tensors (``input_ids``, ``attention_mask``, ...) or
    as a tensor of token ids ``(B, length)``, of which those equal to the padding id are masked.
    Images come as a tensor ``(B, channels, height, width)``. ``embed`` is what the library's last
    linear layer would read: pooling, dense layers, activations and dropout before it included.

    Args:
        num_classes: Number of classes.
        name: Name on the hub, or a local folder with a ``config.json``.
        input_shape: Shape of one image; text models ignore it.
        pretrained: Whether to load the weights too; otherwise only the configuration is used. A
            classifier of another size starts afresh.
        task: ``"text"`` or ``"image"``, where the configuration leaves it open.
        classifier: Dotted name of the last linear layer, where it is not found by itself.
        config: Entries of the configuration to change, such as ``{"num_hidden_layers": 2}``.

    Reference:
        T. Wolf et al., "Transformers: State-of-the-Art Natural Language Processing", EMNLP 2020.
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        *,
        name: str,
        input_shape: Sequence[int] = (3, 224, 224),
        pretrained: bool = False,
        task: Literal["text", "image"] | None = None,
        classifier: str | None = None,
        config: Mapping[str, Any] | None = None,
    ):
        label = f"hf:{name}"
        settings = _configuration(name, num_classes, config or {})
        task = _task(label, settings.model_type, task)
        probe: Tensor
        if task == "image":
            channels = check_image_shape(label, input_shape)
            if not pretrained:
                _fit_to_images(settings, channels, input_shape)
            probe = torch.zeros(1, *input_shape)
        else:
            end = settings.eos_token_id if isinstance(settings.eos_token_id, int) else None
            if settings.pad_token_id is None:
                # Decoders often have no padding token; the closing one serves, as is the custom.
                settings.pad_token_id = 0 if end is None else end
            probe = torch.full((1, 4), 0 if settings.pad_token_id != 0 else 1)
            if end is not None:
                probe[0, -1] = end  # where BART and its like read the text's representation
        net = _build(name, settings, task, pretrained)
        super().__init__(
            net,
            classifier or _find_classifier(label, net, num_classes),
            num_classes,
            input_shape=() if task == "text" else input_shape,
            label=label,
        )
        self._padding = settings.pad_token_id if task == "text" else None
        self._try(probe, label)


def _configuration(name: str, num_classes: int, changes: Mapping[str, Any]) -> Any:
    try:
        from transformers import AutoConfig
    except Exception as error:
        raise MissingExtraError("transformers", "hf", f"for the model hf:{name}", error) from error
    try:
        settings = AutoConfig.from_pretrained(name, num_labels=num_classes)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"hf:{name} is neither a local folder with a config.json nor a model that the hub gave "
            f"out ({one_line(error)}). Check the name and the network, or give the path of a "
            "downloaded model"
        ) from error
    for key, value in changes.items():
        if not hasattr(settings, key):
            raise UserError(f"the configuration of hf:{name} has no entry {key!r}")
        setattr(settings, key, value)
    return settings


def _task(label: str, kind: str, asked: str | None) -> Literal["text", "image"]:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES as IMAGE,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as TEXT,
    )

    able: list[Literal["text", "image"]] = []
    if kind in TEXT:
        able.append("text")
    if kind in IMAGE:
        able.append("image")
    chosen = [task for task in able if asked in (None, task)]
    if len(chosen) != 1:
        raise UserError(
            f"{label} (type {kind!r}) classifies {' and '.join(able) or 'neither text nor images'}"
            f"; task={asked!r} does not say what to do with it"
        )
    return chosen[0]


def _fit_to_images(settings: Any, channels: int, input_shape: Sequence[int]) -> None:
    if hasattr(settings, "num_channels"):
        settings.num_channels = channels
    if hasattr(settings, "image_size"):
        height, width = input_shape[1:]
        settings.image_size = height if height == width else (height, width)


def _build(name: str, settings: Any, task: str, pretrained: bool) -> nn.Module:
    from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification

    auto = AutoModelForSequenceClassification if task == "text" else AutoModelForImageClassification
    try:
        net: nn.Module = (
            auto.from_pretrained(name, config=settings, ignore_mismatched_sizes=True)
            if pretrained
            else auto.from_config(settings)
        )
    except Exception as error:
        if not pretrained:
            raise UserError(f"hf:{name} cannot be built: {one_line(error)}") from error
        raise UserError(
            f"the pretrained weights of hf:{name} cannot be fetched or used "
            f"({one_line(error)}). Check the network, or use pretrained=False to "
            "start from random weights, or give the path of a downloaded model"
        ) from error
    return net.train()


def _find_classifier(label: str, net: nn.Module, num_classes: int) -> str:
    for name in _CLASSIFIERS:
        module = getattr(net, name, None)
        if not isinstance(module, nn.Module):
            continue
        fitting = [
            f"{name}.{inner}" if inner else name
            for inner, part in module.named_modules()
            if isinstance(part, nn.Linear) and part.out_features == num_classes
        ]
        if len(fitting) > 1:
            fitting = [found for found in fitting if found.endswith(".out_proj")]
        if len(fitting) == 1:
            return fitting[0]
    raise UserError(
        f"cannot tell which layer of {label} is the classifier; name it with classifier='...', "
        f"one of: {', '.join(n for n, m in net.named_modules() if isinstance(m, nn.Linear))[-300:]}"
    )
