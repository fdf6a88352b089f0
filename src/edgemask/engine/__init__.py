"""Config, the run loop, run directories, checkpoints and evaluation."""

from __future__ import annotations

from edgemask.engine.audit import audit_labels
from edgemask.engine.compose import compose
from edgemask.engine.config import Config, json_schema, merge
from edgemask.engine.config_file import assign, dump_yaml, load_yaml
from edgemask.engine.deploy import export
from edgemask.engine.fit import fit
from edgemask.engine.identity import config_hash
from edgemask.engine.observer import Observer, RunInfo
from edgemask.engine.prediction import Predictions, evaluate, predict
from edgemask.engine.recipes import RECIPES, Recipe, explain
from edgemask.engine.resolve import resolve
from edgemask.engine.run import Run, load_run
from edgemask.engine.run_data import Objects
from edgemask.engine.signals import Interrupted
from edgemask.engine.stepping import LossError
from edgemask.engine.train import resume, train

__all__ = [
    "RECIPES",
    "Config",
    "Interrupted",
    "LossError",
    "Objects",
    "Observer",
    "Predictions",
    "Recipe",
    "Run",
    "RunInfo",
    "assign",
    "audit_labels",
    "compose",
    "config_hash",
    "dump_yaml",
    "evaluate",
    "explain",
    "export",
    "fit",
    "json_schema",
    "load_run",
    "load_yaml",
    "merge",
    "predict",
    "resolve",
    "resume",
    "train",
]
