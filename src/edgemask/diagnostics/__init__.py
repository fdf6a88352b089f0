"""What is going on inside a model that learns from noisy labels."""

from __future__ import annotations

from edgemask.diagnostics.bounds import gradient_bounds, jacobian_norms, masking_bounds
from edgemask.diagnostics.calibration import calibration
from edgemask.diagnostics.cam import activation_map, cam, grad_cam, overlay
from edgemask.diagnostics.confidence import confidence_split
from edgemask.diagnostics.damage import (
    criteria_histograms,
    criteria_statistics,
    deletion_damage,
    dynamic_range,
    rank_correlation,
)
from edgemask.diagnostics.edges import edge_picture, kept_edges
from edgemask.diagnostics.gradient_error import (
    GradientError,
    block_parameters,
    gradient_error,
)
from edgemask.diagnostics.memorisation import memorisation
from edgemask.diagnostics.overhead import Latency, count_flops, count_parameters, latency
from edgemask.diagnostics.overlap import cdr_overlap
from edgemask.diagnostics.retention import ScoreSnapshot, retention, score_snapshot, scored_head
from edgemask.noise.trust import trust_from_losses

__all__ = [
    "GradientError",
    "Latency",
    "ScoreSnapshot",
    "activation_map",
    "block_parameters",
    "calibration",
    "cam",
    "cdr_overlap",
    "confidence_split",
    "count_flops",
    "count_parameters",
    "criteria_histograms",
    "criteria_statistics",
    "deletion_damage",
    "dynamic_range",
    "edge_picture",
    "grad_cam",
    "gradient_bounds",
    "gradient_error",
    "jacobian_norms",
    "kept_edges",
    "latency",
    "masking_bounds",
    "memorisation",
    "overlay",
    "rank_correlation",
    "retention",
    "score_snapshot",
    "scored_head",
    "trust_from_losses",
]
