"""One process or several: a thin layer over Accelerate that works around its pitfalls."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from edgemask.errors import EdgeMaskWarning, MissingExtraError, UserError, one_line, unknown_name

__all__ = ["Processes", "choose_device", "on_first_process"]

T = TypeVar("T")


def _accelerate() -> Any:
    try:
        import accelerate
    except ImportError as error:
        raise MissingExtraError("accelerate", "app", "to train", error) from error
    return accelerate


def has_accelerator() -> bool:
    """Whether there is anything faster than the CPU."""
    if hasattr(torch, "accelerator"):
        return bool(torch.accelerator.is_available())
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def choose_device(name: str) -> torch.device:
    """Return the device behind ``auto`` (the fastest there is), ``cpu``, ``cuda`` or ``cuda:N``."""
    if name == "cpu" or (name == "auto" and not has_accelerator()):
        return torch.device("cpu")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "mps")
    if not re.fullmatch(r"cuda(:\d+)?", name):
        raise UserError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if not torch.cuda.is_available():
        raise UserError(f"device {name}: torch finds no CUDA device; see: edgemask doctor")
    return torch.device(name)


def on_first_process(function: Callable[[], T], device: str = "auto") -> T:
    """Call a function on the first process and return its result on all of them.

    Raises:
        UserError: On all processes, where the first one raised it.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return function()
    accelerate = _accelerate()
    state = accelerate.PartialState(cpu=choose_device(device).type == "cpu")
    result: list[Any] = [None, None]
    if state.process_index == 0:
        try:
            result[0] = function()
        except UserError as error:
            result[1] = str(error)
    if state.num_processes > 1:
        if not torch.distributed.is_initialized():
            raise UserError(
                "several processes can train one run and then end; start torchrun again for the "
                "next one"
            )
        accelerate.utils.broadcast_object_list(result)
    if result[1] is not None:
        raise UserError(result[1])
    value: T = result[0]
    return value


@contextlib.contextmanager
def _preferred(device: torch.device) -> Iterator[None]:
    """Tell Accelerate which one of several GPUs to take; it reads an environment variable."""
    key = "ACCELERATE_TORCH_DEVICE"
    if ":" not in str(device) or key in os.environ:
        yield
        return
    os.environ[key] = str(device)
    try:
        yield
    finally:
        del os.environ[key]


