"""Every table and figure of the paper as data: run it, compare it with the paper; sweeps."""

from __future__ import annotations

from edgemask.reproduce.compare import (
    ClaimComparison,
    PairedDifference,
    compare,
    paired_difference,
)
from edgemask.reproduce.experiments import (
    EXPERIMENTS,
    Claim,
    Experiment,
    ExperimentColumn,
    ExperimentRow,
    FigureSpec,
    PaperNumber,
    TrainedSystem,
)
from edgemask.reproduce.plan import (
    ExperimentCell,
    ExperimentPlan,
    make_plan,
    parse_seeds,
    pick,
    run_plan,
)
from edgemask.reproduce.presets import PRESETS, ExperimentPreset
from edgemask.reproduce.results import CellResult, collect
from edgemask.reproduce.sweep import GridAxis, GridPoint, make_points, parse_axis, write_sweep
from edgemask.reproduce.tables import write_results

__all__ = [
    "EXPERIMENTS",
    "PRESETS",
    "CellResult",
    "Claim",
    "ClaimComparison",
    "Experiment",
    "ExperimentCell",
    "ExperimentColumn",
    "ExperimentPlan",
    "ExperimentPreset",
    "ExperimentRow",
    "FigureSpec",
    "GridAxis",
    "GridPoint",
    "PairedDifference",
    "PaperNumber",
    "TrainedSystem",
    "collect",
    "compare",
    "make_plan",
    "make_points",
    "paired_difference",
    "parse_axis",
    "parse_seeds",
    "pick",
    "run_plan",
    "write_results",
    "write_sweep",
]
