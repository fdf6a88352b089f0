"""Write the generated parts of these pages anew, from the registries of the package.

A page marks such a part with two lines and says by name what belongs between them:

    <!-- generated:NAME -->
    <!-- /generated -->

A subpackage adds a part with a function that returns Markdown and one line in ``GENERATORS``. Run
``python docs/generate.py`` after a change (``--check`` only says whether the pages are up to date).
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent
MEASURED = PAGES.parent / "src" / "edgemask" / "methods" / "measured.toml"
MARKED = re.compile(r"<!-- generated:([\w-]+) -->\n.*?<!-- /generated -->", re.DOTALL)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; pipes inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    cells = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def docstring(entry: object) -> tuple[str, dict[str, str]]:
    """Return the text of a Google docstring before its sections, and its arguments by name."""
    text, _, rest = (inspect.getdoc(entry) or "").partition("\nArgs:\n")
    arguments: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if line and not line.startswith(" "):
            break
        start = re.match(r"    (\w+): (.*)", line)
        if start:
            name, arguments[start[1]] = start[1], start[2]
        elif line.strip():
            arguments[name] += " " + line.strip()
    body = re.split(r"\n\n(?:Attributes|Example|Shape|Reference):", text.strip())[0]
    return plain(body), {key: plain(value) for key, value in arguments.items()}


def plain(text: str) -> str:
    """Turn the reStructuredText of docstrings into Markdown."""
    text = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", text).replace("``", "`")
    return text.replace("::\n", ":\n")


def source(entry: object) -> str:
    """Return the reference of a docstring in one line, or nothing."""
    found = re.search(r"\nReference:\s+(.+?)(?:\n\n|\Z)", inspect.getdoc(entry) or "", re.DOTALL)
    return " ".join(found[1].split()) if found else ""


def cards(entries: Mapping[str, Any], shared: Sequence[str] = (), own: str = "") -> str:
    """A card per entry, from its docstring: what it is, its formula, source and arguments.

    Args:
        entries: The functions or classes by name.
        shared: Arguments that all of them have.
        own: The source of an entry that names none.
    """
    parts = []
    for name, entry in entries.items():
        text, meanings = docstring(entry)
        parameters = inspect.signature(entry).parameters
        rows = [
            [f"`{key}`", _default(parameters[key]), meaning]
            for key, meaning in meanings.items()
            if key not in shared and key in parameters
        ]
        parts += [f"### `{name}`", text, f"- Source: {source(entry) or own}"]
        parts += [table(["argument", "default", "meaning"], rows)] if rows else []
    return "\n\n".join(parts)


def _default(parameter: inspect.Parameter) -> str:
    required = parameter.default is inspect.Parameter.empty
    return "required" if required else f"`{parameter.default!r}`"


def yes(flag: bool) -> str:
    """Return yes or no."""
    return "yes" if flag else "no"


def loss_table() -> str:
    """Every loss in a line."""
    from edgemask.losses import LOSSES

    summaries = LOSSES.summaries()
    return table(
        ["name", "loss", "symmetric", "bounded", "needs `index`"],
        [
            [
                ", ".join(f"`{each}`" for each in [name, *LOSSES.aliases_of(name)]),
                summaries[name].rstrip("."),
                yes(entry.symmetric),
                yes(entry.bounded),
                yes(entry.needs_index),
            ]
            for name, entry in LOSSES.items()
        ],
    )


def loss_cards() -> str:
    """A card per loss: paper, formula, arguments, defaults."""
    from edgemask.losses import LOSSES

    return "\n\n".join(_loss_card(name, entry) for name, entry in LOSSES.items())


def _loss_card(name: str, entry: type) -> str:
    from edgemask.losses import Loss

    text, arguments = docstring(entry)
    rows = []
    for key, parameter in inspect.signature(entry).parameters.items():
        if key in inspect.signature(Loss).parameters:  # explained once for all
            continue
        rows.append([f"`{key}`", _default(parameter), arguments[key]])
    facts = [
        f"- Loss of one sample: `{entry.equation}`",
        f"- Paper: {entry.reference}",
        f"- Symmetric: {yes(entry.symmetric)}; bounded: {yes(entry.bounded)}",
    ]
    heading = f"### `{name}`: {entry.__name__}"
    options = [table(["argument", "default", "meaning"], rows)] if rows else []
    return "\n\n".join([heading, text, "\n".join(facts), *options])


def loss_presets() -> str:
    """Every published entry in a line."""
    from edgemask.losses.presets import published

    return table(
        ["source", "loss", "dataset", "noise", "arguments", "L1", "L2", "lr", "epochs"],
        [
            [
                source,
                f"`{entry.loss}`",
                entry.dataset,
                noise,
                ", ".join(f"{key}={value:g}" for key, value in entry.params.items()) or "none",
                f"{entry.l1:g}",
                f"{entry.weight_decay:g}",
                f"{entry.lr:g}",
                entry.epochs,
            ]
            for source, noise, entry in published()
        ],
    )


def head_table() -> str:
    """Every head in a line."""
    from edgemask.heads import HEADS

    rows = []
    for name, entry in HEADS.items():
        summary = "A plain linear layer" if name == "linear" else HEADS.summaries()[name]
        rows.append([f"`{name}`", f"`{entry.__name__}`", plain(summary).rstrip(".")])
    return table(["name", "class", "what"], rows)


def head_cards() -> str:
    """A card per head."""
    from edgemask.heads import HEADS

    heads = {name: entry for name, entry in HEADS.items() if name != "linear"}
    shared = ("in_features", "out_features", "bias", "device", "dtype")
    linear = "### `linear`\n\n`z = W v + b`, trained as it is.\n\n- Source: `torch.nn.Linear`"
    return f"{linear}\n\n" + cards(heads, shared, own="EdgeMask's own")


def noise_cards() -> str:
    """A card per kind of noise."""
    from edgemask.noise import NOISE

    own = "none; labels of your own"
    return cards(NOISE, ("labels", "num_classes", "seed", "root"), own)


def dataset_cards() -> str:
    """A card per dataset."""
    from edgemask.data import DATASETS

    return cards(DATASETS, ("root", "path"), "your own files")


def criteria_table() -> str:
    """Every criterion in a line."""
    from edgemask.heads import CRITERIA

    return table(
        ["criterion", "score of edge (j, k)"],
        [[f"`{name}`", rule.summary] for name, rule in CRITERIA.items()],
    )


def policy_table() -> str:
    """Every policy in a line."""
    from edgemask.heads import POLICIES

    rows = []
    for name, summary in POLICIES.summaries().items():
        options = ", ".join(
            f"{key}={parameter.default}"
            for key, parameter in inspect.signature(POLICIES[name]).parameters.items()
        )
        rows.append([f"`{name}({options})`" if options else f"`{name}`", summary.rstrip(".")])
    return table(["policy", "what"], rows)


def model_table() -> str:
    """Every own model in a line, with its size at the input that it is published for."""
    import torch

    from edgemask.models import MODELS

    rows = []
    summaries = MODELS.summaries()
    for name, build in MODELS.items():
        shape = inspect.signature(build).parameters["input_shape"].default
        with torch.device("meta"):
            model = build(10, input_shape=shape)
        rows.append(
            [
                f"`{name}`",
                summaries[name].rstrip("."),
                "x".join(map(str, shape)),
                model.num_features,
                f"`{model.last_block}`" if model.last_block else "",
                model.pooling,
                f"{sum(p.numel() for p in model.parameters()):,}",
            ]
        )
    header = [
        "name",
        "model",
        "input",
        "features",
        "`last_block`",
        "`pooling`",
        "parameters, 10 classes",
    ]
    return table(header, rows)


def dataset_table() -> str:
    """Every dataset in a line."""
    from edgemask.data import DATASETS

    rows = []
    for name, summary in DATASETS.summaries().items():
        parameters = inspect.signature(DATASETS[name]).parameters
        options = [f"`{key}`" for key in parameters if key not in ("root", "path")]
        spec = f"{name}:PATH" if "path" in parameters else name
        rows.append([f"`{spec}`", plain(summary).rstrip("."), ", ".join(options)])
    return table(["spec", "what", "options"], rows)


def recipe_table() -> str:
    """Every recipe in a line: its source, steps and constants."""
    from edgemask.data.views import RECIPES, ViewRecipe

    def steps(entries: Iterable[object] | None) -> str:
        return "none" if entries is None else ", ".join(f"`{entry!r}`" for entry in entries)

    def files(recipe: ViewRecipe) -> str:
        if recipe.resize is None and recipe.crop == "random":
            return ""
        sides = "both sides" if recipe.square else "short side"
        scaled = f"{sides} x {recipe.resize:.4g}, " if recipe.resize and recipe.resize_first else ""
        return f"{scaled}{recipe.crop} crop"

    def numbers(values: Iterable[float] | None) -> str:
        return "of the data" if values is None else ", ".join(f"{value:g}" for value in values)

    rows = [
        [
            f"`{name}`",
            recipe.source,
            steps(recipe.weak + recipe.finish),
            steps(None if recipe.strong is None else recipe.strong + recipe.strong_finish)
            + (" (the first one before the weak steps)" if recipe.strong_first else ""),
            files(recipe),
            f"{numbers(recipe.mean)} / {numbers(recipe.std)}",
        ]
        for name, recipe in RECIPES.items()
    ]
    header = ["recipe", "source", "weak", "strong adds", "training files", "mean / std"]
    return table(header, rows)


def config_table() -> str:
    """Every key of a config in a line: its default and its meaning."""
    from edgemask.engine import Config, json_schema
    from edgemask.engine.config import to_dict

    schema = json_schema()

    def rows(own: dict[str, object], values: dict[str, object], prefix: str) -> list[list[str]]:
        found = []
        for name, entry in own["properties"].items():
            if "$ref" in entry:
                inner = schema["$defs"][entry["$ref"].rsplit("/", 1)[1]]
                found += rows(inner, values[name], f"{prefix}{name}.")
            else:
                meaning = plain(" ".join(entry["description"].split()))
                found.append([f"`{prefix}{name}`", f"`{values[name]}`", meaning])
        return found

    return table(["key", "default", "meaning"], rows(schema, to_dict(Config()), ""))


def schedule_table() -> str:
    """Every learning-rate schedule in a line."""
    from edgemask.engine.schedules import SCHEDULES

    rows = []
    for name, summary in SCHEDULES.summaries().items():
        parameters = inspect.signature(SCHEDULES[name]).parameters.values()
        options = [
            f"`{p.name}`" if p.default is p.empty else f"`{p.name}={p.default}`"
            for p in parameters
            if p.name != "epochs"
        ]
        rows.append([f"`{name}`", plain(summary).rstrip("."), ", ".join(options)])
    return table(["name", "schedule", "options"], rows)


def training_recipe_table() -> str:
    """The training recipes by dataset."""
    from edgemask.engine import RECIPES

    names: dict[str, list[str]] = {}
    for name in RECIPES:
        dataset, _, rest = name.partition("/")
        names.setdefault(dataset, []).append(rest)
    rows = [
        [f"`{dataset}/`", ", ".join(f"`{rest}`" for rest in own)] for dataset, own in names.items()
    ]
    return table(["dataset", "recipes"], rows)


def command_overview() -> str:
    """Every verb in a line."""
    return table(
        ["command", "what it does"],
        [[f"`edgemask {words}`", summary(verb)] for words, verb in verbs()],
    )


def command_options() -> str:
    """Every verb with its arguments and options."""
    parts = []
    for words, verb in verbs():
        rows = []
        for parameter in verb.params:
            if parameter.name == "help":
                continue
            names = [*parameter.opts, *parameter.secondary_opts]
            given = parameter.param_type_name == "argument"
            shown = [parameter.metavar or str(parameter.name)] if given else names
            metavar = "" if given or getattr(parameter, "is_flag", False) else parameter.metavar
            called = ", ".join(shown) + (f" {metavar}" if metavar else "")
            rows.append([f"`{called}`", getattr(parameter, "help", None) or ""])
        parts.append(f"### `edgemask {words}`\n\n{plain(summary(verb))}")
        if rows:
            parts.append(table(["argument", "meaning"], rows))
    return "\n\n".join(parts)


def verbs() -> list[tuple[str, Any]]:
    """Return the commands of the command line, those of a group each by itself."""
    from typer.main import get_command

    from edgemask.cli.app import app

    found: list[tuple[str, Any]] = []
    for name, verb in get_command(app).commands.items():
        inner = getattr(verb, "commands", None)
        found += (
            [(f"{name} {word}", one) for word, one in inner.items()] if inner else [(name, verb)]
        )
    return found


def summary(verb: Any) -> str:
    """Return the first paragraph of a command's help."""
    return inspect.cleandoc(verb.help).split("\n\n")[0].replace("\n", " ")


