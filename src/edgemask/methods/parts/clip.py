"""Image and text features of CLIP, from files or from a model, and what they say about classes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from edgemask.errors import DataError, MissingExtraError, UserError
from edgemask.runs import read_array

__all__ = [
    "ClipModel",
    "class_prompts",
    "linear_probe",
    "load_clip",
    "read_features",
    "read_texts",
    "zero_shot",
]

# CLIP's own constants, for models that do not name theirs.
_MEAN, _STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def zero_shot(images: Tensor, prompts: Sequence[Tensor], *, temperature: float = 0.07) -> Tensor:
    """Return class probabilities from the likeness of images and texts, ``(N, C)``.

    ``P_ic`` is proportional to the sum of ``exp(cos(image i, prompt) / temperature)`` over the
    prompts of class c.

    Args:
        images: Image features, ``(N, D)``; of any length.
        prompts: Text features of each class, ``(prompts, D)``.
        temperature: The temperature.

    Example:
        >>> images, prompts = torch.eye(2), [torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])]
        >>> zero_shot(images, prompts, temperature=1.0)
        tensor([[0.7311, 0.2689],
                [0.2689, 0.7311]])
    """
    queries = F.normalize(images.float(), dim=1)
    scores = [
        (queries @ F.normalize(texts.float(), dim=1).t() / temperature).logsumexp(dim=1)
        for texts in prompts
    ]
    return torch.stack(scores, dim=1).softmax(dim=1)


def linear_probe(images: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """Fit a balanced logistic regression of the labels on the features; return its probabilities.

    Of the samples that it was fitted to, as CLIPCleaner does. A class without samples has 0.

    Args:
        images: Image features, ``(N, D)``; of any length.
        labels: Given labels, ``(N,)``.
        num_classes: Number of classes.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except Exception as error:
        raise MissingExtraError("scikit-learn", "app", "for CLIPCleaner", error) from error
    features = F.normalize(images.float(), dim=1).double().cpu().numpy()
    given = labels.cpu().numpy()
    result = torch.zeros(len(labels), num_classes, dtype=torch.float64)
    present = np.unique(given)
    if len(present) == 1:
        result[:, present] = 1.0
        return result.float()
    model = LogisticRegression(max_iter=10_000, class_weight="balanced", random_state=0)
    model.fit(features, given)
    result[:, torch.from_numpy(present)] = torch.from_numpy(model.predict_proba(features))
    return result.float()


def read_features(path: str, rows: int, positions: Tensor | None, *, what: str) -> Tensor:
    """Read features from a ``.npy`` file, one row per sample.

    Args:
        path: The file.
        rows: Samples that are trained on.
        positions: Their positions in the dataset; a file of all of the dataset is cut to them.
        what: What to call the features in an error.
    """
    found = torch.from_numpy(_read_array(path, what)).float()
    if found.ndim != 2:
        raise DataError(f"{what} {path} has shape {tuple(found.shape)}: expected (samples, width)")
    if positions is not None and len(found) > rows and len(found) > int(positions.max()):
        found = found[positions.cpu()]
    if len(found) != rows:
        raise DataError(
            f"{what} {path} has {len(found)} rows for {rows} training samples; give one row per "
            "training sample of the dataset, in its order"
        )
    return found


def read_texts(path: str, num_classes: int) -> list[Tensor]:
    """Read text features from a ``.npy`` file: ``(C, D)``, or ``(C, prompts, D)``."""
    found = torch.from_numpy(_read_array(path, "text features")).float()
    if found.ndim == 2:
        found = found[:, None]
    if found.ndim != 3 or len(found) != num_classes:
        raise DataError(
            f"text features {path} have shape {tuple(found.shape)}: expected (classes, width) or "
            f"(classes, prompts, width) for {num_classes} classes"
        )
    return list(found)


def _read_array(path: str, what: str) -> Any:
    try:
        array = np.asarray(read_array(Path(path).expanduser()), dtype=np.float32)
    except (UserError, ValueError, TypeError) as error:
        raise DataError(f"no {what} in {path}: {error}. Save an array with numpy.save") from error
    if not np.isfinite(array).all():
        raise DataError(f"{what} {path} hold values that are not finite")
    return array


@cache
def _own_prompts() -> dict[str, Any]:
    text = Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def class_prompts(
    names: Sequence[str], dataset: str | None = None, file: str | None = None
) -> list[list[str]]:
    """Return sentences that describe each class, for CLIP's text encoder.

    Args:
        names: The classes; of several names with commas between them the first one counts.
        dataset: A dataset that has sentences of its own in ``prompts.toml``; others get a few
            general ones.
        file: A TOML file with a list of sentences for each class name instead.

    Example:
        >>> class_prompts(["oak"])[0][0]
        'a photo of a oak.'
    """
    own = _own_prompts()
    if file is not None:
        try:
            table = tomllib.loads(Path(file).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"no prompts in {file}: {error}") from error
        missing = [name for name in names if not table.get(name)]
        if missing:
            raise DataError(f"{file} has no sentences for the class {missing[0]!r}")
        return [list(map(str, table[name])) for name in names]
    entry = own.get(dataset or "", {})
    templates = own["general"]["templates"]
    suffix = entry.get("suffix", ".")
    prompts = []
    for name in names:
        word = name.split(",")[0].replace("_", " ").strip().lower()
        described = entry.get("classes", {}).get(word, [])
        sentences = [f"a photo of a {word}, {text}" for text in described]
        sentences = sentences or [template.replace("{}", word) for template in templates]
        prompts.append([sentence + suffix for sentence in sentences])
    return prompts


