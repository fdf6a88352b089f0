"""Tables that are measured or read from the recipes, not trained: S5 and S6."""

from __future__ import annotations

from collections.abc import Callable

from edgemask._registry import Registry
from edgemask.diagnostics import count_flops, count_parameters, latency
from edgemask.engine import RECIPES
from edgemask.report import Table, TableRow
from edgemask.reproduce.experiments import Experiment

__all__ = ["MEASURES"]

_COUNTED = (
    "FLOPs: convolutions and matrix products at two operations per multiply-add. The paper does "
    "not say what it counts; its number is close to a quarter of ours."
)
_S6_NOTE = (
    "ANL and JAL: the released code has an L1 term and no weight decay; the literal reading of the "
    "table is the recipe of the same name with /s6."
)


def _overhead(experiment: Experiment, *, quick: bool) -> Table:
    """Parameters, FLOPs and latency of ResNet-34 with a plain and with a SEM head."""
    import torch

    from edgemask.models import create

    width = 0.125 if quick else 1.0
    nets = {
        row.key: create("resnet34", 100, width=width, head=row.system.head)
        for row in experiment.rows
        if row.system is not None
    }
    x = torch.randn(1, 3, 32, 32)
    times = latency(nets["resnet34-sem"], nets["resnet34"], x, rounds=5 if quick else 30)
    measured = {
        "resnet34": times.plain_milliseconds,
        "resnet34-sem": times.milliseconds,
    }
    lines: list[TableRow] = []
    for row in experiment.rows:
        net = nets[row.key]
        paper = [experiment.paper[row.key, column.key].mean for column in experiment.columns]
        lines.append(
            [
                row.titles[0],
                f"{count_parameters(net) / 1e6:.2f}",
                f"{paper[0]:.2f}",
                f"{count_flops(net, (3, 32, 32)) / 1e9:.4f}",
                f"{paper[1]:.4f}",
                f"{measured[row.key]:.2f}",
                f"{paper[2]:.2f}",
            ]
        )
    ratio = f"Latency of one image on this CPU; SEM / plain {times.ratio:.3f} (median of turns)."
    notes = [_COUNTED, ratio, "The paper's latency is from an RTX 3090."]
    if quick:
        notes.append("Preset smoke: an eighth of the width.")
    return Table(
        ["backbone", "parameters (M)", "paper", "FLOPs (G)", "paper", "latency (ms)", "paper"],
        lines,
        caption=experiment.title,
        notes=notes,
    )


def _settings(experiment: Experiment, *, quick: bool) -> Table:
    """The settings of Table S6 beside those of the recipes, with their source."""
    del quick
    lines: list[TableRow] = []
    for name, printed in experiment.settings.items():
        if name not in RECIPES:
            lines.append([name, "", "", "no such recipe", ""])
            continue
        ours = {key: (value, source) for key, value, source in RECIPES[name].explain()}
        for key, paper in printed.items():
            value, source = ours[key]
            lines.append([name, key, str(paper), str(value), source])
    return Table(
        ["recipe", "setting", "paper", "ours", "source of ours"],
        lines,
        caption=experiment.title,
        notes=[_S6_NOTE],
        text_columns=5,
    )


Measure = Callable[..., Table]
MEASURES: Registry[Measure] = Registry("measure", {"overhead": _overhead, "settings": _settings})
