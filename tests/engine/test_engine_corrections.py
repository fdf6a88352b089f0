"""Corrections in a run: labels, identity, summary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import edgemask as em
from edgemask.engine.run_data import build_run_data
from edgemask.errors import UserError
from edgemask.runs import read_samples

QUICK = {"epochs": 1, "settings": {"log": {"trackers": []}}}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (root / name).mkdir()
        for number in range(10):
            pixels = rng.integers(0, 255, (8, 8, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


def _rows(photos: Path) -> tuple[list[dict[str, str]], set[str]]:
    """Return three decisions about training samples and one about a test sample, and its name."""
    bundle = em.data.load(f"imagefolder:{photos}")
    names = [name for name in bundle.train.names or () if name.startswith("cat/")]
    tested = next(name for name in bundle.test.names or () if name.startswith("cat/"))
    actions = zip((*names[:3], tested), ("keep", "relabel", "drop", "relabel"), strict=True)
    rows = [
        {"id": name, "action": action, "label": "dog" if action == "relabel" else ""}
        for name, action in actions
    ]
    return rows, {tested}


def test_a_run_trains_and_tests_on_corrected_labels(photos: Path, tmp_path: Path) -> None:
    rows, _ = _rows(photos)
    spec = f"imagefolder:{photos}"
    run = em.fit(spec, corrections=rows, out=tmp_path / "run", **QUICK)
    samples = read_samples(run.path)
    given = dict(zip(samples["name"].tolist(), samples["given"].tolist(), strict=True))
    assert len(given) == 15
    assert rows[2]["id"] not in given
    assert given[rows[0]["id"]] == 0
    assert given[rows[1]["id"]] == 1
    reviewed = dict(zip(samples["name"].tolist(), samples["reviewed"].tolist(), strict=True))
    assert [name for name, done in reviewed.items() if done] == [rows[0]["id"], rows[1]["id"]]
    assert run.summary["corrections"] == {
        "kept": 1,
        "relabelled": 2,
        "dropped": 1,
        "before": [10, 10],
        "after": [7, 12],
        "changes": [[0, 1, 2]],
    }
    plan = em.fit(spec, corrections=rows, dry_run=True)
    objects = em.engine.Objects(corrections=em.audit.read_corrections(rows))
    data = build_run_data(plan.config, objects)
    assert sorted(data.tests["test"].labels.tolist()) == [0, 1, 1, 1]


def test_test_samples_without_names_are_called_by_their_set() -> None:
    rows = [{"id": "test 5", "action": "drop"}, {"id": 3, "action": "drop"}]
    plan = em.fit("digits", corrections=rows, dry_run=True).plan
    assert plan is not None
    assert (plan["training samples"], plan["test samples"]) == (1437, 358)

    class Samples:
        targets = np.arange(40) % 2

        def __len__(self) -> int:
            return 40

        def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
            return torch.full((3,), float(place)), place % 2

    plan = em.fit(Samples(), test=Samples(), corrections=rows, dry_run=True).plan
    assert plan is not None
    assert (plan["training samples"], plan["test samples"]) == (39, 39)


def test_validation_samples_are_the_same_with_and_without(photos: Path) -> None:
    rows, _ = _rows(photos)
    spec = f"imagefolder:{photos}"
    plain = em.fit(spec, validation=0.25, dry_run=True)
    fixed = em.fit(spec, validation=0.25, corrections=rows, dry_run=True)
    objects = em.engine.Objects(corrections=em.audit.read_corrections(rows))
    before = build_run_data(plain.config, em.engine.Objects()).validation
    after = build_run_data(fixed.config, objects).validation
    assert before is not None
    assert after is not None
    assert set(before.names or ()) - set(after.names or ()) <= {rows[2]["id"]}
    assert set(after.names or ()) <= set(before.names or ())


def test_corrections_are_part_of_what_identifies_a_run(photos: Path, tmp_path: Path) -> None:
    rows, _ = _rows(photos)
    spec, file = f"imagefolder:{photos}", tmp_path / "corrections.csv"
    pd.DataFrame(rows).to_csv(file, index=False)

    def folder(corrections: object) -> Path:
        return em.fit(spec, corrections=corrections, dry_run=True).path

    def ending(corrections: object) -> str:
        return folder(corrections).name.rpartition("-")[2]

    assert ending(file) == ending(str(file)) == ending(rows) == ending(pd.DataFrame(rows[::-1]))
    assert len({ending(None), ending(rows), ending(rows[:3]), ending([])}) == 4
    run = em.fit(spec, corrections=file, out=tmp_path / "run", **QUICK)
    assert em.fit(spec, corrections=rows, out=tmp_path / "run", **QUICK).path == run.path
    pd.DataFrame(rows[:2]).to_csv(file, index=False)
    with pytest.raises(UserError, match="corrections"):
        em.fit(spec, corrections=file, out=tmp_path / "run", **QUICK)


def test_mistakes_are_found_before_training(photos: Path, tmp_path: Path) -> None:
    spec = f"imagefolder:{photos}"
    rows, _ = _rows(photos)
    everything = [{"id": name, "action": "drop"} for name in em.data.load(spec).train.names or ()]
    for corrections, words in (
        ([{"id": "cat/99.png", "action": "keep"}], "no sample 'cat/99.png'"),
        ([rows[1] | {"label": "cow"}], "no class 'cow'"),
        (tmp_path / "none.csv", "no such file"),
        (everything, "drop every training sample"),
    ):
        with pytest.raises(UserError, match=words):
            em.fit(spec, corrections=corrections, out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run" / "config.yaml").exists()
