"""``edgemask explain``: every value of a recipe and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from edgemask.cli.names import complete
from edgemask.cli.options import Json, Set

if TYPE_CHECKING:
    from edgemask.engine import Config
    from edgemask.engine.recipes import Setting

__all__ = ["explain"]


def explain(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="Its name; `edgemask list recipes` shows all names.",
            autocompletion=complete("recipes"),
        ),
    ] = None,
    settings: Set = None,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Print a file for: edgemask train --config.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of a config file instead.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print every setting of a recipe (a published experiment) and where its value comes from."""
    from edgemask.cli.screen import print_json, print_table, say
    from edgemask.engine import dump_yaml, json_schema
    from edgemask.engine.recipes import explain_config
    from edgemask.errors import UserError

    if schema:
        print_json(json_schema())
        return
    if recipe is None:
        raise UserError("name a recipe to explain; edgemask list recipes shows them all")
    if as_json and as_yaml:
        raise UserError("--json and --yaml: choose one")
    config, sources = _composed(recipe, settings or [])
    if as_yaml:
        say(dump_yaml(config).rstrip())
        return
    rows = explain_config(config, sources)
    if as_json:
        print_json([{"key": k, "value": v, "source": s} for k, v, s in rows])
    else:
        print_table(
            ["setting", "value", "source"], [(k, _written(v), source) for k, v, source in rows]
        )


def _composed(name: str, assignments: list[str]) -> tuple[Config, dict[str, Setting]]:
    """Return the config of a recipe with settings on top, and the source of each value."""
    from edgemask.engine import RECIPES, assign, resolve
    from edgemask.engine.compose import join
    from edgemask.engine.recipes import Setting, flatten

    top = assign({}, assignments)
    values = join(name, top)
    given = {key: Setting(value, "--set") for key, value in flatten(top).items()}
    settings = RECIPES[name].settings | given
    kept = {key: setting for key, setting in settings.items() if key in flatten(values)}
    return resolve(values), kept


def _written(value: object) -> str:
    return "null" if value is None else str(value)
