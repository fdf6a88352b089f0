"""Presets: from a row and a column to the settings of a run, at full scale or smaller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgemask._registry import Registry
from edgemask.engine import RECIPES, merge
from edgemask.errors import UserError
from edgemask.reproduce.experiments import (
    ExperimentColumn,
    TrainedSystem,
    from_table,
    read_toml,
)

__all__ = ["PRESETS", "ExperimentPreset", "UnavailableError", "with_seed"]


class UnavailableError(UserError):
    """A cell that a preset does not have, with the reason."""


@dataclass(frozen=True, kw_only=True)
class ExperimentPreset:
    """A scale at which experiments are run; ``presets.toml`` explains the fields."""

    name: str
    summary: str
    source: str
    warning: str = ""
    """A warning that is printed with every number."""
    recipe: str = ""
    method_recipe: str
    only_datasets: str = ""
    only_supervised: str = ""
    without_noise: Mapping[str, str] = field(default_factory=dict)
    protocol: str = ""
    noise_of_real_data: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    datasets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.summary

    def cell_settings(self, system: TrainedSystem, column: ExperimentColumn) -> dict[str, Any]:
        """Return the settings of a cell, without seeds.

        Raises:
            UnavailableError: If the preset has no such cell.
        """
        if self.only_supervised and system.method != "supervised":
            raise UnavailableError(self.only_supervised.format(method=system.method))
        changes = self.methods.get(system.method) or self.datasets.get(column.dataset, {})
        head = {"name": system.head, "options": dict(system.head_options)}
        method = {"name": system.method, "options": dict(system.method_options)}
        settings = merge(
            self._recipe_settings(system, column),
            self.settings,
            changes,
            self.columns.get(column.key, {}),
            {"noise": self._noise(column)},
            {"head": head, "method": method, "log": {"trackers": []}},
            system.settings,
        )
        if self.only_datasets and column.dataset not in self.datasets:
            raise UnavailableError(self.only_datasets.format(dataset=column.dataset))
        other_head = column.settings.get("head", {}).get("name")
        if other_head is not None and other_head != system.head:
            settings["head"] = {}  # the options of one head mean nothing to another
        return merge(settings, column.settings)

    def _recipe_settings(
        self, system: TrainedSystem, column: ExperimentColumn
    ) -> Mapping[str, Any]:
        template = self.recipe if system.method == "supervised" else self.method_recipe
        if not template:
            return {"loss": {"name": system.loss}}
        dataset = column.dataset
        if system.recipe_of and "{dataset}" in template:
            dataset = system.recipe_of
        name = template.format(dataset=dataset, loss=system.loss, method=system.method)
        if name not in RECIPES:
            raise UnavailableError(f"there is no recipe {name}")
        layer = RECIPES[name].layer()
        return merge(layer, {"data": {"spec": column.dataset}}) if system.recipe_of else layer

    def _noise(self, column: ExperimentColumn) -> dict[str, str]:
        reason = self.without_noise.get(column.noise.partition(":")[0])
        if reason is not None:
            raise UnavailableError(reason)
        spec = column.noise
        if spec == "none" and self.noise_of_real_data and not column.dataset.startswith("cifar"):
            spec = self.noise_of_real_data
        return {"spec": spec, "protocol": self.protocol or column.protocol}


def with_seed(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return settings with the seeds of a run: weights, order, views, masks and noise, paired.

    Released code makes the noise of a trial from seed 123 and up (JAL), or always from 0 (NUST).
    """
    protocol = settings.get("noise", {}).get("protocol")
    noise_seed = {"jal": 123 + seed, "nust": 0}.get(protocol, seed)
    return merge(settings, {"train": {"seed": seed}, "noise": {"seed": noise_seed}})


PRESETS: Registry[ExperimentPreset] = Registry(
    "preset",
    {
        name: from_table(ExperimentPreset, table, f"presets.toml: {name}", name=name)
        for name, table in read_toml("presets.toml").items()
    },
)
