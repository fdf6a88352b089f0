"""The scikit-learn estimator: its checks, and the tools of scikit-learn around it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import edgemask as em
from edgemask.errors import UserError

Classifier = em.integrations.NoisyLabelClassifier
X, Y = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def nothing_in_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.slow  # some fifty checks with several fits each
def test_scikit_learns_own_checks():
    results = check_estimator(Classifier(epochs=4, lr=0.1), on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    assert len([r for r in results if r["status"] == "passed"]) > 45


def test_suspects_are_the_labels_that_were_changed():
    x, true = make_blobs(120, centers=3, n_features=4, cluster_std=0.5, random_state=0)
    wrong = np.random.default_rng(0).choice(120, 12, replace=False)
    given = true.copy()
    given[wrong] = (given[wrong] + 1) % 3
    names = np.array(["ant", "bee", "cat"])[given]
    found = Classifier(epochs=15, random_state=0).fit(x, names)
    assert found.classes_.tolist() == ["ant", "bee", "cat"]
    assert found.n_features_in_ == 4
    assert found.trust_.shape == (120,)
    assert len(set(found.suspects_[:12]) & set(wrong)) >= 11
    trust = found.trust_[found.suspects_]
    assert (np.diff(trust) >= 0).all()
    assert (trust < 0.5).all()
    assert (found.predict(x) == np.array(["ant", "bee", "cat"])[true]).mean() > 0.9


def test_the_seed_is_scikit_learns():
    def probabilities(state):
        return Classifier(epochs=1, random_state=state).fit(X, Y).predict_proba(X)

    np.testing.assert_array_equal(probabilities(3), probabilities(3))
    assert not np.array_equal(probabilities(3), probabilities(4))
    state = np.random.RandomState(3)
    assert not np.array_equal(probabilities(state), probabilities(state))
    np.random.seed(7)
    first = probabilities(None), np.random.rand()
    np.random.seed(7)
    again = probabilities(None), np.random.rand()
    np.testing.assert_array_equal(first[0], again[0])
    assert first[1] == again[1]  # training left the global generator where it was


def test_inside_the_tools_of_scikit_learn():
    pipeline = make_pipeline(StandardScaler(), Classifier(epochs=8, lr=0.05, random_state=0))
    assert cross_val_score(pipeline, X, Y, cv=2).mean() > 0.8
    search = GridSearchCV(
        Classifier(epochs=2, random_state=0), {"head": ["linear", "sem"], "loss": ["gce"]}, cv=2
    )
    search.fit(X, Y)
    assert search.best_params_["loss"] == "gce"
    assert clone(search.best_estimator_).get_params() == search.best_estimator_.get_params()


def test_pickled_sparse_and_with_gaps():
    texts = ["good film", "bad film", "good one", "bad one"] * 10
    labels = [True, False] * 20
    found = make_pipeline(TfidfVectorizer(), Classifier(epochs=20, lr=0.1, random_state=0))
    found.fit(texts, labels)
    assert found.predict(texts).tolist() == labels
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.predict_proba(texts), found.predict_proba(texts))
    gaps = X.copy()
    gaps[::7, 2] = np.nan
    filled = Classifier(epochs=8, random_state=0).fit(gaps, Y)
    assert filled.predict_proba(gaps).shape == (150, 3)
    dense = Classifier(epochs=2, random_state=0).fit(X, Y)
    np.testing.assert_allclose(dense.predict_proba(sp.csr_matrix(X)), dense.predict_proba(X))


def test_a_folder_where_one_is_asked_for(tmp_path):
    found = Classifier(epochs=1, out=tmp_path / "run", random_state=0)
    found.fit(X, Y)
    found.fit(X[:100], Y[:100])  # again, over the first
    run = em.engine.load_run(tmp_path / "run")
    assert len(run.samples["trust"]) == 100
    assert run.class_names == ("0", "1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run"]


def test_mistakes_are_named():
    with pytest.raises(UserError, match="unknown head 'smm'"):
        Classifier(head="smm").fit(X, Y)
    with pytest.raises(ValueError, match="1 class"):
        Classifier().fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="Unknown label type"):
        Classifier().fit(X, np.linspace(0, 1, 150))
