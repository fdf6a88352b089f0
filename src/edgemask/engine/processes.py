"""One process or many: a thin layer over Accelerate that knows its traps."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from edgemask.errors import MissingExtraError, UserError, unknown_name

__all__ = ["Processes"]


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


class Processes:
    """The processes of a run, started by ``torchrun`` or alone.

    Args:
        precision: ``fp32``, ``bf16`` or ``fp16``.
        trackers: Names of Accelerate trackers.
        folder: The run's folder; trackers that write files do so below ``events/``.
    """

    def __init__(
        self, *, precision: str = "fp32", trackers: list[str] | None = None, folder: Path | None
    ):
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
        # Accelerate remembers the precision of the last run in this process and refuses another.
        accelerate.state.AcceleratorState._reset_state()
        handlers = [
            accelerate.DistributedDataParallelKwargs(
                find_unused_parameters=True, broadcast_buffers=False
            )
        ]
        self.accelerator: Any = accelerate.Accelerator(
            # Without cpu=True a run on the CPU silently is not distributed.
            cpu=not has_accelerator(),
            mixed_precision="no" if precision == "fp32" else precision,
            log_with=trackers or None,
            project_dir=str(folder / "events") if folder is not None else None,
            kwargs_handlers=handlers,
        )
        self.count: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        world = int(os.environ.get("WORLD_SIZE", "1"))
        if world > 1 and self.count == 1:
            raise UserError(
                f"WORLD_SIZE is {world} but Accelerate sees a single process: each would train a "
                "model of its own. Start the run with torchrun, and set ACCELERATE_USE_CPU=true "
                "where there is no accelerator"
            )

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
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

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over all processes; the result is where the argument was."""
        if self.count == 1:
            return values
        summed: Tensor = self.accelerator.reduce(values.to(self.device), reduction="sum")
        return summed.to(values.device)

    def gather(self, rows: Tensor) -> Tensor:
        """Join the rows of all processes in rank order; they may have different numbers of rows."""
        if self.count == 1:
            return rows
        from accelerate.utils import gather_object

        parts = gather_object([rows.detach().cpu()])
        return torch.cat(parts).to(rows.device)

    def collect(self, value: Any) -> list[Any]:
        """Return what each process has, in rank order."""
        if self.count == 1:
            return [value]
        from accelerate.utils import gather_object

        collected: list[Any] = gather_object([value])
        return collected

    def any(self, flag: bool) -> bool:
        """Whether the flag is raised in any process."""
        if self.count == 1:
            return flag
        return bool(self.total(torch.tensor(int(flag))) > 0)

    def wait(self) -> None:
        """Let all processes come to this point."""
        if self.count > 1:
            self.accelerator.wait_for_everyone()

    def same_buffers(self, nets: dict[str, nn.Module]) -> None:
        """Give every process the buffers of the first one (running statistics of batch norm)."""
        if self.count > 1:
            for net in nets.values():
                for buffer in net.buffers():
                    torch.distributed.broadcast(buffer, 0)

    def close(self, *, together: bool = True) -> None:
        """Leave the process group in the order that lets gloo exit cleanly.

        The caller has dropped its references to wrapped models before.

        Args:
            together: Whether all processes come here; False after an error in one of them, whose
                fellows would be waited for in vain.
        """
        if self.count > 1 and together:
            self.wait()
            self.accelerator.free_memory()
            gc.collect()
        self.accelerator.end_training()
