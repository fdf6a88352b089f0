"""Runs grouped by config: those of a group differ in nothing but their seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgemask.report.outcomes import final_value, last_value
from edgemask.report.tables import TableCell, spread
from edgemask.runs import RunRecord

__all__ = ["Group", "experiment_settings", "flatten", "group_runs"]

# Settings that are no part of an experiment: names, paths, logging, how the work is distributed.
_UNRELATED = {"name", "log", "data.root", "data.workers", "train.threads", "eval.batch_size"}
_PARTS = ("data", "noise", "model", "method", "loss", "head")


@dataclass(frozen=True)
class Group:
    """Runs of one config with different seeds."""

    label: str
    """What sets this config apart from the others on the page."""
    runs: tuple[RunRecord, ...]
    """All runs, by seed."""

    @property
    def counted(self) -> tuple[RunRecord, ...]:
        """The runs that means are taken over: the finished ones, or all where none is finished."""
        return tuple(run for run in self.runs if run.finished) or self.runs

    @property
    def finished(self) -> bool:
        """Whether at least one run reached its end."""
        return any(run.finished for run in self.runs)

    @property
    def representative(self) -> RunRecord:
        """The run whose details are shown for the group: the finished one of the lowest seed."""
        return self.counted[0]

    @property
    def repeated_seeds(self) -> bool:
        """Whether two of the runs share a seed, and so are not independent."""
        seeds = [run.seed for run in self.counted]
        return len(set(seeds)) < len(seeds)

    def final(self, key: str, way: str) -> TableCell:
        """Return mean ± std of an accuracy, with the count where it is not known of all runs."""
        values = (getattr(final_value(run, key), way) for run in self.counted)
        return spread(values, of=len(self.counted))

    def last(self, key: str) -> TableCell:
        """Return mean ± std of the last value of a metric, with the count where it is needed."""
        return spread((last_value(run, key) for run in self.counted), of=len(self.counted))


def group_runs(runs: Sequence[RunRecord]) -> list[Group]:
    """Group runs by config without seeds; order by data and noise, then by accuracy, best first."""
    bins: dict[str, list[RunRecord]] = {}
    for place, run in enumerate(runs):
        # A run without a config is like no other.
        key = _identity(run.config) if run.config else f"#{place}"
        bins.setdefault(key, []).append(run)
    members = [
        tuple(sorted(bin_, key=lambda run: (run.seed is None, run.seed or 0, str(run.path))))
        for bin_ in bins.values()
    ]
    labels = _labels([experiment_settings(bin_[0].config) for bin_ in members])
    groups = [
        Group(label or bin_[0].name, bin_) for label, bin_ in zip(labels, members, strict=True)
    ]
    return sorted(groups, key=_rank)


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested mapping as one level with dotted keys.

    Example:
        >>> flatten({"head": {"name": "sem", "rho": 0.5}, "name": "a"})
        {'head.name': 'sem', 'head.rho': 0.5, 'name': 'a'}
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def experiment_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that make an experiment by dotted key: no seeds, paths or logging."""
    return {
        key: value
        for key, value in flatten(config).items()
        if key.rpartition(".")[2] != "seed"
        and key not in _UNRELATED
        and key.partition(".")[0] not in _UNRELATED
    }


def _identity(config: Mapping[str, Any]) -> str:
    return json.dumps(experiment_settings(config), sort_keys=True, default=str)


def _rank(group: Group) -> tuple[str, str, bool, float, str]:
    flat = flatten(group.representative.config)
    accuracy = group.final("test/accuracy", "last").value
    return (
        str(flat.get("data.spec", flat.get("data", ""))),
        str(flat.get("noise.spec", flat.get("noise", ""))),
        not group.finished,
        -accuracy if isinstance(accuracy, float) else 1.0,
        group.label,
    )


def _labels(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each config by what differs: names of parts first, options where those do not tell."""
    labels = [""] * len(configs)
    clashes = [list(range(len(configs)))]
    while clashes:
        places = clashes.pop()
        if len(places) < 2:
            continue
        differing = [
            key
            for key in dict.fromkeys(key for place in places for key in configs[place])
            if len({repr(configs[place].get(key)) for place in places}) > 1
        ]
        names = sorted((key for key in differing if _is_name(key)), key=_place_in_label)
        if not differing:
            continue
        for place in places:
            words = [_word(key, configs[place]) for key in (names or differing[:1])]
            labels[place] = " · ".join(word for word in [labels[place], *words] if word)
        same: dict[str, list[int]] = {}
        for place in places:
            same.setdefault(labels[place], []).append(place)
        clashes += [together for together in same.values() if len(together) < len(places)]
    return labels


def _is_name(key: str) -> bool:
    return "." not in key or key.endswith((".name", ".spec"))


def _place_in_label(key: str) -> int:
    part = key.partition(".")[0]
    return _PARTS.index(part) if part in _PARTS else len(_PARTS)


def _word(key: str, config: Mapping[str, Any]) -> str:
    value = config.get(key)
    if key == "data.corrections":
        return "labels as given" if value is None else f"labels corrected by {value}"
    if _is_name(key):
        return str(value if value is not None else f"no {key.partition('.')[0]}")
    return f"{key.rpartition('.')[2]} {value if value is not None else 'default'}"
