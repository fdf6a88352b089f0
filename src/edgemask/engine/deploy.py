"""Models that leave the house: plain layers, with names, sizes and preprocessing on board."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from edgemask.engine.files import atomic_write
from edgemask.errors import MissingExtraError, UserError, unknown_name

if TYPE_CHECKING:
    from edgemask.data import DataBundle
    from edgemask.engine.loop import Trainer
    from edgemask.engine.run import Run
    from edgemask.engine.rundir import RunDir

__all__ = ["FORMATS", "Normalised", "card", "export", "load_model", "save_weights"]

FORMATS = ("safetensors", "torch", "onnx")


def card(bundle: DataBundle) -> dict[str, Any]:
    """Return what a user of the model has to know: classes, input and preprocessing."""
    mean, std = bundle.normalisation
    return {
        "class_names": list(bundle.class_names),
        "input_shape": list(bundle.input_shape),
        "mean": list(mean),
        "std": list(std),
        "scale": "pixels in 0..255 are divided by 255, then normalised"
        if len(bundle.input_shape) == 3
        else "values are normalised as they are",
        "views": bundle.recipe,
        "dataset": bundle.name,
    }


def save_weights(trainer: Trainer) -> None:
    """Write ``model.safetensors``: the weights of the network to deploy, and its card."""
    net = trainer.method.deployed()
    _write_safetensors(trainer.folder / "model.safetensors", net, card(trainer.job.bundle))


def _write_safetensors(path: Path, net: nn.Module, about: dict[str, Any]) -> None:
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise MissingExtraError("safetensors", "app", "to write weights", error) from error
    tensors = {name: value.detach().cpu().contiguous() for name, value in _state(net).items()}
    blob = save(tensors, metadata={"edgemask": json.dumps(about)})
    atomic_write(path, lambda file: file.write(blob))


def _state(net: nn.Module) -> dict[str, Tensor]:
    """Return the state of a network, each shared tensor under its own copy."""
    return {name: value.clone() for name, value in net.state_dict().items()}


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read weights and card of a ``.safetensors`` file."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = json.loads((file.metadata() or {}).get("edgemask", "{}"))
    except Exception as error:
        raise UserError(f"cannot read the weights {path}: {error}") from error
    return tensors, about


def load_model(folder: RunDir) -> nn.Module:
    """Build the trained network of a finished run from its folder alone."""
    from edgemask.engine.job import Objects
    from edgemask.engine.networks import build_method, build_networks

    config = folder.config()
    if config.model.name.startswith("object:"):
        raise UserError(
            f"{folder.path} holds weights of a model object; build that model and load "
            "model.safetensors into it"
        )
    tensors, about = read_weights(folder / "model.safetensors")
    method = build_method(config, Objects())
    shape = {"num_classes": len(about["class_names"]), "input_shape": about["input_shape"]}
    method.nets = build_networks(config, method, Objects(), pretrained=False, **shape)
    net = method.deployed()
    net.load_state_dict(tensors)
    return net.eval()


class Normalised(nn.Module):
    """A model with its preprocessing in front: raw values in, logits out.

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
    """Write the run's model for deployment and check that it answers as the trained one does.

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
    whole = Normalised(plain, about).eval()
    normal = (sample - whole.mean) / whole.std
    with torch.no_grad():
        wanted = trained(normal)
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

    def write(file: Any) -> None:
        torch.export.save(program, file, extra_files=extra)

    atomic_write(path, write)
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