def method_table() -> str:
    """Every method in a line, with the passes of one step."""
    from edgemask.methods import METHODS, Method

    rows = []
    summaries = METHODS.summaries()
    for name, method in METHODS.items():
        passes = [f"{phase}: {made}" for phase, made in method.passes().items()]
        nets = [*method.networks, *(f"{copy} (follows)" for copy in method.copies)]
        rows.append(
            [
                f"`{name}`",
                plain(summaries[name].rstrip(".")),
                ", ".join(nets),
                method.needs,
                "; ".join(passes),
                yes(method.uses_criterion and method.loss is None),
                yes(method.trust is not Method.trust),
            ]
        )
    header = ["name", "method", "networks", "needs to know", "forward / backward"]
    return table([*header, "takes `--loss`", "own trust"], rows)


def method_results() -> str:
    """Every method's row of the experiment ``methods``: linear head / SEM head."""
    rows = [
        [f"`{name}`", *(line.get(key, "not run") for key in METHOD_NUMBERS)]
        for name, line in measured_methods().items()
    ]
    header = ["name", "accuracy", "selection precision", "selection recall", "cost over CE"]
    return table(header, rows)


METHOD_NUMBERS = ("accuracy", "precision", "recall", "cost")


def measured_methods() -> dict[str, dict[str, str]]:
    """Return what ``results/laptop/methods.json`` holds of each method, as texts."""
    from edgemask.methods import METHODS

    stored = PAGES.parent / "results" / "laptop" / "methods.json"
    runs = json.loads(stored.read_text(encoding="utf-8"))["results"] if stored.is_file() else []
    by_row = {run["row"]: run for run in runs}
    plain = by_row.get("supervised", {}).get("cpu_seconds_per_epoch")

    def numbers(row: str) -> dict[str, str]:
        run = by_row.get(row)
        if run is None:
            return {}
        last, time = run["last_epoch"], run["cpu_seconds_per_epoch"]
        shares = {
            "accuracy": run["value"],
            "precision": last.get("selection/precision"),
            "recall": last.get("selection/recall"),
        }
        cost = {"cost": f"{time / plain:.1f}"} if time and plain else {}
        return {key: f"{100 * value:.1f}" for key, value in shares.items() if value} | cost

    lines = {}
    for name in METHODS:
        heads = [numbers(name), numbers(f"{name}-sem")]
        lines[name] = {
            key: " / ".join(head.get(key, "not run") for head in heads)
            for key in METHOD_NUMBERS
            if any(heads)
        }
    return lines