class ClipModel:
    """Computes image features, and text features where the model has a text encoder.

    Args:
        net: The model.
        size: Side of its images.
        mean: Per channel, of pixels in 0..1.
        std: Likewise.
        tokenizer: Turns sentences into tensors; None where there is no text encoder.
        label: What to call it in an error.
    """

    def __init__(
        self,
        net: Any,
        *,
        size: int,
        mean: Sequence[float],
        std: Sequence[float],
        tokenizer: Any,
        label: str,
    ):
        self.net: nn.Module = net.eval()
        self.size, self.tokenizer, self.label = size, tokenizer, label
        self.mean = torch.tensor(mean).view(1, -1, 1, 1)
        self.std = torch.tensor(std).view(1, -1, 1, 1)

    @torch.no_grad()
    def images(self, pixels: Tensor) -> Tensor:
        """Return the features of images ``(B, C, H, W)`` with pixels in 0..1."""
        if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
            raise UserError(f"{self.label} takes images, got samples of {tuple(pixels.shape[1:])}")
        pixels = pixels.float().expand(-1, 3, -1, -1)
        scale = self.size / min(pixels.shape[-2:])
        sides = [max(self.size, round(side * scale)) for side in pixels.shape[-2:]]
        pixels = F.interpolate(pixels, sides, mode="bicubic", antialias=True).clamp(0, 1)
        top, left = ((side - self.size) // 2 for side in sides)
        pixels = pixels[..., top : top + self.size, left : left + self.size]
        pixels = (pixels - self.mean.to(pixels)) / self.std.to(pixels)
        if self.tokenizer is None:
            return _tensor(self.net(pixels)).float()
        return _tensor(self.net.get_image_features(pixel_values=pixels)).float()  # type: ignore[operator]

    @torch.no_grad()
    def texts(self, sentences: Sequence[str], device: torch.device) -> Tensor:
        """Return the features of sentences, ``(sentences, D)``."""
        if self.tokenizer is None:
            raise UserError(
                f"{self.label} has no text encoder: give its text features in a file, "
                "method.options.text=FILE.npy, or name an hf: model that has both"
            )
        tokens = self.tokenizer(
            list(sentences), padding=True, truncation=True, return_tensors="pt"
        ).to(device)
        return _tensor(self.net.get_text_features(**tokens)).float()  # type: ignore[operator]


def _tensor(output: Any) -> Tensor:
    """Return the features of what a model returned: a tensor, or an object that pools them."""
    found: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return found


def load_clip(name: str, device: torch.device) -> ClipModel:
    """Load ``hf:NAME_OR_FOLDER`` (image and text) or ``timm:NAME`` (image alone), pretrained.

    Args:
        name: The model.
        device: Its device.
    """
    kind, _, path = name.partition(":")
    if kind not in ("hf", "timm") or not path:
        raise UserError(f"CLIP model {name!r}: expected hf:NAME or timm:NAME")
    try:
        return (_load_hf if kind == "hf" else _load_timm)(path, device)
    except ImportError as error:
        package = "transformers" if kind == "hf" else "timm"
        raise MissingExtraError(package, kind, f"for {name}", error) from error
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"{name} cannot be loaded ({type(error).__name__}: {error}). Check the network, or "
            "give features from files: method.options.features=FILE.npy and text=FILE.npy"
        ) from error


def _load_hf(path: str, device: torch.device) -> ClipModel:
    from transformers import AutoModel, AutoTokenizer

    net: Any = AutoModel.from_pretrained(path)
    if not hasattr(net, "get_image_features"):
        raise UserError(f"hf:{path} is a {type(net).__name__}, which has no image and text encoder")
    size = net.config.vision_config.image_size
    tokenizer = AutoTokenizer.from_pretrained(path)
    return ClipModel(
        net.to(device), size=size, mean=_MEAN, std=_STD, tokenizer=tokenizer, label=f"hf:{path}"
    )


def _load_timm(path: str, device: torch.device) -> ClipModel:
    import timm

    net: Any = timm.create_model(path, pretrained=True)
    config: Mapping[str, Any] = net.pretrained_cfg
    return ClipModel(
        net.to(device),
        size=config["input_size"][-1],
        mean=config["mean"],
        std=config["std"],
        tokenizer=None,
        label=f"timm:{path}",
    )
