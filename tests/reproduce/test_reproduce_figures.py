"""What figures show, read from the lines that were drawn."""

from types import SimpleNamespace

import numpy as np
import pytest

from edgemask.reproduce import figures


def test_histograms_of_scores_are_shares_of_edges(tmp_path):
    column = SimpleNamespace(title="digits")
    runs, counts = [], {}
    for name in ("rms", "obd"):
        folder = tmp_path / name
        folder.mkdir()
        counts[name] = np.arange(1, 5) * (7 if name == "rms" else 3)
        histogram = np.stack([np.ones(4), counts[name]])
        np.savez(folder / "head.npz", histogram=histogram, edges=np.linspace(0, 1, 5))
        config = SimpleNamespace(head=SimpleNamespace(options={"criterion": name}))
        row = SimpleNamespace(titles=[name])
        cell = SimpleNamespace(row=row, column=column, seed=0)
        runs.append((cell, SimpleNamespace(path=folder, config=config, history=[])))
    plan = SimpleNamespace(finished=lambda experiment: runs)
    figure = figures._criteria(plan, SimpleNamespace(columns=[column]), [])
    stairs = {patch.get_label(): patch for patch in figure.axes[1].patches}
    assert set(stairs) == {"rms", "obd"}
    for name, patch in stairs.items():
        assert patch.get_data().values == pytest.approx(counts[name] / counts[name].sum())