class Processes:
    """The processes of a run, started by ``torchrun`` or alone.

    Args:
        precision: ``fp32``, ``bf16`` or ``fp16``.
        trackers: Names of Accelerate trackers.
        folder: The run's folder; trackers that write files do so below ``events/``.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
    """

    def __init__(
        self,
        *,
        precision: str = "fp32",
        trackers: list[str] | None = None,
        folder: Path | None,
        device: str = "auto",
    ):
        chosen = choose_device(device)
        accelerate = _accelerate()
        known = {str(kind.value) for kind in accelerate.utils.LoggerType} - {"all"}
        available = {str(kind) for kind in accelerate.tracking.get_available_trackers()}
        for name in trackers or ():
            if name not in known:
                raise UserError(f"log.trackers: {unknown_name('tracker', name, known)}")
            if name not in available:
                raise UserError(
                    f"log.trackers: the package behind {name!r} is not installed; install it, or "
                    "leave the tracker out"
                )
        world = int(os.environ.get("WORLD_SIZE", "1"))
        # Accelerate remembers precision and device of the last run in this process and refuses
        # others; the state of a process group stays.
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=world == 1)
        handlers = [
            accelerate.DistributedDataParallelKwargs(
                find_unused_parameters=True, broadcast_buffers=False
            )
        ]
        with _preferred(chosen):
            self.accelerator: Any = accelerate.Accelerator(
                # Without cpu=True a run on the CPU silently is not distributed.
                cpu=chosen.type == "cpu",
                mixed_precision="no" if precision == "fp32" else precision,
                log_with=trackers or None,
                project_dir=str(folder / "events") if folder is not None else None,
                kwargs_handlers=handlers,
            )
        self.count: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        if world > 1 and self.count == 1:
            raise UserError(
                f"WORLD_SIZE is {world} but Accelerate sees a single process: each would train a "
                "model of its own. Start the run with torchrun, and set ACCELERATE_USE_CPU=true "
                "where there is no accelerator"
            )

    @property
    def device(self) -> torch.device:
        """The device of this process."""
        device: torch.device = self.accelerator.device
        return device

    @property
    def main(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def start_trackers(self, name: str, settings: dict[str, Any]) -> None:
        """Open the trackers.

        Args:
            name: What to call the run, for services that keep many.
            settings: Its settings by dotted key.
        """
        plain = {
            key: value if isinstance(value, bool | int | float) else str(value)
            for key, value in settings.items()
        }
        extra = {"wandb": {"name": name}, "trackio": {"name": name}, "mlflow": {"run_name": name}}
        self.accelerator.init_trackers("edgemask", config=plain, init_kwargs=extra)

    def log(self, values: dict[str, Any], step: int) -> None:
        """Hand numbers to the trackers; one that fails is left out from then on, with a warning."""
        try:
            self.accelerator.log(values, step=step)
        except Exception as error:  # noqa: BLE001 - trackers are foreign and raise all sorts
            self._without_trackers(error)

    def _without_trackers(self, error: Exception) -> None:
        self.accelerator.trackers = []
        warnings.warn(
            f"the trackers stopped ({one_line(error)}); metrics.jsonl is written all the same",
            EdgeMaskWarning,
            stacklevel=3,
        )

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over all processes; the result is where the argument was."""
        if self.count == 1:
            return values
        summed: Tensor = self.accelerator.reduce(values.to(self.device), reduction="sum")
        return summed.to(values.device)

    def gather(self, rows: Tensor) -> Tensor:
        """Join the rows of all processes in rank order; they may have different numbers of rows.

        The rows of this process keep their gradient. With several processes it waits for the
        device.
        """
        if self.count == 1:
            return rows
        sizes = self.accelerator.gather(torch.tensor([len(rows)], device=self.device)).tolist()
        padded = torch.zeros(max(sizes), *rows.shape[1:], dtype=rows.dtype, device=self.device)
        padded[: len(rows)] = rows.detach()
        found = self.accelerator.gather(padded).view(self.count, *padded.shape).to(rows.device)
        parts = [part[:size] for part, size in zip(found, sizes, strict=True)]
        parts[self.rank] = rows
        return torch.cat(parts)

    def collect(self, value: Any) -> list[Any]:
        """Return what each process has, in rank order."""
        if self.count == 1:
            return [value]
        from accelerate.utils import gather_object

        collected: list[Any] = gather_object([value])
        return collected

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Whether each flag is set in any process; one reduction for all of them."""
        if self.count == 1:
            return flags
        totals = self.total(torch.tensor([int(flag) for flag in flags]))
        return tuple(count > 0 for count in totals.tolist())

    def wait(self) -> None:
        """Wait until all processes have come to this point."""
        if self.count > 1:
            self.accelerator.wait_for_everyone()

    def same_buffers(self, nets: dict[str, nn.Module]) -> None:
        """Copy the first process's buffers (running statistics of batch norm) to all others."""
        if self.count > 1:
            for net in nets.values():
                for buffer in net.buffers():
                    torch.distributed.broadcast(buffer, 0)

    def ignore_sigterm(self) -> None:
        """Ignore SIGTERM from now on, so that this process can say why it ends.

        Where one of several processes ends, torchrun sends it to all others.
        """
        if self.count > 1 and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def close(self, *, together: bool = True) -> None:
        """Leave the process group in the order that lets gloo exit cleanly.

        The caller has dropped its references to wrapped models before.

        Args:
            together: Whether all processes call this; False after an error in one of them, when
                the others may never come.
        """
        if self.count > 1 and together:
            self.wait()
            self.accelerator.free_memory()
            gc.collect()
        try:
            self.accelerator.end_training()
        except Exception as error:  # noqa: BLE001
            self._without_trackers(error)
            self.accelerator.end_training()
