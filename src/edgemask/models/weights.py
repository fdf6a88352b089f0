"""Start a model from a file of weights."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgemask._pickles import check_torch
from edgemask.errors import MissingExtraError, UserError, one_line
from edgemask.models.base import Backbone

__all__ = ["load_weights", "read_weights"]


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a state dict from ``.safetensors``, or from a torch file without running its code."""
    if not path.is_file():
        raise UserError(f"pretrained={str(path)!r} does not exist; give True, False or a file")
    try:
        state = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    except MissingExtraError:
        raise
    except Exception as error:
        raise UserError(f"{path} cannot be read as a file of weights: {one_line(error)}") from error
    if isinstance(state, Mapping) and isinstance(state.get("state_dict"), Mapping):
        state = state["state_dict"]
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise UserError(f"{path} holds no state dict, a mapping from names to tensors")
    return dict(state)


def _read_torch(path: Path) -> Any:
    data = path.read_bytes()
    check_torch(data)
    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        # torch's own words advise to read it in a way that would run its code
        raise pickle.UnpicklingError(
            "it is damaged or holds more than tensors; save a state_dict() alone"
        ) from None


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise MissingExtraError("safetensors", "app", f"to read {path}", error) from error
    state: dict[str, Tensor] = load_file(path)
    return state


def load_weights(model: Backbone, path: str | Path) -> None:
    """Load a file into a model: everything but a head, neck or projector that does not fit.

    The head stays as it is where the file has none or one of another shape, so that a model for
    other classes can be the start; so do neck and projector. All else has to match exactly.
    """
    path = Path(path)
    state = model.from_native(read_weights(path))
    own = model.state_dict()
    for part in ("neck.", "head.", "projector."):
        wanted = {name: value for name, value in own.items() if name.startswith(part)}
        fits = all(name in state and state[name].shape == wanted[name].shape for name in wanted)
        # What does not fit is ignored as a whole; so is what is more than wanted (the scores of
        # another head, for instance).
        for name in [name for name in state if name.startswith(part)]:
            if not fits or name not in wanted:
                del state[name]
        if not fits:
            own = {name: value for name, value in own.items() if name not in wanted}
    missing = sorted(own.keys() - state.keys())
    unexpected = sorted(state.keys() - own.keys())
    reshaped = sorted(
        f"{name} {tuple(state[name].shape)} instead of {tuple(own[name].shape)}"
        for name in own.keys() & state.keys()
        if own[name].shape != state[name].shape
    )
    faults = (("missing", missing), ("unexpected", unexpected), ("of another shape", reshaped))
    wrong = [
        f"{len(names)} {what} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for what, names in faults
        if names
    ]
    if wrong:
        raise UserError(
            f"{path} does not fit this {type(model).__name__}: {'; '.join(wrong)}. The file has to "
            "come from the same model with the same width and input_shape"
        )
    model.load_state_dict(state, strict=False)
