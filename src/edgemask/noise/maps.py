"""The published class maps of asymmetric noise: which class is labelled as which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from edgemask._registry import Registry
from edgemask.errors import UserError

__all__ = ["CIFAR100_FINE_TO_COARSE", "MAPS", "class_map", "next_in_group"]

# fmt: off
CIFAR100_FINE_TO_COARSE = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11,
    6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5,
    5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17,
    10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13,
    16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)
# fmt: on
"""The super-class, 0..19, of each of the 100 classes of CIFAR-100."""


def next_in_group(groups: tuple[int, ...]) -> dict[int, int]:
    """Map each class to the next higher one of its group, the last to the first."""
    members: dict[int, list[int]] = {}
    for label, group in enumerate(groups):
        members.setdefault(group, []).append(label)
    after = {
        label: group[(position + 1) % len(group)]
        for group in members.values()
        for position, label in enumerate(group)
    }
    return dict(sorted(after.items()))


# The order of the entries is the order in which the APL code visits the classes.
MAPS: Registry[Mapping[int, int]] = Registry(
    "class map",
    {
        # truck -> automobile, bird -> airplane, cat -> dog, deer -> horse
        "cifar10-paper": MappingProxyType({9: 1, 2: 0, 3: 5, 4: 7}),
        # the same and dog -> cat, as all published code has it
        "cifar10-code": MappingProxyType({9: 1, 2: 0, 3: 5, 5: 3, 4: 7}),
        "cifar100-superclass": MappingProxyType(next_in_group(CIFAR100_FINE_TO_COARSE)),
        # published code takes five consecutive ids for a super-class, which they are not
        "cifar100-block": MappingProxyType(next_in_group(tuple(i // 5 for i in range(100)))),
        # handwritten digits: 7 -> 1, 2 -> 7, 5 <-> 6, 3 -> 8
        "mnist": MappingProxyType({7: 1, 2: 7, 5: 6, 6: 5, 3: 8}),
    },
)

_CODE = {"cifar10": "cifar10-code", "cifar100": "cifar100-block", "mnist": "mnist"}
_OF_PROTOCOL: dict[str, dict[str, str]] = {
    "paper": {"cifar10": "cifar10-paper", "cifar100": "cifar100-superclass", "mnist": "mnist"},
    "jal": _CODE,
    "apl": _CODE,
    "dividemix": {"cifar10": "cifar10-code"},
}
_BY_CLASSES = {10: "cifar10", 100: "cifar100"}


def class_map(
    mapping: Mapping[int, int] | str | None,
    num_classes: int,
    *,
    protocol: str,
    dataset: str | None = None,
) -> dict[int, int]:
    """Return the map of asymmetric noise that is meant, checked against the class count.

    Args:
        mapping: A map of your own from class to class, the name of one in :data:`MAPS`, or None
            for the protocol's own.
        num_classes: The number of classes.
        protocol: Decides, with the dataset, when ``mapping`` is None.
        dataset: The name of the dataset; None takes 10 classes for CIFAR-10, 100 for CIFAR-100.
    """
    if mapping is None and protocol == "nust":
        return {label: (label + 1) % num_classes for label in range(num_classes)}
    if mapping is None:
        known = _OF_PROTOCOL[protocol]
        name = _BY_CLASSES.get(num_classes, "") if dataset is None else _plain(dataset)
        if name not in known:
            what = f"dataset {dataset!r}" if dataset else f"{num_classes} classes"
            raise UserError(
                f"protocol {protocol!r} does not say which class is mistaken for which in "
                f"{what}; give mapping={{0: 1, ...}} from class to class, or the name of a map: "
                f"{', '.join(MAPS)}"
            )
        mapping = known[name]
    chosen = MAPS[mapping] if isinstance(mapping, str) else mapping
    checked = {int(source): int(target) for source, target in chosen.items()}
    for source, target in checked.items():
        if not (0 <= source < num_classes and 0 <= target < num_classes):
            raise UserError(
                f"mapping sends class {source} to {target}, but there are only classes "
                f"0..{num_classes - 1}"
            )
        if source == target:
            raise UserError(f"mapping sends class {source} to itself; leave it out of the mapping")
    if not checked:
        raise UserError("mapping is empty; it has to send at least one class to another")
    return checked


def _plain(dataset: str) -> str:
    name = re.sub(r"[^a-z0-9]", "", dataset.lower())
    return "mnist" if name == "digits" else name
