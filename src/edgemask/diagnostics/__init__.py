"""What is going on inside a model that learns from noisy labels."""

from __future__ import annotations

from edgemask.audit import trust_from_losses
from edgemask.diagnostics.cam import activation_map, cam, grad_cam, overlay
from edgemask.diagnostics.cost import Latency, count_flops, count_parameters, latency
from edgemask.diagnostics.criteria import (
    cdr_overlap,
    criteria_histograms,
    criteria_statistics,
    deletion_damage,
    dynamic_range,
    rank_correlation,
)
from edgemask.diagnostics.edges import (
    ScoreSnapshot,
    edge_picture,
    kept_edges,
    logit_factor,
    retention,
    score_snapshot,
    scored_head,
)
from edgemask.diagnostics.gradients import (
    GradientError,
    block_parameters,
    gradient_bounds,
    gradient_error,
    jacobian_norms,
    masking_bounds,
)
from edgemask.diagnostics.predictions import (
    calibration,
    confidence_split,
    memorisation,
    selection_quality,
)

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
    "logit_factor",
    "masking_bounds",
    "memorisation",
    "overlay",
    "rank_correlation",
    "retention",
    "score_snapshot",
    "scored_head",
    "selection_quality",
    "trust_from_losses",
]
