"""EdgeMask inside the training loops of other libraries.

``integrations.transformers`` and ``integrations.lightning`` are imported when they are first used,
since each needs its library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgemask.integrations.trainer_loss import trainer_loss

if TYPE_CHECKING:
    from edgemask.integrations import lightning as lightning
    from edgemask.integrations import transformers as transformers

__all__ = ["lightning", "trainer_loss", "transformers"]


def __getattr__(name: str) -> Any:
    if name in ("lightning", "transformers"):
        return import_module(f"edgemask.integrations.{name}")
    raise AttributeError(f"module 'edgemask.integrations' has no attribute {name!r}")
