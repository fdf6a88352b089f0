"""What is going on inside a model that learns from noisy labels."""

from __future__ import annotations

from edgemask.diagnostics.confidence import confidence_split
from edgemask.diagnostics.memorisation import memorisation
from edgemask.diagnostics.retention import ScoreSnapshot, retention, score_snapshot, scored_head
from edgemask.noise.trust import trust_from_losses

__all__ = [
    "ScoreSnapshot",
    "confidence_split",
    "memorisation",
    "retention",
    "score_snapshot",
    "scored_head",
    "trust_from_losses",
]
