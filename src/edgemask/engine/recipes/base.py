"""What a recipe is: settings by dotted key, each with the place it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgemask.engine.config import Config, flatten, to_dict
from edgemask.engine.resolve import resolve
from edgemask.engine.schema import merge

__all__ = [
    "DEFAULT",
    "PAPER",
    "S6",
    "Recipe",
    "Setting",
    "explain_config",
    "method_recipe",
    "sourced",
    "with_sem",
]

S6 = "the paper, Table S6"
PAPER = "the paper, implementation details"
DEFAULT = "EdgeMask's default"


@dataclass(frozen=True)
class Setting:
    """One value of a config and where it comes from."""

    value: Any
    source: str


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A published (or our own) way to train, by name.

    Example:
        >>> recipe = Recipe(name="x", summary="x", settings={"train.epochs": Setting(3, "me")})
        >>> recipe.layer()
        {'train': {'epochs': 3}}
    """

    name: str
    """``dataset/loss-or-method[-head]``."""

    summary: str
    """What it is, in one line."""

    settings: Mapping[str, Setting]
    """Values by dotted key; a key of its own for each option (``loss.options.q``)."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.summary

    def layer(self) -> dict[str, Any]:
        """Return the settings as a nested mapping, to be joined with others by ``resolve``."""
        nested: dict[str, Any] = {}
        for key, setting in self.settings.items():
            layer: Any = setting.value
            for part in reversed(key.split(".")):
                layer = {part: layer}
            nested = merge(nested, layer)
        return nested

    def config(self, *layers: Mapping[str, Any]) -> Config:
        """Return the resolved config, with further settings on top."""
        return resolve(self.layer(), *layers)

    def explain(self) -> list[tuple[str, Any, str]]:
        """Return every resolved value with its source."""
        return explain_config(self.config(), self.settings)

    def but(
        self, *, name: str, summary: str | None = None, settings: Mapping[str, Setting]
    ) -> Recipe:
        """Return a recipe that differs in some settings."""
        joined = {**self.settings, **settings}
        return Recipe(name=name, summary=summary or self.summary, settings=joined)


def explain_config(config: Config, settings: Mapping[str, Setting]) -> list[tuple[str, Any, str]]:
    """Return every value of a config with its source: a setting's, or the default."""
    rows = []
    for key, value in flatten(to_dict(config)).items():
        setting = settings.get(key)
        same = setting is not None and setting.value == value
        rows.append((key, value, setting.source if same and setting is not None else DEFAULT))
    return rows


def sourced(values: Mapping[str, Any], source: str) -> dict[str, Setting]:
    """Return settings that all come from one place."""
    return {key: Setting(value, source) for key, value in values.items()}


def method_recipe(
    dataset: str, method: str, values: Mapping[str, Any], source: str, *, loss: str | None = None
) -> Recipe:
    """Return the recipe ``<dataset>/<method>``.

    Args:
        dataset: What is trained on.
        method: The method, by name.
        values: Settings by dotted key.
        source: Where they come from.
        loss: The loss of the method, where it has a say.
    """
    own = {"loss.preset": Setting(None, f"EdgeMask: {method} has losses of its own")}
    if loss is not None:
        own = {
            "loss.name": Setting(loss, "EdgeMask"),
            "loss.preset": Setting(None, "EdgeMask: no setting of the loss stays hidden"),
        }
    return Recipe(
        name=f"{dataset}/{method}",
        summary=f"{method} on {dataset}",
        settings={
            "data.spec": Setting(dataset, "EdgeMask"),
            "method.name": Setting(method, "EdgeMask"),
            **own,
            **sourced(values, source),
        },
    )


def with_sem(plain: Recipe) -> Recipe:
    """Return the recipe ``<name>-sem``: the same, with the SEM head as the paper sets it."""
    return plain.but(
        name=f"{plain.name}-sem",
        summary=f"{plain.summary}, with the SEM head",
        settings={
            "head.name": Setting("sem", PAPER),
            "head.options.rho": Setting(0.5, PAPER),
            "head.options.beta": Setting(0.9, PAPER),
            "head.options.criterion": Setting("rms", "the paper, Eq. 13"),
            "head.options.policy": Setting("bernoulli", "the paper, Eq. 16"),
            "head.options.inference": Setting("dense", "the paper, Algorithm 1"),
            "head.options.scaling": Setting("none", "the paper, Algorithm 1"),
        },
    )
