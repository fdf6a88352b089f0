"""Make torchvision importable beside a torch build that its wheel was not made for.

The torchvision wheel of the package index carries binary operators for one build of torch.
Beside another build (a CPU-only one, say) they do not load, and importing torchvision, and with
it timm and the models of transformers, ends in ``operator torchvision::nms does not exist``.
Nothing that EdgeMask uses needs these operators: it is enough that their names exist.

:func:`install` puts a finder before Python's own that watches for the first import of torchvision.
Where that import succeeds nothing happens; where it fails for this one reason, the names are
declared and the import is tried again. Importing edgemask installs it, so ``import edgemask`` has
to come before the first import of torchvision, timm or transformers in a program that needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

__all__ = ["declare_torchvision_operators", "install"]

_OPERATORS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
# torch forgets an operator when the Library object that declared it is collected.
_library: list[Any] = []


def declare_torchvision_operators() -> bool:
    """Declare the torchvision operators that are missing; return whether any was.

    Safe to call any number of times.
    """
    import torch

    missing = [
        schema for name, schema in _OPERATORS.items() if not hasattr(torch.ops.torchvision, name)
    ]
    if missing:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for schema in missing:
            library.define(schema)
        _library.append(library)
    return bool(missing)


class _RetryingLoader(Loader):
    """Runs torchvision's own loader, and once more with the operators declared if it must."""

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        try:
            self._loader.exec_module(module)
        except RuntimeError as error:
            if "operator torchvision::" not in str(error) or not declare_torchvision_operators():
                raise
            for name in [name for name in sys.modules if name.startswith("torchvision.")]:
                del sys.modules[name]
            self._loader.exec_module(module)


class _TorchvisionFinder(MetaPathFinder):
    """Finds torchvision as Python would, and gives it the retrying loader."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchvision":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _RetryingLoader(spec.loader)
        return spec


def install() -> None:
    """Watch for the first import of torchvision. Imports nothing itself; idempotent."""
    if not any(isinstance(finder, _TorchvisionFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TorchvisionFinder())
