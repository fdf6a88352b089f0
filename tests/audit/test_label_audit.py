"""Audits from probabilities against cleanlab and plain loops; audits that are saved and read."""

from __future__ import annotations

import json
import math

import cleanlab
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from edgemask import audit, noise, runs
from edgemask.errors import UserError
from sweeps import sweep


def problem(count=600, classes=4, rate="sym:0.2", seed=0, sharpness=4.0):
    """Noisy labels and the probabilities of a decent model that has not seen them."""
    rng = np.random.default_rng(seed)
    made = noise.make(rate, rng.integers(0, classes, count), classes, seed=seed)
    seen = np.where(rng.random(count) < 0.95, made.clean, rng.integers(0, classes, count))
    scores = sharpness * rng.random((count, 1)) * np.eye(classes)[seen] + rng.random(
        (count, classes)
    )
    probs = np.exp(scores)
    return made, probs / probs.sum(axis=1, keepdims=True)


@settings(max_examples=40, deadline=None)
@given(
    classes=st.integers(2, 6),
    count=st.integers(30, 300),
    seed=st.integers(0, 1000),
    sharpness=st.floats(0.5, 8),
)
def test_confident_joint_and_list_are_those_of_cleanlab(classes, count, seed, sharpness):
    made, probs = problem(count, classes, "sym:0.3", seed, sharpness)
    labels = made.noisy.copy()
    labels[:classes] = np.arange(classes)  # every class occurs, as cleanlab needs
    expected = cleanlab.count.compute_confident_joint(labels, probs, calibrate=False)
    found = audit.confident_joint(probs, labels, calibrate=False)
    np.testing.assert_array_equal(found, expected)
    # cleanlab rounds the calibrated one
    expected = cleanlab.count.compute_confident_joint(labels, probs)
    np.testing.assert_allclose(audit.confident_joint(probs, labels), expected, atol=1.0)
    if (expected.diagonal() < 1).any():
        return  # cleanlab then takes from other cells to leave one sample in each class
    listed = cleanlab.filter.find_label_issues(
        labels, probs, filter_by="prune_by_noise_rate", n_jobs=1
    )
    np.testing.assert_array_equal(audit.from_probabilities(labels, probs).listed, listed)


def test_samples_are_ranked_by_the_class_adjusted_margin():
    made, probs = problem(count=80)
    labels = made.noisy
    result = audit.from_probabilities(labels, probs)
    usual = [probs[labels == k, k].mean() for k in range(4)]
    scores = []
    for row, label in zip(probs, labels, strict=True):
        adjusted = [row[k] / usual[k] for k in range(4)]
        rival = max(adjusted[k] for k in range(4) if k != label)
        scores.append(adjusted[label] / (adjusted[label] + rival))
    assert result.order.tolist() == np.argsort(scores).tolist()
    np.testing.assert_allclose(result.trust, scores)
    assert result.trust.min() >= 0
    assert result.trust.max() <= 1
    assert result.rank[result.order[0]] == 1


def test_several_models_are_averaged_and_better_ones_count_more():
    made, first = problem(seed=1)
    second = np.where(np.arange(len(first))[:, None] % 2, first[:, ::-1], first)
    both = audit.from_probabilities(made.noisy, [first, second])
    commonest = np.bincount(made.noisy).max() / len(first)
    weights = [((p.argmax(1) == made.noisy).mean() - commonest) ** 2 for p in (first, second)]
    assert weights[0] > 3 * weights[1] > 0
    averaged = (weights[0] * first + weights[1] * second) / sum(weights)
    alone = audit.from_probabilities(made.noisy, averaged)
    np.testing.assert_allclose(both.trust, alone.trust)
    useless = audit.from_probabilities(made.noisy, [first, np.full_like(first, 0.25)])
    assert (useless.order[:50] == audit.from_probabilities(made.noisy, first).order[:50]).all()
    assert both.rate.models == 2
    assert alone.rate.models == 1
    same = audit.from_probabilities(made.noisy, [first, second], kinds=["net", "net"])
    assert same.rate.models == 1


def test_a_model_that_has_seen_the_labels_ranks_but_does_not_count():
    made, probs = problem(count=900, seed=6)
    wrong = made.noisy != made.clean
    memory = np.eye(probs.shape[1])[made.noisy] * 0.9 + 0.1 / probs.shape[1]
    alone = audit.from_probabilities(made.noisy, probs)
    both = audit.from_probabilities(made.noisy, [memory, probs], out_of_sample=[False, True])
    np.testing.assert_allclose(both.transition_matrix, alone.transition_matrix)
    assert abs(both.listed.sum() - alone.listed.sum()) <= 0.05 * alone.listed.sum()
    assert wrong[both.listed].mean() >= wrong[alone.listed].mean() - 0.02
    assert (both.suggested[both.listed] != made.noisy[both.listed]).all()
    assert "the given label is likeliest" not in {
        both.reason[n] for n in np.flatnonzero(both.listed)
    }
    # Without the distinction the memory leaves hardly a contradiction.
    assert audit.from_probabilities(made.noisy, [memory, probs]).listed.sum() < 0.3 * wrong.sum()
    with pytest.raises(UserError, match="1 values of out_of_sample for 2 models"):
        audit.from_probabilities(made.noisy, [memory, probs], out_of_sample=[True])


