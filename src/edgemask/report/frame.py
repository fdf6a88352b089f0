"""Runs as a pandas frame, for analyses of your own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgemask.errors import MissingExtraError, UserError
from edgemask.report.groups import experiment_settings, group_runs
from edgemask.report.outcomes import final_value, noise_facts, total_seconds
from edgemask.runs import RunRecord, find_runs, read_config, read_history, read_summary

__all__ = ["load_runs"]

# Columns that every frame has, and the setting that each of them shows.
_PARTS = {
    "data": "data.spec",
    "noise": "noise.spec",
    "model": "model.name",
    "head": "head.name",
    "loss": "loss.name",
    "method": "method.name",
}
_WAYS = ("last", "mean_last_10", "best", "at_validation", "selected")


def load_runs(folder: str | Path | Iterable[str | Path]) -> Any:
    """Return runs as a pandas frame with one row per run, finished or not.

    Columns that are always there:

    - ``path``, ``name``, ``finished``, ``epochs`` (those done), ``seed``;
    - ``setting``: what sets the config of a run apart from the others; runs that differ in nothing
      but their seeds share it;
    - ``data``, ``noise``, ``noise_rate`` (the share of labels that is wrong, where known),
      ``model``, ``head``, ``loss``, ``method``;
    - test accuracy as ``accuracy_last``, ``accuracy_mean_last_10``, ``accuracy_best`` (chosen by
      the test set itself: an oracle), ``accuracy_at_validation`` (the epoch that held-out noisy
      data choose) and ``accuracy_selected`` (the weights that ``train.select`` kept);
      ``balanced_accuracy_last``;
    - ``seconds``, and ``problems``: files that could not be read, empty where all is well.

    Every other setting that differs between the runs follows in a column of its dotted key, such
    as ``head.options.rho``.

    Args:
        folder: A folder of runs at any depth, a run, or several of these.

    Raises:
        UserError: If a folder does not exist, or holds no run.

    Example:
        >>> import tempfile, edgemask as em
        >>> folder = tempfile.mkdtemp()
        >>> for rho in (0.3, 0.5):
        ...     run = em.fit("digits", noise="sym:0.4", head=f"sem(rho={rho})", epochs=1,
        ...                  model="mlp(hidden=[8])", out=f"{folder}/{rho}")
        >>> runs = em.load_runs(folder)
        >>> runs[["name", "head", "noise", "seed", "finished", "head.options.rho"]]
          name head    noise  seed  finished  head.options.rho
        0  0.3  sem  sym:0.4     0      True               0.3
        1  0.5  sem  sym:0.4     0      True               0.5
        >>> means = runs.groupby("setting")["accuracy_last"].agg(["mean", "std"])
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "app", "for a frame of runs", error) from error
    paths = [folder] if isinstance(folder, str | Path) else folder
    read = [_read(path) for path in find_runs(paths)]
    runs = [run for run, _ in read]
    setting = {run.path: group.label for group in group_runs(runs) for run in group.runs}
    configs = [experiment_settings(run.config) for run in runs]
    further = _differing(configs)
    rows = [
        {
            **_facts(run),
            "setting": setting[run.path],
            **_outcome(run),
            "problems": " ".join(problems),
            **{key: config.get(key) for key in further},
        }
        for (run, problems), config in zip(read, configs, strict=True)
    ]
    return pd.DataFrame(rows)


def _read(folder: Path) -> tuple[RunRecord, list[str]]:
    """Return the config, summary and metrics of a run; its arrays are not read."""
    problems: list[str] = []
    schema = 1
    config: dict[str, Any] = {}
    summary: dict[str, Any] = {}
    try:
        schema, config = read_config(folder)
    except UserError as error:
        problems.append(str(error))
    if (folder / "summary.json").is_file():
        try:
            summary = read_summary(folder)
        except UserError as error:
            problems.append(str(error))
    history = tuple(read_history(folder, problems))
    record = RunRecord(path=folder, schema=schema, config=config, summary=summary, history=history)
    return record, problems


def _facts(run: RunRecord) -> dict[str, Any]:
    settings = experiment_settings(run.config)
    parts = {name: settings.get(key, settings.get(name)) for name, key in _PARTS.items()}
    return {
        "path": str(run.path),
        "name": run.name,
        "finished": run.finished,
        "epochs": len(run.history),
        "seed": run.seed,
        **parts,
        "noise_rate": noise_facts(run)["realised_rate"],
    }


def _outcome(run: RunRecord) -> dict[str, float | None]:
    accuracy = final_value(run, "test/accuracy")
    found = {f"accuracy_{way}": getattr(accuracy, way) for way in _WAYS}
    found["balanced_accuracy_last"] = final_value(run, "test/balanced_accuracy").last
    return {**found, "seconds": total_seconds(run)}


def _differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values are not the same everywhere, but those with a column."""
    keys = dict.fromkeys(key for config in configs for key in config)
    return [
        key
        for key in keys
        if key not in _PARTS.values()
        and not key.startswith("contents")
        and len({repr(config.get(key)) for config in configs}) > 1
    ]
