"""What to do when memory runs out, a batch is too small, or another process of a run has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from edgemask.engine.config import Config
from edgemask.errors import UserError, one_line

__all__ = ["explained_failures", "is_out_of_memory"]

_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory")
_LOST_WORDS = ("by peer", "Broken pipe", "gloo", "NCCL", "process group", "recvBytes", "sendBytes")
_ONE_SAMPLE = "Expected more than 1 value per channel"


@contextmanager
def explained_failures(config: Config) -> Iterator[None]:
    """Turn failures of torch inside the block that settings can prevent into errors that say so.

    Raises:
        UserError: If memory ran out, batch normalisation got a single sample, or the connection to
            another process of the run broke.
    """
    try:
        yield
    except (RuntimeError, MemoryError, ValueError) as error:
        train = config.train
        if is_out_of_memory(error):
            raise UserError(
                f"out of memory ({one_line(error)}); lower train.batch_size (now "
                f"{train.batch_size}) or split it with train.accumulate (now {train.accumulate}), "
                f"lower eval.batch_size (now {config.eval.batch_size}), or take a smaller "
                "model.width. The last checkpoint is kept"
            ) from error
        if _ONE_SAMPLE in str(error):
            raise UserError(
                "batch normalisation got a batch of one sample; use a train.batch_size (now "
                f"{train.batch_size}) of at least 2 for each of the train.accumulate (now "
                f"{train.accumulate}) parts and each process, or a model without it"
            ) from error
        if _is_lost_process(error):
            raise UserError(
                f"another process of this run has ended, so that all of them stop "
                f"({one_line(error)}); see its messages, then start the same command again: it "
                "continues from the last checkpoint"
            ) from error
        raise


def _is_lost_process(error: BaseException) -> bool:
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return several and any(word in str(error) for word in _LOST_WORDS)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory on the CPU or a GPU."""
    if isinstance(error, MemoryError | torch.cuda.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _MEMORY_WORDS)
