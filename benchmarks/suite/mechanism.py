"""Why does masking help? Settings of many kinds that slow a head down, add noise, or do neither.

Each setting has a kind, which is its colour in the picture, and arguments of :func:`edgemask.fit`.
``lr_factor`` multiplies the learning rate of the problem.
"""

from __future__ import annotations

from typing import Any

import controls  # noqa: F401 - registers its heads

Setting = tuple[str, dict[str, Any]]

KEEP = (0.5, 0.35, 0.2, 0.1)

SETTINGS: dict[str, Setting] = {
    "linear": ("plain", {"loss": "ce"}),
    **{f"logits x {s}": ("scale", {"head": f"scaled(scale={s})"}) for s in (0.3, 0.1, 0.03)},
    **{f"cooling {s}": ("cooling", {"head": f"cooling(least={s})"}) for s in (0.2, 0.1)},
    **{f"lr x {f}": ("learning rate", {"loss": "ce", "lr_factor": f}) for f in (0.3, 0.1, 0.03)},
    **{
        f"edges {q} unscaled": (
            "chance, unscaled",
            {"head": f"dropconnect(p={1 - q:g}, scaling=none)"},
        )
        for q in KEEP
    },
    **{
        f"edges {q} scaled": ("chance, scaled", {"head": f"dropconnect(p={1 - q:g})"}) for q in KEEP
    },
    **{f"features {q} scaled": ("features", {"head": f"dropout(p={1 - q:g})"}) for q in KEEP},
    "sem": ("scores", {"head": "sem"}),
    "capped 0.3": ("scores", {"head": "sem(policy=capped(0.3))"}),
    "capped 0.1": ("scores", {"head": "sem(policy=capped(0.1))"}),
    **{
        f"as capped {cap}, {name}": (
            "matched",
            {"head": f"matched(cap={cap}, weighted={str(weighted).lower()})"},
        )
        for cap in (0.3, 0.1)
        for name, weighted in (("equal activation", True), ("equal edges", False))
    },
    **{f"head decay {d}": ("weight decay", {"head": f"decayed(decay={d})"}) for d in (0.1, 0.3)},
    **{f"row norm {b}": ("norm bound", {"head": f"bounded(bound={b})"}) for b in (1.0, 0.3)},
    **{
        f"smoothing {e}": ("label smoothing", {"loss": f"label-smoothing(rate={e})"})
        for e in (0.1, 0.4, 0.8)
    },
}
