"""Config, the run loop, run directories, checkpoints and evaluation."""

from __future__ import annotations

from edgemask.engine.config import Config
from edgemask.engine.deploy import export
from edgemask.engine.fitting import fit
from edgemask.engine.identity import config_hash
from edgemask.engine.inference import Predictions, evaluate, predict
from edgemask.engine.job import Objects
from edgemask.engine.observer import Observer, RunInfo
from edgemask.engine.recipes import RECIPES, Recipe, explain
from edgemask.engine.resolve import resolve
from edgemask.engine.run import Run, load_run
from edgemask.engine.schema import assign, dump_yaml, json_schema, load_yaml, merge
from edgemask.engine.signals import Interrupted
from edgemask.engine.stepping import LossError
from edgemask.engine.training import resume, train

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
