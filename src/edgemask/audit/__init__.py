"""Which labels are wrong? From probabilities, features, training dynamics or losses.

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
from edgemask.audit.dynamics import TrainingDynamics
from edgemask.audit.features import from_features
from edgemask.audit.label_audit import LabelAudit
from edgemask.audit.mixture import Mixture, fit_two_components
from edgemask.audit.probabilities import from_probabilities
from edgemask.audit.trust import estimate_rate, trust_from_losses
from edgemask.audit.verdict import ModelEvidence, Verdict, clopper_pearson, judge_share

__all__ = [
    "CorrectedLabels",
    "Correction",
    "Corrections",
    "LabelAudit",
    "Mixture",
    "ModelEvidence",
    "TrainingDynamics",
    "Verdict",
    "clopper_pearson",
    "confident_joint",
    "confident_rate",
    "estimate_rate",
    "estimate_transition",
    "fit_two_components",
    "from_features",
    "from_probabilities",
    "judge_share",
    "read_corrections",
    "trust_from_losses",
]
