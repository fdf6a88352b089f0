"""Whether heads and training do on a device what they do on the CPU."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from edgemask.engine.config import Config
from edgemask.engine.precision import usable_precision
from edgemask.engine.processes import choose_device
from edgemask.engine.resolve import resolve
from edgemask.engine.run_data import Objects
from edgemask.errors import one_line

__all__ = ["DeviceCheck", "check_device"]

_STEPS, _SHAPE, _BATCH = 5, (100, 512), 128
# Scores are sums in another order on another device: a few edges lie within rounding.
_DIFFERENT_EDGES = 1e-4
_CLOSE = 1e-3
_MINUTES = 4


@dataclass(frozen=True)
class DeviceCheck:
    """The outcome of one check."""

    name: str
    """What was checked."""

    state: Literal["ok", "failed", "skipped"]
    """Whether it held."""

    about: str
    """What was seen, or why it was skipped."""


class _Skipped(Exception):  # noqa: N818 - not an error
    """A check that cannot be made here."""


def check_device(name: str = "cuda") -> Iterator[DeviceCheck]:
    """Compare a device with the CPU, one check after the other.

    Args:
        name: ``cuda``, ``cuda:N``, or ``cpu`` to try the checks themselves.

    Yields:
        The outcome of each check, as soon as it is known.

    Raises:
        UserError: If there is no such device.
    """
    device = choose_device(name)
    checks: dict[str, Callable[[torch.device], str]] = {
        "masks equal to the CPU's": _masks,
        "gradients equal to the CPU's": _gradients,
        "torch.compile": _compile,
        "autocast": _autocast,
        "a run learns": _run,
        "two processes equal one": _two_processes,
    }
    for what, check in checks.items():
        try:
            yield DeviceCheck(what, "ok", check(device))
        except _Skipped as reason:
            yield DeviceCheck(what, "skipped", str(reason))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the answer
            yield DeviceCheck(what, "failed", one_line(error))


def _twins(device: torch.device) -> tuple[nn.Module, nn.Module, list[Tensor]]:
    """Return a SEM layer on the CPU, the same one on the device, and inputs."""
    from edgemask.heads import SEMLinear

    draw = torch.Generator().manual_seed(0)
    classes, features = _SHAPE
    there, here = (SEMLinear(features, classes, seed=7) for _ in range(2))
    here.load_state_dict(there.state_dict())
    inputs = [torch.randn(_BATCH, features, generator=draw).relu() for _ in range(_STEPS)]
    return there, here.to(device), inputs


def _compared(reference: Any, other: Any, masks: Any, inputs: list[Tensor]) -> str:
    """Run two layers side by side; return how many edges differ, or fail."""
    device = next(masks.parameters()).device
    different = 0
    for x in inputs:
        reference(x)
        other(x.to(device))
        kept = reference.last_mask != 0
        different += int((kept != (masks.last_mask != 0).cpu()).sum())
        if bool(kept.all()) or not bool(kept.any()):
            raise AssertionError("the layer masks nothing, or everything")
    edges = len(inputs) * math.prod(_SHAPE)
    text = f"{different:,} of {edges:,} edges differ in {len(inputs)} steps"
    if different > _DIFFERENT_EDGES * edges:
        raise AssertionError(text)
    return text


def _masks(device: torch.device) -> str:
    there, here, inputs = _twins(device)
    return _compared(there, here, here, inputs)


def _gradients(device: torch.device) -> str:
    there, here, inputs = _twins(device)
    target = torch.arange(_BATCH) % _SHAPE[0]
    for net, place in ((there, torch.device("cpu")), (here, device)):
        F.cross_entropy(net(inputs[0].to(place)), target.to(place)).backward()
    pairs = zip(there.parameters(), here.parameters(), strict=True)
    return _close([(one.grad, two.grad) for one, two in pairs])


def _close(pairs: list[tuple[Any, Any]]) -> str:
    """Return the largest relative difference of tensors, or fail."""
    error = max(
        float((one.cpu() - two.cpu()).abs().max() / one.abs().max().cpu().clamp(min=1e-12))
        for one, two in pairs
    )
    text = f"largest relative difference {error:.1e}"
    if not error < _CLOSE:
        raise AssertionError(text)
    return text


def _compile(device: torch.device) -> str:
    there, here, inputs = _twins(device)
    torch.compiler.reset()
    try:
        compiled: Any = torch.compile(here, fullgraph=True)
        return _compared(there, compiled, here, inputs[:2])
    except Exception as error:
        if "InvalidCxxCompiler" in f"{type(error).__name__} {error}":
            raise _Skipped("there is no C++ compiler") from error
        raise


def _autocast(device: torch.device) -> str:
    _, here, inputs = _twins(device)
    precision, problem = usable_precision("bf16", device)
    if problem is not None:
        raise _Skipped(problem)
    with torch.autocast(device.type, torch.bfloat16):
        logits = here(inputs[0].to(device))
        loss = F.cross_entropy(logits.float(), torch.zeros(_BATCH, dtype=torch.long).to(device))
    loss.backward()
    finite = all(bool(p.grad.isfinite().all()) for p in here.parameters() if p.grad is not None)
    scores = here.get_buffer("scores").dtype
    if logits.dtype != torch.bfloat16 or scores != torch.float32 or not finite:
        raise AssertionError(f"logits {logits.dtype}, scores {scores}, finite gradients: {finite}")
    return f"{precision}: logits in bfloat16, scores in float32, finite gradients"


def _network() -> nn.Module:
    """No batch normalisation: its statistics are each process's own."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))


