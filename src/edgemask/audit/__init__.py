"""Which labels are wrong? Estimates from losses and from out-of-sample probabilities.

Trust is a score in [0, 1] per sample, higher where the given label is more likely right. The one
mixture fit that all of the package uses is here, too.

>>> from edgemask import audit
>>> audit.trust_from_losses([0.1, 0.2, 0.1, 3.0, 0.2, 2.9]).round(1).tolist()
[1.0, 1.0, 1.0, 0.0, 1.0, 0.0]
"""

from __future__ import annotations

from edgemask.audit.confident_learning import confident_joint, confident_rate, estimate_transition
from edgemask.audit.corrections import (
    CorrectedLabels,
    Correction,
    Corrections,
    read_corrections,
)
from edgemask.audit.mixture import Mixture, fit_two_components
from edgemask.audit.trust import estimate_rate, trust_from_losses

__all__ = [
    "CorrectedLabels",
    "Correction",
    "Corrections",
    "Mixture",
    "confident_joint",
    "confident_rate",
    "estimate_rate",
    "estimate_transition",
    "fit_two_components",
    "read_corrections",
    "trust_from_losses",
]
