"""Exporting models: weights and programs that carry class names, input size and preprocessing."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgemask._files import atomic_write
from edgemask.engine.resolve import is_object
from edgemask.errors import MissingExtraError, UserError, one_line, unknown_name

if TYPE_CHECKING:
    from edgemask.data import DataBundle
    from edgemask.engine.run import Run
    from edgemask.engine.rundir import RunDir

__all__ = ["FORMATS", "Normalised", "card", "export", "load_model", "save_weights"]

FORMATS = ("safetensors", "torch", "onnx")
_DIGEST = "sha256"
_CARD_KEYS = {"class_names", "input_shape", "mean", "std", "views", "dataset"}


def card(bundle: DataBundle) -> dict[str, Any]:
    """Return the description of a model: classes, input shape and preprocessing."""
    mean, std = bundle.normalisation
    return {
        "class_names": list(bundle.class_names),
        "input_shape": list(bundle.input_shape),
        "mean": list(mean),
        "std": list(std),
        "scale": _scale(bundle),
        "views": bundle.recipe,
        "dataset": bundle.name,
        "label_values": None if bundle.label_values is None else list(bundle.label_values),
        "encoder": None if bundle.encoder is None else bundle.encoder.to_json(),
    }


def _scale(bundle: DataBundle) -> str:
    if bundle.encoder is not None:
        return (
            f"an input is the vector of length {bundle.input_shape[0]} that 'encoder' makes of a "
            "row or text; the model does not include this step"
        )
    if len(bundle.input_shape) == 3:
        return "pixels in 0..255 are divided by 255, then normalised"
    return "values are normalised as they are"


def takes_tokens(about: dict[str, Any]) -> bool:
    """Whether a model takes the token ids of texts."""
    return (about.get("encoder") or {}).get("kind") == "tokens"


def save_weights(path: Path, net: nn.Module, bundle: DataBundle) -> None:
    """Write a model's weights and its description as a ``.safetensors`` file."""
    _write_safetensors(path, net, card(bundle))


def _write_safetensors(path: Path, net: nn.Module, about: dict[str, Any]) -> None:
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise MissingExtraError("safetensors", "app", "to write weights", error) from error
    tensors = {name: value.detach().cpu().contiguous() for name, value in _state(net).items()}
    # One entry: the order of several changes from process to process.
    blob = save(
        tensors, metadata={"edgemask": json.dumps({**about, _DIGEST: _digest(tensors, about)})}
    )
    atomic_write(path, lambda file: file.write(blob))


def _state(net: nn.Module) -> dict[str, Tensor]:
    """Return the state of a network, each shared tensor under its own copy."""
    return {name: value.clone() for name, value in net.state_dict().items()}


