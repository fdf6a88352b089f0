"""Values and gradients of the official implementations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from edgemask import losses
from sweeps import sweep

GOLDEN = Path(__file__).parents[1] / "golden" / "losses.json"
DATA = json.loads(GOLDEN.read_text())

# Official name: the loss here, and its arguments by the official modules' names.
ACTIVE_NEGATIVE = {"alpha": "alpha", "beta": "beta"}
LOSSES: dict[str, tuple[str, dict[str, str]]] = {
    "CE": ("ce", {}),
    "ce": ("ce", {}),
    "FL": ("focal", {"gamma": "gamma"}),
    "fl": ("focal", {"gamma": "gamma"}),
    "MAE": ("mae", {"scale": "scale"}),
    "mae": ("mae", {}),
    "MSE": ("mse", {}),
    "GCE": ("gce", {"q": "q"}),
    "gce": ("gce", {"q": "q"}),
    "RCE": ("rce", {"scale": "scale"}),
    "SCE": ("sce", {"alpha": "a", "beta": "b"}),
    "sce": ("sce", {"alpha": "alpha", "beta": "beta"}),
    "NCE": ("nce", {"scale": "scale"}),
    "NFL": ("nfl", {"gamma": "gamma", "scale": "scale"}),
    "AEL": ("ael", {"a": "a", "scale": "scale"}),
    "AUL": ("aul", {"a": "a", "q": "q", "scale": "scale"}),
    "AGCE": ("agce", {"a": "a", "q": "q", "scale": "scale"}),
    "AMSE": ("amse", {"a": "a", "scale": "scale"}),
    "NNFL": ("nnfl", {"gamma": "gamma", "min_prob": "min_prob"}),
    "nnfl": ("nnfl", {"gamma": "gamma", "min_prob": "min_prob"}),
    "nnce": ("nnce", {"min_prob": "min_prob"}),
    "LDR": ("ldr", {"margin": "threshold", "temperature": "Lambda"}),
    "CEandLC": ("ce+lc", {"delta": "delta"}),
    "NFLandRCE": ("nfl+rce", {"alpha": "nfl.scale", "beta": "rce.scale", "gamma": "nfl.gamma"}),
    "NCEandMAE": ("nce+mae", {"alpha": "nce.scale", "beta": "mae.scale"}),
    "NCEandRCE": ("nce+rce", {"alpha": "nce.scale", "beta": "rce.scale"}),
    "NCEandAGCE": (
        "nce+agce",
        {"alpha": "nce.scale", "beta": "agce.scale", "a": "agce.a", "q": "agce.q"},
    ),
    "NCEandAUL": (
        "nce+aul",
        {"alpha": "nce.scale", "beta": "aue.scale", "a": "aue.a", "q": "aue.q"},
    ),
    "NCEandAEL": ("nce+ael", {"alpha": "nce.scale", "beta": "aue.scale", "a": "aue.a"}),
    "NCEandAMSE": ("jal-ce", {"alpha": "loss1.scale", "beta": "loss2.scale", "a": "loss2.a"}),
    "NFLandAMSE": (
        "jal-fl",
        {"alpha": "loss1.scale", "beta": "loss2.scale", "a": "loss2.a", "gamma": "loss1.gamma"},
    ),
    "NCEandNNCE": ("anl-ce", {**ACTIVE_NEGATIVE, "min_prob": "nnce.min_prob"}),
    "NFLandNNFL": (
        "anl-fl",
        {**ACTIVE_NEGATIVE, "gamma": "nfl.gamma", "min_prob": "nnfl.min_prob"},
    ),
    "anl_ce": ("anl-ce", {**ACTIVE_NEGATIVE, "min_prob": "negative_loss.min_prob"}),
    "anl_fl": (
        "anl-fl",
        {**ACTIVE_NEGATIVE, "gamma": "active_loss.gamma", "min_prob": "negative_loss.min_prob"},
    ),
    "anl_ce_er": ("anl-ce-er", {**ACTIVE_NEGATIVE, "min_prob": "min_prob", "entropy": "lamb"}),
    "nce_ael": ("nce+ael", {**ACTIVE_NEGATIVE, "a": "passive_loss.a"}),
    "nce_agce": ("nce+agce", {**ACTIVE_NEGATIVE, "a": "passive_loss.a", "q": "passive_loss.q"}),
    "nce_aul": ("nce+aul", {**ACTIVE_NEGATIVE, "a": "passive_loss.a", "q": "passive_loss.q"}),
    "nce_mae": ("nce+mae", ACTIVE_NEGATIVE),
    "nce_rce": ("nce+rce", ACTIVE_NEGATIVE),
    "nfl_rce": ("nfl+rce", {**ACTIVE_NEGATIVE, "gamma": "active_loss.gamma"}),
}
# These clip by a constant of their repository that their parameters do not show.
CLIPPED = {"gce", "rce", "sce", "nce+rce", "nfl+rce"}


def build(entry: dict[str, Any]) -> losses.Loss:
    """Build the loss here that the official module of an entry is."""
    params = entry["params"]
    if entry["loss"] == "NNCE":  # of one config it is the second half of a pair, with its weight
        key = "nnce.min_prob" if "beta" in params else "min_prob"
        return losses.build("nnce", min_prob=params[key], scale=params.get("beta", 1.0))
    name, names = LOSSES[entry["loss"]]
    options = {own: params[official] for own, official in names.items()}
    if name in CLIPPED:
        options["min_prob"] = 1e-8 if entry["repo"] == "cswjl/joint-asymmetric-loss" else 1e-7
    return losses.build(name, **options)


def identity(entry: dict[str, Any]) -> str:
    repository = entry["repo"].split("/")[1]
    height = entry["params"].get("a", "")
    return f"{repository}-{entry['config']}-{entry['loss']}{height}-{entry['input']}"


@sweep("entry", DATA["results"])
def test_value_and_gradient(entry: dict[str, Any]) -> None:
    given = DATA["inputs"][entry["input"]]
    dtype = getattr(torch, entry["dtype"])
    logits = torch.tensor(given["logits"], dtype=dtype).reshape(given["shape"]).requires_grad_()
    target = torch.tensor(given["labels"])
    criterion = build(entry)
    value = criterion(logits, target)
    value.backward()

    loose = entry["loss"].lower() in ("nnce", "nnfl") and "extreme" in entry["input"]
    assert value.item() == pytest.approx(entry["value"], rel=1e-5 if loose else 1e-6)
    expected = torch.tensor(entry["grad_logits"], dtype=dtype).reshape(logits.shape)
    loose = entry["loss"] == "anl_ce" and "extreme" in entry["input"]
    bound = (1e-5 if loose else 1e-6) * expected.abs().max()
    assert logits.grad is not None
    assert (logits.grad - expected).abs().max() <= bound