def measured_file() -> str:
    """Return the file that ``edgemask list methods`` reads: the same numbers, in the package."""
    lines = ["# Written by docs/generate.py from results/laptop/methods.json: linear / SEM head."]
    for name, line in measured_methods().items():
        if line:
            lines += ["", f"[{name}]", *(f'{key} = "{text}"' for key, text in line.items())]
    return "\n".join(lines) + "\n"


def method_options() -> str:
    """The paper and the options of every method."""
    from edgemask.methods import METHODS

    parts = []
    for name, method in METHODS.items():
        _, arguments = docstring(method)
        rows = [
            [f"`{key}`", f"`{parameter.default!r}`", arguments[key]]
            for key, parameter in inspect.signature(method).parameters.items()
        ]
        parts += [f"### `{name}`", f"- Paper: {source(method)}"]
        parts += [table(["option", "default", "meaning"], rows)] if rows else []
    return "\n\n".join(parts)


def results() -> str:
    """The tables that were made by ``edgemask reproduce`` into the folder ``results``."""
    from edgemask.reproduce import EXPERIMENTS, PRESETS

    folder = PAGES.parent / "results"
    parts = []
    for preset in PRESETS:
        for name in EXPERIMENTS:
            made = folder / preset / f"{name}.md"
            if not made.is_file():
                continue
            parts += [f"## {name}, preset {preset}", made.read_text(encoding="utf-8").strip()]
            if made.with_suffix(".png").is_file():
                parts.append(f"![{name}](../results/{preset}/{name}.png)")
    return "\n\n".join(parts) or "Nothing has been run so far."