def test_ties_are_not_broken_by_position():
    probs = np.full((400, 2), 0.5)
    result = audit.from_probabilities(np.arange(400) % 2, probs)
    assert abs(result.order[:100].mean() - 199.5) < 60  # 5 standard deviations are 50
    assert audit.from_probabilities(np.arange(400) % 2, probs).order.tolist() == list(result.order)


def test_chunks_do_not_change_the_result(monkeypatch):
    made, probs = problem()
    whole = audit.from_probabilities(made.noisy, probs)
    monkeypatch.setattr("edgemask.audit.probabilities._CHUNK", 100)
    parts = audit.from_probabilities(made.noisy, probs)
    np.testing.assert_array_equal(whole.order, parts.order)
    np.testing.assert_array_equal(whole.listed, parts.listed)
    np.testing.assert_allclose(whole.transition_matrix, parts.transition_matrix)


@sweep(
    ("labels", "names"),
    [
        (["b", "a", "c"], ["a", "b", "c"]),
        ([2, 1, 3], ["1", "2", "3"]),
        (np.array([2.0, 1.0, 3.0]), ["1", "2", "3"]),
        ([20, 1, 30], ["1", "20", "30"]),
        ([1, 0, 2], ["0", "1", "2"]),
    ],
)
def test_labels_of_any_kind(labels, names):
    result = audit.from_probabilities(labels, np.eye(3))
    assert result.class_names == names
    assert result.given.tolist() == [1, 0, 2]


@sweep(
    ("labels", "probs", "options", "message"),
    [
        (["a", "b"], np.eye(3)[:2], {}, "name the columns with class_names"),
        (["a", "z"], np.eye(2), {"class_names": ["a", "b"]}, "'z' is not among"),
        ([0, 1], np.eye(2) * 2, {}, r"probs\[0\]\[0\] is not a distribution"),
        ([0, 1], [np.eye(2), np.eye(3)], {}, "of one shape"),
        ([0, 1, 1], np.eye(2), {}, "2 rows, but there are 3 labels"),
        ([0, 1], np.eye(2), {"ids": ["x"]}, "1 ids for 2 samples"),
        ([0, 1], np.eye(2), {"kinds": ["net", "tree"]}, "kinds names 2 models"),
        ([0.5, 1], np.eye(2), {}, "class numbers or names"),
    ],
)
def test_what_does_not_fit_is_refused(labels, probs, options, message):
    with pytest.raises(UserError, match=message):
        audit.from_probabilities(labels, probs, **options)


