"""The sub-policies of AutoAugment, as the published reimplementations read them.

A line is a sub-policy of two operations, each with its probability and its level of ten (0 for an
operation without one).

Reference: Cubuk et al., AutoAugment, CVPR 2019.
"""

from __future__ import annotations

__all__ = ["TABLES"]

Entry = tuple[str, float, int]

_CIFAR10: tuple[tuple[Entry, Entry], ...] = (
    (("invert", 0.1, 7), ("contrast", 0.2, 6)),
    (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
    (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
    (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)),
    (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
    (("colour", 0.4, 3), ("brightness", 0.6, 7)),
    (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
    (("equalize", 0.6, 5), ("equalize", 0.5, 1)),
    (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
    (("colour", 0.7, 7), ("translate_x", 0.5, 8)),
    (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
    (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
    (("brightness", 0.9, 6), ("colour", 0.2, 8)),
    (("solarize", 0.5, 2), ("invert", 0.0, 3)),
    (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
    (("equalize", 0.2, 8), ("equalize", 0.6, 4)),
    (("colour", 0.9, 9), ("equalize", 0.6, 6)),
    (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)),
    (("brightness", 0.1, 3), ("colour", 0.7, 0)),
    (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)),
    (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
    (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)),
    (("equalize", 0.8, 8), ("invert", 0.1, 3)),
    (("translate_y", 0.7, 9), ("autocontrast", 0.9, 1)),
)

_IMAGENET: tuple[tuple[Entry, Entry], ...] = (
    (("posterize", 0.4, 8), ("rotate", 0.6, 9)),
    (("solarize", 0.6, 5), ("autocontrast", 0.6, 0)),
    (("equalize", 0.8, 0), ("equalize", 0.6, 0)),
    (("posterize", 0.6, 7), ("posterize", 0.6, 6)),
    (("equalize", 0.4, 0), ("solarize", 0.2, 4)),
    (("equalize", 0.4, 0), ("rotate", 0.8, 8)),
    (("solarize", 0.6, 3), ("equalize", 0.6, 0)),
    (("posterize", 0.8, 5), ("equalize", 1.0, 0)),
    (("rotate", 0.2, 3), ("solarize", 0.6, 8)),
    (("equalize", 0.6, 0), ("posterize", 0.4, 6)),
    (("rotate", 0.8, 8), ("colour", 0.4, 0)),
    (("rotate", 0.4, 9), ("equalize", 0.6, 0)),
    (("equalize", 0.0, 0), ("equalize", 0.8, 0)),
    (("invert", 0.6, 0), ("equalize", 1.0, 0)),
    (("colour", 0.6, 4), ("contrast", 1.0, 8)),
    (("rotate", 0.8, 8), ("colour", 1.0, 2)),
    (("colour", 0.8, 8), ("solarize", 0.8, 7)),
    (("sharpness", 0.4, 7), ("invert", 0.6, 0)),
    (("shear_x", 0.6, 5), ("equalize", 1.0, 0)),
    (("colour", 0.4, 0), ("equalize", 0.6, 0)),
    (("equalize", 0.4, 0), ("solarize", 0.2, 4)),
    (("solarize", 0.6, 5), ("autocontrast", 0.6, 0)),
    (("invert", 0.6, 0), ("equalize", 1.0, 0)),
    (("colour", 0.6, 4), ("contrast", 1.0, 8)),
    (("equalize", 0.8, 0), ("equalize", 0.6, 0)),
)

TABLES = {"cifar10": _CIFAR10, "imagenet": _IMAGENET}