def results_overview() -> str:
    """How much of every experiment was run, with a link to its table."""
    from edgemask.reproduce import EXPERIMENTS, PRESETS

    rows = []
    for name, experiment in EXPERIMENTS.items():
        if experiment.measure is not None:
            continue
        title, _, _ = experiment.title.partition(",")
        cells = {(row.key, c.key) for row, c in experiment.cells() if row.system is not None}
        for preset in PRESETS:
            made = PAGES.parent / "results" / preset / f"{name}.json"
            if made.is_file():
                done = json.loads(made.read_text(encoding="utf-8"))["results"]
                link = f"[{name}](result-tables.md#{name}-preset-{preset})"
                count = len({(r["row"], r["column"]) for r in done} & cells)
                rows.append([link, title, preset, f"{count} of {len(cells)}", str(len(done))])
                break
        else:
            rows.append([name, title, "", f"0 of {len(cells)}", "0"])
    return table(["experiment", "what it is", "preset", "cells that were run", "results"], rows)


def scale() -> str:
    """What every method keeps and exchanges (:mod:`scale_table` measures it)."""
    sys.path.insert(0, str(PAGES))
    try:
        from scale_table import scale_table
    finally:
        sys.path.remove(str(PAGES))
    return scale_table(table)


def scale_measured() -> str:
    """What ``benchmarks/scale.py`` has stored."""
    stored = PAGES.parent / "results" / "scale.json"
    if not stored.is_file():
        return "Nothing has been run so far."
    parts = json.loads(stored.read_text(encoding="utf-8"))
    folder = parts.pop("folder", None)
    tables = []
    for part, lines in parts.items():
        by_sizes: dict[tuple[int, ...], list[list[str]]] = {}
        for name, line in lines.items():
            by_sizes.setdefault(tuple(line["sizes"]), []).append(
                [
                    name,
                    *(
                        f"{s:g} s, {m:,.0f} MB"
                        for s, m in zip(line["seconds"], line["megabytes"], strict=True)
                    ),
                    f"{line['exponent']:g} / {line['memory_exponent']:g}",
                ]
            )
        for sizes, rows in by_sizes.items():
            header = [part, *(f"{size:,}" for size in sizes), "exponent of time / memory"]
            tables.append(table(header, rows))
    if folder is None:
        return "\n\n".join(tables)
    tables.append(
        f"An image folder of {folder['paths']:,} paths opened in {folder['passed']:.0f} s "
        f"({folder['seconds']:.0f} s of the processor, {folder['megabytes']:,.0f} MB)."
    )
    return "\n\n".join(tables)


