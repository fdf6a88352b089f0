"""Audits of whole datasets: every sample, in folds or otherwise."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import edgemask as em
from edgemask import noise, runs
from edgemask.audit import LabelAudit
from edgemask.data import from_arrays, load
from edgemask.engine import audit_networks, audit_samples
from edgemask.engine.audit_matrices import read_matrix
from edgemask.engine.audit_networks import fold_numbers
from edgemask.engine.run_data import JoinedSplit, everything
from edgemask.errors import EdgeMaskWarning, UserError
from sweeps import sweep


def blobs(count=240, seed=0):
    """Features of three classes with 20 % of the labels wrong."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, count)
    x = (4 * np.eye(3, 5)[truth] + rng.normal(0, 0.8, (count, 5))).astype(np.float32)
    made = noise.make("sym:0.2", truth, 3, seed=seed)
    return x, made.noisy, made.noisy != made.clean


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Such features in a file."""
    x, given, wrong = blobs()
    path = tmp_path_factory.mktemp("table") / "blobs.npz"
    save(path, x, given)
    return path, given, wrong


def save(path, x, given):
    parts = {"x": x[:200], "y": given[:200], "x_test": x[200:], "y_test": given[200:]}
    np.savez(path, class_names=np.array(["a", "b", "c"]), **parts)


def test_progress_of_an_audit_says_what_is_left(table, tmp_path, monkeypatch):
    path, _, _ = table
    monkeypatch.setattr(audit_networks, "_QUIET", 0.0)
    lines = []
    options = {"folds": 2, "epochs": 40, "batch_size": 64, "out": tmp_path}
    em.audit_labels(f"npz:{path}", **options, message=lines.append)
    progress = [line for line in lines if line.endswith("left")]
    assert progress[0].startswith("network 1 of 2, epoch 1 of 40; about ")
    assert progress[-1].startswith("network 2 of 2, epoch ")
    assert 15 <= len(progress) <= 21


def test_every_sample_is_judged_and_the_same_call_goes_on(table, tmp_path):
    path, given, wrong = table
    lines = []
    options = {"folds": 3, "epochs": 12, "batch_size": 16, "out": tmp_path, "message": lines.append}
    audit = em.audit_labels(f"npz:{path}", **options)
    assert audit.ids == [*map(str, range(200)), *(f"test {row}" for row in range(40))]
    assert (audit.given == given).all()
    assert "240 samples, 3 classes; 3 folds: mlp, 12 epochs each; about" in lines[0]
    assert [line.partition(":")[0] for line in lines[1:3]] == ["trees", "linear"]
    assert "labels look worth checking, first of all" in lines[3]
    assert re.search(r"these models disagree with [12]\d % of the labels", lines[3])  # 20 % wrong
    assert wrong[audit.listed].mean() > 0.9
    assert audit.listed[wrong].mean() > 0.8
    assert audit.rate.models == 3
    assert audit.rate.kind == "cannot tell"  # too few samples for a lower end
    assert (LabelAudit.load(tmp_path).order == audit.order).all()
    facts = runs.read_audit(tmp_path).facts
    assert facts["data"] == f"npz:{path}"
    numbers = np.load(tmp_path / "folds.npy")
    assert set(numbers) == {0, 1, 2}
    # Each sample was judged by a network that had not seen it.
    for fold in range(3):
        (folder,) = (tmp_path / "runs").glob(f"fold-{fold}-*")
        assert not set(runs.read_samples(folder)["index"]) & set(np.flatnonzero(numbers == fold))
    kept = runs.read_arrays(tmp_path / "probabilities.npz")
    assert set(kept) == {"ids", "network", "trees", "linear"}
    # Again: nothing is trained, and the result is the same.
    lines.clear()
    again = em.audit_labels(f"npz:{path}", **options)
    assert "all trained before" in lines[0]
    assert (again.order == audit.order).all()
    # What was written judges the same labels elsewhere.
    other = em.audit_labels(f"npz:{path}", probabilities=tmp_path / "probabilities.npz")
    np.testing.assert_allclose(other.trust, audit.trust, atol=1e-6)


@pytest.mark.long
def test_worker_processes_give_the_same_result(table, tmp_path):
    path, _, _ = table
    options = {"folds": 2, "epochs": 2}
    alone = em.audit_labels(f"npz:{path}", out=tmp_path / "one", **options)
    many = em.audit_labels(f"npz:{path}", out=tmp_path / "two", jobs=2, **options)
    assert (alone.order == many.order).all()


def test_arrays_are_written_for_worker_processes(tmp_path):
    x, given, _ = blobs(120)
    names = np.array(["ant", "bee", "cat"])[given]
    options = {"folds": 2, "epochs": 2}
    alone = em.audit_labels(x, names, **options)
    many = em.audit_labels(x, names, jobs=2, out=tmp_path, **options)
    assert (alone.order == many.order).all()
    assert (alone.trust == many.trust).all()
    assert many.ids == alone.ids
    assert many.data == f"npz:{tmp_path.resolve()}/arrays.npz"
    with np.load(tmp_path / "arrays.npz") as file:
        assert (file["x"] == x).all()
        assert (file["y"] == names).all()
    with pytest.raises(UserError, match="jobs needs arrays, or data and models by name"):
        em.audit_labels(x, names, id=[f"row {n}" for n in range(120)], jobs=2, **options)


def test_arrays_keep_their_order_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, given, wrong = blobs()
    names = np.array(["ant", "bee", "cat"])[given]
    audit = em.audit_labels(x, names, folds=2, epochs=10, batch_size=16)
    assert audit.ids == [str(row) for row in range(240)]
    assert (np.array(audit.class_names)[audit.given] == names).all()
    assert wrong[audit.listed].mean() > 0.9
    assert list(tmp_path.iterdir()) == []


def test_fast_judges_by_one_training(table, tmp_path):
    path, _, wrong = table
    audit = em.audit_labels(
        f"npz:{path}", fast=True, epochs=10, batch_size=16, lr=0.05, out=tmp_path
    )
    assert wrong[audit.listed].mean() > 0.8
    assert audit.rate.kind == "cannot tell"
    assert audit.source == "dynamics"
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_fast_learns_from_corrections_and_leaves_dropped_samples_out(table, tmp_path):
    path, given, _ = table
    dropped = [3, 50, 210]
    names = [*map(str, range(200)), *(f"test {row}" for row in range(40))]
    rows = [{"id": names[place], "action": "drop"} for place in dropped]
    rows.append({"id": "7", "action": "relabel", "label": "abc"[(given[7] + 1) % 3]})
    options = {"fast": True, "epochs": 5, "batch_size": 16, "lr": 0.05}
    audit = em.audit_labels(f"npz:{path}", corrections=rows, out=tmp_path, **options)
    assert audit.ids == names
    assert set(audit.order[-4:]) == {7, *dropped}
    assert [audit.reason[place] for place in dropped] == ["dropped by hand"] * 3
    assert audit.reason[7] == "reviewed by hand"
    assert not audit.listed[[7, *dropped]].any()
    (run,) = (tmp_path / "runs").iterdir()
    with np.load(run / "dynamics.npz") as file:
        trained, counts = file["label"], file["count"]
    expected = np.delete(given, dropped)
    expected[list(np.delete(np.arange(240), dropped)).index(7)] = (given[7] + 1) % 3
    assert (trained == expected).all()
    assert (counts == 5).all()


def test_a_model_that_exists_judges_other_data(table, tmp_path):
    path, _, _ = table
    run = em.fit(f"npz:{path}", epochs=12, batch_size=16, lr=0.05, out=tmp_path / "run")
    x, given, wrong = blobs(seed=5)
    other = tmp_path / "other.npz"
    save(other, x, given)
    audit = em.audit_labels(f"npz:{other}", run=tmp_path / "run")
    assert wrong[audit.listed].mean() > 0.9
    assert audit.rate.models == 1
    with pytest.warns(EdgeMaskWarning, match="was trained on"):
        seen = em.audit_labels(f"npz:{path}", run=run)
    assert "it has learnt from them" in seen.rate.sentence
    with pytest.raises(UserError, match="knows the classes"):
        em.audit_labels("digits", run=run)


def test_features_from_elsewhere(table, tmp_path):
    _, given, wrong = table
    x, _, _ = blobs()
    np.save(tmp_path / "features.npy", x)
    audit = em.audit_labels(labels=given, features=tmp_path / "features.npy")
    assert wrong[audit.listed].mean() > 0.9
    assert audit.source == "features"


def test_corrections_are_learnt_from_and_not_asked_again(table, tmp_path):
    path, _, _ = table
    first = em.audit_labels(f"npz:{path}", folds=2, epochs=8, batch_size=16)
    asked = first.suspects["id"].tolist()[:12]
    rows = [
        {"id": name, "action": "relabel", "label": "a"}
        if number % 3 == 0
        else {"id": name, "action": "keep" if number % 3 == 1 else "drop"}
        for number, name in enumerate(asked)
    ]
    out = tmp_path / "again"
    second = em.audit_labels(
        f"npz:{path}", folds=2, epochs=8, batch_size=16, corrections=rows, out=out
    )
    # Folds in processes of their own read the decisions from the audit's folder.
    decisions = em.audit.read_corrections(out / "corrections.csv")
    assert decisions.fingerprint == em.audit.read_corrections(rows).fingerprint
    assert {
        em.engine.load_run(run).config.data.corrections for run in (out / "runs").iterdir()
    } == {str((out / "corrections.csv").resolve())}
    assert not set(second.suspects["id"]) & set(asked)
    assert len(second) == 240


def test_groups_stay_together():
    rng = np.random.default_rng(0)
    given, groups = rng.integers(0, 3, 300), rng.integers(0, 40, 300)
    numbers = fold_numbers(given, 5, groups=groups, seed=1)
    assert set(numbers) == set(range(5))
    for group in range(40):
        assert len(set(numbers[groups == group])) == 1
    free = fold_numbers(given, 5, seed=1)
    for label in range(3):
        counts = np.bincount(free[given == label])
        assert counts.max() - counts.min() <= 1
    assert set(fold_numbers(np.arange(10), 2)) == {0, 1}  # a class of one sample each
    with pytest.raises(UserError, match="as many groups"):
        fold_numbers(given, 5, groups=given)
    with pytest.raises(UserError, match="299 values of groups"):
        fold_numbers(given, 5, groups=groups[1:])


def test_all_samples_of_a_dataset_in_one_split():
    bundle = load("digits")
    whole = everything(bundle)
    assert isinstance(whole.train, JoinedSplit | type(whole.train))
    assert len(whole.train) == 1797
    assert whole.train.names[-1] == f"test {len(bundle.test) - 1}"
    index = torch.tensor([1796, 3, 1438, 0])
    expected = torch.stack(
        [bundle.test.raw(torch.tensor([358]))[0], bundle.train.raw(torch.tensor([3]))[0],
         bundle.test.raw(torch.tensor([0]))[0], bundle.train.raw(torch.tensor([0]))[0]]
    )  # fmt: skip
    assert torch.equal(whole.train.raw(index), expected)
    twice = from_arrays(np.zeros((9, 2), np.float32), [0, 1, 2] * 3, x_test=np.ones((2, 2)),
                        y_test=[0, 1])  # fmt: skip
    joined = everything(twice).train
    assert joined.raw(torch.arange(11)).sum() == 4


@sweep(
    ("options", "message"),
    [
        ({"fast": True, "features": "x.npy"}, "fast and features are two ways"),
        ({"folds": 1}, "folds must be at least 2"),
        ({"labels": "kind"}, "and its own labels"),
        ({"probabilities": "none.npy"}, "no such file"),
        ({"set": {"data.limit": 10}}, "data.limit is not for an audit"),
        ({"epochs": 0}, "train.epochs"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        em.audit_labels("digits", **options)


def test_labels_alone_need_probabilities():
    with pytest.raises(UserError, match="needs data"):
        em.audit_labels(labels=[0, 1, 1])


def test_files_of_probabilities(tmp_path):
    rows = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    np.save(tmp_path / "one.npy", rows)
    np.save(tmp_path / "two.npy", np.stack([rows, rows]))
    np.savez(tmp_path / "named.npz", probs=rows, ids=np.array(["x", "y", "z"]))
    (tmp_path / "table.csv").write_text("id,dog,cat\nx,0.1,0.9\ny,0.8,0.2\nz,0.4,0.6\n")
    np.testing.assert_array_equal(read_matrix(tmp_path / "one.npy"), rows)
    assert len(read_matrix(tmp_path / "two.npy")) == 2
    order = ["z", "x", "y"]
    for name in ("named.npz", "table.csv"):
        found = read_matrix(tmp_path / name, ids=order, columns=["cat", "dog"])
        np.testing.assert_allclose(found, rows[[2, 0, 1]])
    with pytest.raises(UserError, match="no row for the sample 'q'"):
        read_matrix(tmp_path / "named.npz", ids=["x", "q"])
    with pytest.raises(UserError, match="no column 'cow'"):
        read_matrix(tmp_path / "table.csv", columns=["cow"])
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(UserError, match="cannot be read"):
        read_matrix(tmp_path / "text.npy")


def test_groups_and_names_from_columns_of_a_table(tmp_path):
    x, given, wrong = blobs(90)
    rows = [f"s{n},{','.join(map(str, x[n]))},{'abc'[given[n]]},{n // 6}" for n in range(90)]
    path = tmp_path / "rows.csv"
    path.write_text("key,u,v,w,p,q,kind,patient\n" + "\n".join(rows) + "\n", encoding="utf-8")
    audit = em.audit_labels(
        f"csv:{path}", "kind", id="key", groups="patient", folds=3, epochs=8, batch_size=16,
        out=tmp_path / "audit",
    )  # fmt: skip
    assert sorted(audit.ids) == sorted(f"s{n}" for n in range(90))
    places = np.array([int(name[1:]) for name in audit.ids])
    assert (audit.given == given[places]).all()
    assert wrong[places][audit.listed].mean() > 0.8
    numbers = np.load(tmp_path / "audit" / "folds.npy")
    for patient in range(15):
        assert len(set(numbers[places // 6 == patient])) == 1
    (run, *_) = (tmp_path / "audit" / "runs").iterdir()
    assert em.engine.load_run(run).config.data.options["ignore"] == ["patient"]
    texts = runs.read_audit(tmp_path / "audit").items
    assert texts
    with pytest.raises(UserError, match="names a column"):
        em.audit_labels("digits", groups="patient", epochs=1)


def network_settings(x, y=None, *, settings=None, sets=(), **named):
    """Return the config of the networks that an audit would train."""
    words = ("model", "head", "loss", "method", "epochs", "batch_size", "lr", "seed")
    keywords = {word: named.get(word) for word in words}
    columns = audit_samples.AuditColumns(y, None, None, None, None)
    layers = audit_samples.NetworkSettings(keywords, None, None, settings, sets, fast=False)
    return audit_samples.AuditSamples.read(x, columns, None, layers).config


def test_where_the_data_are_does_not_change_how_long_networks_learn(table, tmp_path):
    path, _, _ = table
    usual = network_settings(f"npz:{path}").train
    assert usual.epochs == 100
    assert (
        network_settings(f"npz:{path}", settings={"data": {"root": str(tmp_path)}}).train == usual
    )
    assert network_settings(f"npz:{path}", settings={"optim": {"lr": 0.02}}).train.epochs == 20
