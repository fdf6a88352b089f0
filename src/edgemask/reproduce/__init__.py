"""Every table and figure of the paper as something to run, compare and sweep."""

from __future__ import annotations

from edgemask.reproduce.compare import Comparison, Difference, compare, paired_difference
from edgemask.reproduce.execute import Runner, execute
from edgemask.reproduce.paper import EXPERIMENTS
from edgemask.reproduce.plan import Cell, Plan, make_plan, parse_seeds, pick
from edgemask.reproduce.presets import PRESETS, Preset
from edgemask.reproduce.render import write_results
from edgemask.reproduce.results import Result, collect
from edgemask.reproduce.spec import Claim, Column, Experiment, Number, Row, System
from edgemask.reproduce.sweep import Axis, Point, make_points, parse_axis, write_sweep
from edgemask.reproduce.work import Outcome, run_one

__all__ = [
    "EXPERIMENTS",
    "PRESETS",
    "Axis",
    "Cell",
    "Claim",
    "Column",
    "Comparison",
    "Difference",
    "Experiment",
    "Number",
    "Outcome",
    "Plan",
    "Point",
    "Preset",
    "Result",
    "Row",
    "Runner",
    "System",
    "collect",
    "compare",
    "execute",
    "make_plan",
    "make_points",
    "paired_difference",
    "parse_axis",
    "parse_seeds",
    "pick",
    "run_one",
    "write_results",
    "write_sweep",
]
