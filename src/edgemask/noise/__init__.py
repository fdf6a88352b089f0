"""Label corruption as pure functions.

A noise function takes labels and returns :class:`NoisyLabels`: the clean and the noisy labels, the
nominal and the realised rate, the transition matrix, and a fingerprint. Code bases differ in what
they call "40 % noise", so ``protocol`` names the one meant: ``paper`` (what the paper says),
``jal`` (JAL and ANL), ``apl`` (APL and ALF), ``dividemix`` (and methods derived from it) or
``nust`` (Jo-SRC, Jo-SNC, CA2C). The last four reproduce their official labels bit for bit.

>>> from edgemask import noise
>>> noise.make("sym:0.8", [0, 1, 2, 3] * 25, 4, protocol="dividemix", seed=1).summary()
'symmetric, protocol dividemix, nominal 0.8, realised 0.58'
"""

from __future__ import annotations

from collections.abc import Callable

from edgemask._registry import Registry
from edgemask.noise._checks import PROTOCOLS
from edgemask.noise.asymmetric import asymmetric, pair_flip
from edgemask.noise.build import make
from edgemask.noise.files import from_file
from edgemask.noise.given import clean, given
from edgemask.noise.human import HUMAN_SUBSETS, human
from edgemask.noise.instance import instance_dependent
from edgemask.noise.labels import NoisyLabels
from edgemask.noise.maps import CIFAR100_FINE_TO_COARSE, MAPS
from edgemask.noise.matrix import from_matrix
from edgemask.noise.open_set import open_set, open_set_asymmetric
from edgemask.noise.symmetric import symmetric

__all__ = [
    "CIFAR100_FINE_TO_COARSE",
    "HUMAN_SUBSETS",
    "MAPS",
    "NOISE",
    "PROTOCOLS",
    "NoisyLabels",
    "asymmetric",
    "clean",
    "from_file",
    "from_matrix",
    "given",
    "human",
    "instance_dependent",
    "make",
    "open_set",
    "open_set_asymmetric",
    "pair_flip",
    "symmetric",
]

# A kind of noise is f(labels, value, num_classes, *, options): ``make`` reads from the signature
# what it takes after the colon and which options it has. Without a value: f(labels, num_classes).
NOISE: Registry[Callable[..., NoisyLabels]] = Registry(
    "noise",
    {
        "clean": clean,
        "given": given,
        "symmetric": symmetric,
        "asymmetric": asymmetric,
        "pair-flip": pair_flip,
        "instance-dependent": instance_dependent,
        "open-set": open_set,
        "open-set-asymmetric": open_set_asymmetric,
        "human": human,
        "matrix": from_matrix,
        "file": from_file,
    },
    aliases={
        "none": "clean",
        "sym": "symmetric",
        "asym": "asymmetric",
        "pair": "pair-flip",
        "idn": "instance-dependent",
        "instance": "instance-dependent",
        "open": "open-set",
        "open-asym": "open-set-asymmetric",
    },
)

_MOVED = (
    "Mixture",
    "confident_joint",
    "confident_rate",
    "estimate_rate",
    "estimate_transition",
    "fit_two_components",
)


def __getattr__(name: str) -> object:
    if name in _MOVED:
        raise ImportError(f"edgemask.noise.{name} is now edgemask.audit.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
