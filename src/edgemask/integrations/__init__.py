"""EdgeMask inside the training loops of other libraries.

``integrations.transformers``, ``integrations.lightning``, ``integrations.skorch`` and
``NoisyLabelClassifier`` (scikit-learn) are imported when they are first used, since each needs its
library.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgemask.integrations.trainer_loss import trainer_loss

if TYPE_CHECKING:
    from edgemask.integrations import lightning as lightning
    from edgemask.integrations import skorch as skorch
    from edgemask.integrations import transformers as transformers
    from edgemask.integrations.sklearn import NoisyLabelClassifier as NoisyLabelClassifier

__all__ = ["NoisyLabelClassifier", "lightning", "skorch", "trainer_loss", "transformers"]


def __getattr__(name: str) -> Any:
    if name == "NoisyLabelClassifier":
        return import_module("edgemask.integrations.sklearn").NoisyLabelClassifier
    if name in ("lightning", "skorch", "transformers"):
        return import_module(f"edgemask.integrations.{name}")
    raise AttributeError(f"module 'edgemask.integrations' has no attribute {name!r}")