def _digest(tensors: dict[str, Tensor], about: dict[str, Any]) -> str:
    """Return the SHA-256 of a card and of the name, type, shape and bytes of each tensor."""
    digest = hashlib.sha256(json.dumps(about).encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read weights and card of a ``.safetensors`` file.

    Raises:
        UserError: If the file cannot be read, its checksum does not fit, or a weight is NaN.
    """
    from safetensors import safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = json.loads((file.metadata() or {}).get("edgemask", "{}"))
    except Exception as error:
        raise UserError(f"cannot read the weights {path}: {one_line(error)}") from error
    if not isinstance(about, dict) or not about.keys() >= _CARD_KEYS:
        raise UserError(f"{path} does not hold class names, input shape and preprocessing in full")
    digest = about.pop(_DIGEST, None)  # files of earlier versions have none
    if digest is not None and digest != _digest(tensors, about):
        raise UserError(
            f"{path} is damaged: its checksum does not fit; copy it again from where it came, or "
            "train again with fresh"
        )
    for name, value in tensors.items():
        if value.is_floating_point() and value.isnan().any():
            raise UserError(
                f"{path}: the weights {name} are not numbers (NaN); the model cannot be used"
            )
    return tensors, about


def load_model(folder: RunDir) -> nn.Module:
    """Build the trained network of a finished run from its folder alone."""
    from edgemask.engine.networks import build_method, build_networks
    from edgemask.engine.run_data import Objects

    config = folder.config()
    for kind in ("model", "head", "method"):
        if is_object(getattr(config, kind).name):
            raise UserError(
                f"{folder.path} holds weights of a {kind} object; build that model and load "
                "model.safetensors into it"
            )
    tensors, about = read_weights(folder / "model.safetensors")
    method = build_method(config, Objects())
    shape = {"num_classes": len(about["class_names"]), "input_shape": about["input_shape"]}
    method.nets = build_networks(config, method, Objects(), pretrained=False, **shape)
    net = method.deployed()
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise UserError(
            f"{folder.path}: model.safetensors does not fit the model of config.yaml; one of them "
            "is damaged or belongs to another run"
        ) from error
    return net.eval()


class Normalised(nn.Module):
    """A model that includes its preprocessing: raw values in, logits out.

    Args:
        net: The model.
        about: Its card.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, net: nn.Module, about: dict[str, Any]):
        super().__init__()
        self.net = net
        shape = (1, -1) + (1,) * (len(about["input_shape"]) - 1)
        factor = 255.0 if len(about["input_shape"]) == 3 else 1.0
        self.register_buffer("mean", torch.tensor(about["mean"]).view(shape) * factor)
        self.register_buffer("std", torch.tensor(about["std"]).view(shape) * factor)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise and classify."""
        logits: Tensor = self.net((x.float() - self.mean) / self.std)
        return logits


def plain_copy(net: nn.Module) -> nn.Module:
    """Return a copy of a network with plain ``nn.Linear`` heads, in ``eval()`` mode."""
    from edgemask.heads import detach

    return detach(copy.deepcopy(net).eval()).eval()


def export(
    run: Run,
    path: str | Path,
    *,
    format: str = "safetensors",  # noqa: A002
    tolerance: float = 1e-5,
) -> Path:
    """Write the run's model for deployment and check that its logits are those of the trained one.

    Args:
        run: A finished run.
        path: The file to write.
        format: ``safetensors`` (weights of the model with a plain linear head; normalised inputs),
            ``torch`` (a ``torch.export`` program) or ``onnx``; the last two take raw values
            (pixels in 0..255) and carry the preprocessing.
        tolerance: Largest difference of any logit.

    Returns:
        The file.
    """
    if format not in FORMATS:
        raise unknown_name("export format", format, FORMATS)
    target = Path(path)
    _, about = read_weights(run.folder / "model.safetensors")
    trained = run.model
    plain = plain_copy(trained)
    sample = _sample(about)
    whole = plain if takes_tokens(about) else Normalised(plain, about).eval()
    normal = (sample - whole.mean) / whole.std if isinstance(whole, Normalised) else sample
    with torch.no_grad():
        wanted = trained(normal)
        if not wanted.isfinite().all():
            raise UserError("the model's outputs are not finite numbers; it cannot be used")
        _same(wanted, plain(normal), tolerance, "the model with plain layers")
    if format == "safetensors":
        _write_safetensors(target, plain, about)
        tensors, _ = read_weights(target)
        again = copy.deepcopy(plain)
        again.load_state_dict(tensors)
        with torch.no_grad():
            _same(wanted, again(normal), tolerance, str(target))
    elif format == "torch":
        _export_torch(whole, sample, target, about, wanted, tolerance)
    else:
        _export_onnx(whole, sample, target, about, wanted, tolerance)
    return target


def _sample(about: dict[str, Any]) -> Tensor:
    """Make inputs to compare models on: random pixels or features."""
    generator = torch.Generator().manual_seed(0)
    shape = (2, *about["input_shape"])
    if takes_tokens(about):
        from edgemask.data.encoders import TokenEncoder

        texts = ["a text to compare models on", "another one, which is a little longer"]
        return torch.from_numpy(TokenEncoder.from_json(about["encoder"]).encode(texts))
    if len(about["input_shape"]) == 3:
        return torch.randint(0, 256, shape, generator=generator).float()
    return torch.randn(shape, generator=generator)


def _same(wanted: Tensor, got: Tensor, tolerance: float, what: str) -> None:
    scale = max(1.0, float(wanted.abs().max()))
    difference = float((wanted - got).abs().max()) / scale
    if not difference <= tolerance:
        raise UserError(
            f"{what} differs from the trained model by {difference:.2g} (allowed {tolerance:g}); "
            "heads with inference='expected' or KAN heads have no plain linear twin"
        )


def _dynamic(sample: Tensor) -> Any:
    del sample
    return {"x": {0: torch.export.Dim("batch", min=1)}}


def _export_torch(
    whole: nn.Module, sample: Tensor, path: Path, about: Any, wanted: Tensor, tolerance: float
) -> None:
    program = torch.export.export(whole, (sample,), dynamic_shapes=_dynamic(sample))
    extra = {"edgemask.json": json.dumps(about)}

    blob = io.BytesIO()  # torch aborts the process where it cannot write to a disk that is full
    torch.export.save(program, blob, extra_files=extra)
    atomic_write(path, lambda file: file.write(blob.getvalue()))
    again = torch.export.load(path).module()
    with torch.no_grad():
        _same(wanted, again(sample), tolerance, str(path))


def _export_onnx(
    whole: nn.Module, sample: Tensor, path: Path, about: Any, wanted: Tensor, tolerance: float
) -> None:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("onnx", "onnx", "to export to ONNX", error) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch, about torch
        program: Any = torch.onnx.export(
            whole,
            (sample,),
            dynamo=True,
            input_names=["x"],
            output_names=["logits"],
            dynamic_shapes=_dynamic(sample),
            verbose=False,
        )
    proto = program.model_proto
    entry = proto.metadata_props.add()
    entry.key, entry.value = "edgemask", json.dumps(about)
    onnx.checker.check_model(proto)
    blob = proto.SerializeToString()
    session = onnxruntime.InferenceSession(blob, providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {"x": sample.numpy()})
    _same(wanted, torch.from_numpy(got), tolerance, str(path))
    atomic_write(path, lambda file: file.write(blob))