def evidence(disagreement, surest, samples=10_000):
    return audit.ModelEvidence(
        samples=samples,
        disagreement=disagreement,
        surest=max(50, samples // 10),
        surest_disagreement=surest,
    )


@sweep(
    ("models", "kind", "words"),
    [
        ([evidence(0.03, 0.0)] * 2, "at most", "At most 3.3 % of the labels look wrong."),
        ([evidence(0.22, 0.21)] * 2, "between", "Between 18.4 and 22.7 % of the labels look"),
        ([evidence(0.4, 0.2)] * 2, "at least", "At least 8.7 % of the labels look wrong, at most"),
        ([evidence(0.4, 0.05)] * 2, "cannot tell", "Cannot tell: the model disagrees with 40.0 %"),
        # below 500 samples, or with little skill, nothing is said of a lower end
        ([evidence(0.22, 0.21, 490)] * 2, "cannot tell", "Cannot tell"),
        ([evidence(0.7, 0.6)] * 2, "cannot tell", "Cannot tell"),
        # the weaker of two lower ends counts
        ([evidence(0.22, 0.21), evidence(0.4, 0.05)], "cannot tell", "Cannot tell"),
    ],
)
def test_verdicts(models, kind, words):
    verdict = audit.judge_share(models, commonest=0.1)
    assert verdict.kind == kind
    assert verdict.sentence.startswith(words)
    assert (verdict.upper is None) == (kind == "cannot tell")
    assert "always made in the same way" in verdict.explanation
    assert audit.judge_share(models, commonest=0.1, chance_driven=True).lower == 0


def test_the_ends_of_a_verdict_by_hand():
    e, d, n, s = 0.3, 0.25, 2000, 200
    c = math.sqrt(s / n)
    for kinds, level in ((2, 0.90), (1, 0.98)):  # two-sided levels of the same limits
        verdict = audit.judge_share(
            [evidence(e, d, n)] * kinds,
            commonest=0.2,
        )
        low = binomtest(50, 200).proportion_ci(level).low - c / (1 - c) * (e - d)
        high = binomtest(600, 2000).proportion_ci(level).high
        assert verdict.lower == pytest.approx(low)
        assert verdict.upper == pytest.approx(high)


def test_the_surest_samples_share_a_tie():
    made, _ = problem(count=1000, rate="sym:0.3")
    sure = np.eye(4)[made.clean]  # everything ties at probability 1
    result = audit.from_probabilities(made.noisy, [sure, sure])
    # all are equally sure, so the disagreement among the surest is that among all
    low = binomtest(round(0.3 * 100), 100).proportion_ci(0.90).low
    assert result.rate.lower == pytest.approx(low, abs=0.005)


@sweep("wrong", [0, 7, 100])
def test_a_check_by_hand_replaces_the_estimate(wrong):
    made, probs = problem()
    result = audit.from_probabilities(made.noisy, probs).after_checking(wrong, 100)
    ends = binomtest(wrong, 100).proportion_ci(0.95)
    assert (result.rate.lower, result.rate.upper) == pytest.approx((ends.low, ends.high))
    assert (result.rate.kind, result.rate.wrong, result.rate.checked) == ("checked", wrong, 100)
    assert f"{wrong} of 100 labels checked by hand were wrong" in result.rate.sentence
    with pytest.raises(UserError, match="not possible"):
        result.after_checking(101, 100)


def test_expected_precision_follows_the_share():
    made, probs = problem(count=3000, seed=3)
    start = audit.from_probabilities(made.noisy, probs)
    wrong = made.noisy != made.clean
    low, high = start.after_checking(int(wrong[:400].sum()), 400).expected_precision(300)
    assert low <= wrong[start.order[:300]].mean() <= high + 0.05
    assert high > 0.8
    assert start.after_checking(0, 1000).expected_precision(300)[0] == 0
    everything = start.after_checking(200, 1000)
    low, high = everything.expected_precision(3000)  # over all samples it is the share itself
    assert (low, high) == pytest.approx((everything.rate.lower, everything.rate.upper), abs=1e-4)
    # Every contradicted label may be wrong, but not more than the upper end allows.
    contradicted = probs.argmax(1) != made.noisy
    for first in (50, 300, 900, 3000):
        share = contradicted[start.order[:first]].mean()
        high = start.expected_precision(first)[1]
        assert share <= high <= min(1, start.rate.upper * 3000 / first)
        assert high <= share + start.rate.upper - contradicted.mean() + 0.02
        assert wrong[start.order[:first]].mean() <= high
    with pytest.raises(UserError, match="from 1 to the 3000"):
        start.expected_precision(0)


def test_an_audit_is_saved_and_read(tmp_path):
    made, probs = problem()
    names = ["ant", "bee", "cat", "dög"]
    ids = [f"{names[k]}/{n}.png" for n, k in enumerate(made.noisy)]
    saved = audit.from_probabilities(made.noisy, probs, ids=ids, class_names=names)
    folder = saved.save(tmp_path / "new" / "audit")
    read = audit.LabelAudit.load(folder)
    for name in ("ids", "reason", "class_names"):
        assert list(getattr(read, name)) == list(getattr(saved, name)), name
    for name in ("given", "suggested", "trust", "listed", "order", "doubt", "transition_matrix"):
        np.testing.assert_array_equal(getattr(read, name), getattr(saved, name), err_msg=name)
    assert read.rate == saved.rate
    assert str(read) == str(saved)
    assert "worth checking" in str(read)
    lines = (folder / "suspects.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "rank,id,given,suggested,trust,reason"
    assert len(lines) == saved.listed.sum() + 1
    assert [line.split(",")[1] for line in lines[1:]] == saved.suspects["id"].tolist()
    assert saved.ranking["rank"].tolist() == list(range(1, 601))
    facts = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert facts["rate"]["sentence"] == saved.rate.sentence
    assert [entry["first"] for entry in facts["expected_precision"]][-1] == 500


def change(facts, key, value):
    return json.dumps({**facts, key: value})


def test_a_damaged_audit_is_one_line(tmp_path):
    made, probs = problem()
    with pytest.raises(UserError, match="holds no audit"):
        runs.read_audit(tmp_path)
    folder = audit.from_probabilities(made.noisy, probs).save(tmp_path)
    path = folder / "audit.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    for text, message in (
        ("{", "not valid JSON"),
        ("[]", "instead of an object"),
        (change(facts, "schema", 99), "reads 1 to 1"),
        (change(facts, "class_names", ["a"]), "do not fit"),
        (change(facts, "rate", {"kind": 1}), "do not fit"),
        (change(facts, "transition_matrix", [["x"]]), "do not fit"),
        (change(facts, "reasons", []), "do not fit"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=message):
            runs.read_audit(folder)
    path.write_text(json.dumps(facts), encoding="utf-8")
    (folder / "items.jsonl").write_text('{"index": 3, "text": "x"}\n{"index": 999999}\nno\n')
    record = runs.read_audit(folder)
    assert [item["text"] for item in record.items] == ["x"]
    assert "2 line(s) of items.jsonl" in record.problems[0]
    samples = runs.read_arrays(folder / "samples.npz")
    np.savez(folder / "samples.npz", **{**samples, "rank": samples["rank"] * 0})
    with pytest.raises(UserError, match="do not fit"):
        runs.read_audit(folder)