GENERATORS: dict[str, Callable[[], str]] = {
    "criteria": criteria_table,
    "heads": head_table,
    "head-cards": head_cards,
    "noise-cards": noise_cards,
    "dataset-cards": dataset_cards,
    "policies": policy_table,
    "config": config_table,
    "schedules": schedule_table,
    "training-recipes": training_recipe_table,
    "datasets": dataset_table,
    "recipes": recipe_table,
    "loss-table": loss_table,
    "loss-cards": loss_cards,
    "loss-presets": loss_presets,
    "models": model_table,
    "command-overview": command_overview,
    "command-options": command_options,
    "method-table": method_table,
    "method-options": method_options,
    "method-results": method_results,
    "results": results,
    "results-overview": results_overview,
    "scale": scale,
    "scale-measured": scale_measured,
}


def render(page: str) -> str:
    """Return a page with its generated parts written anew."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name not in GENERATORS:
            raise KeyError(f"no generator {name!r}; known: {', '.join(GENERATORS)}")
        return f"<!-- generated:{name} -->\n{GENERATORS[name]()}\n<!-- /generated -->"

    return MARKED.sub(fill, page)


def stale(pages: Path = PAGES) -> dict[Path, str]:
    """Return the pages that are out of date, with what they should hold."""
    found = {}
    for path in sorted(pages.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        new = render(text)
        if new != text:
            found[path] = new
    if pages == PAGES:
        new = measured_file()
        if not MEASURED.is_file() or MEASURED.read_text(encoding="utf-8") != new:
            found[MEASURED] = new
    return found


def main() -> int:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    arguments = parser.parse_args()
    for path, text in (pages := stale()).items():
        print(f"{path}: {'out of date' if arguments.check else 'written'}")
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
    return int(arguments.check and bool(pages))


if __name__ == "__main__":
    sys.exit(main())
