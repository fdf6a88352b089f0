"""A recipe: settings by dotted key, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgemask.engine.config import Config, LossConfig, flatten, to_dict, unflatten
from edgemask.engine.resolve import published, registries, resolve, stored_name

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
    """Return every value of a config with its source: a setting, the loss's preset, or a default.

    Args:
        config: The resolved config.
        settings: What it was resolved from, by dotted key.
    """
    settings = {**_preset_of_loss(config, settings), **settings}
    rows = []
    for key, value in flatten(to_dict(config)).items():
        setting = settings.get(key)
        source = DEFAULT
        if setting is not None and value in (setting.value, _stored(key, setting.value)):
            source = setting.source
        rows.append((key, value, source))
    return rows


def _preset_of_loss(config: Config, settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return what the config took from the published settings of its loss."""
    asked = settings["loss.preset"].value if "loss.preset" in settings else LossConfig().preset
    preset = published(config.loss.model_copy(update={"preset": asked}), config.data.spec)
    if preset is None:
        return {}
    values = {f"loss.options.{key}": value for key, value in preset.params.items()}
    if preset.l1:
        values["optim.l1"] = preset.l1
    source = f"the preset of the loss: {preset.source}"
    return {key: Setting(value, source) for key, value in values.items()}


def _stored(key: str, value: Any) -> Any:
    """Return the name under which a config stores a part that a setting names by an alias."""
    section, _, last = key.partition(".")
    return stored_name(section, value) if last == "name" and section in registries() else value