def _config() -> Config:
    settings = {
        "data": {"spec": "digits", "limit": 480, "test_limit": 100},
        "noise": {"spec": "sym:0.2"},
        "model": {"name": "object:small"},
        "head": {"name": "sem"},
        "method": {"options": {"views": "none"}},
        "optim": {"lr": 0.1},
        "train": {"epochs": 8, "batch_size": 32, "record_every": 0},
        "log": {"trackers": [], "thumbnails": 0},
    }
    return resolve(settings, objects=Objects(model=_network))


def _train(folder: Path, device: str) -> Any:
    from edgemask.engine.train import train

    return train(_config(), out=folder, objects=Objects(model=_network), device=device)


def _run(device: torch.device) -> str:
    with tempfile.TemporaryDirectory() as folder:
        history = _train(Path(folder) / "run", str(device)).history
    first, last = (history[place]["train/loss"] for place in (0, -1))
    text = f"loss {first:.2f} -> {last:.2f}, test accuracy {history[-1]['test/accuracy']:.2f}"
    if not last < 0.8 * first:
        raise AssertionError(text)
    return text


def _two_processes(device: torch.device) -> str:
    """Train by two processes, on two GPUs by NCCL, and compare with one."""
    from safetensors.torch import load_file

    if device.type == "cuda" and torch.cuda.device_count() < 2:
        raise _Skipped("there is one GPU; NCCL needs two")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", "-m", "edgemask.engine.device_check"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _train(folder / "1", str(device))
        done = subprocess.run(  # noqa: S603 - our own interpreter and module
            [*command, str(folder / "2"), device.type],
            capture_output=True,
            text=True,
            timeout=60 * _MINUTES,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "Error" in line]
            raise AssertionError((lines or ["torchrun failed"])[0])
        one, two = (load_file(folder / part / "model.safetensors") for part in "12")
    backend = "NCCL" if device.type == "cuda" else "gloo"
    names = [name for name, value in one.items() if value.is_floating_point() and value.numel()]
    return f"{backend}, {_close([(one[name], two[name]) for name in names])}"


if __name__ == "__main__":
    _train(Path(sys.argv[1]), sys.argv[2])
