"""A recipe: settings by dotted key, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgemask.engine.config import Config, flatten, to_dict, unflatten
from edgemask.engine.resolve import resolve
from edgemask.losses import LOSSES

__all__ = ["DEFAULT", "Recipe", "Setting", "explain_config"]

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

    settings: dict[str, Setting]
    """Values by dotted key; a key of its own for each option (``loss.options.q``)."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return self.summary

    def layer(self) -> dict[str, Any]:
        """Return the settings as a nested mapping, to be joined with others by ``resolve``."""
        return unflatten({key: setting.value for key, setting in self.settings.items()})

    def config(self, *layers: Mapping[str, Any]) -> Config:
        """Return the resolved config; further layers override the recipe."""
        return resolve(self.layer(), *layers)

    def explain(self) -> list[tuple[str, Any, str]]:
        """Return every resolved value with its source."""
        return explain_config(self.config(), self.settings)


def explain_config(config: Config, settings: Mapping[str, Setting]) -> list[tuple[str, Any, str]]:
    """Return every value of a config with its source: a setting's, or the default."""
    rows = []
    for key, value in flatten(to_dict(config)).items():
        setting = settings.get(key)
        kept = setting is not None and value in (setting.value, _listed_name(key, setting.value))
        rows.append((key, value, setting.source if kept and setting is not None else DEFAULT))
    return rows


def _listed_name(key: str, value: Any) -> Any:
    """Return the name under which a config stores a part that a setting names by an alias."""
    if key == "loss.name" and value in LOSSES:
        return LOSSES.stored_name(value)
    return value
