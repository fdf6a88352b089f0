"""Run directories in every state."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemask.errors import UserError
from edgemask.report import write_report
from edgemask.report.heatmaps import realised_transition
from edgemask.report.outcomes import accuracies, final_value, last_value, noise_facts, total_seconds
from edgemask.report.results import result_table
from edgemask.runs import read_run
from report.rundirs import RunMaker
from sweeps import sweep


def test_a_finished_run_is_read_in_full(make_run: RunMaker) -> None:
    run = read_run(make_run())
    assert run.finished
    assert run.problems == ()
    assert (run.name, run.seed, run.num_classes) == ("digits-ce-sem", 0, 10)
    assert len(run.history) == 24
    assert run.class_name(3) == "class 3"
    assert run.class_name(99) == "99"
    assert run.head["scores"].shape == (24, 10, 64)
    facts = noise_facts(run)
    assert facts["kind"] == "symmetric"
    assert facts["rate"] == 0.6
    assert facts["fingerprint"] == "f00d0000"
    assert facts["realised_rate"] == pytest.approx(
        float(np.mean(run.noise["clean"] != run.noise["noisy"]))
    )


@sweep("remarks", [["the class '<b>' is given to 9 samples"], "no list", [3, None]])
def test_remarks_of_a_run_stand_below_its_results(make_run: RunMaker, remarks: Any) -> None:
    folder = make_run()
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | {"remarks": remarks}))
    notes = result_table(read_run(folder)).notes
    sentences = [note for note in notes if "is given to 9" in note]
    expected = ["The class '<b>' is given to 9 samples."] if "class" in str(remarks) else []
    assert sentences == expected


def test_outcomes_without_a_summary_equal_those_of_the_summary(make_run: RunMaker) -> None:
    path = make_run()
    shown = accuracies(read_run(path))
    (path / "summary.json").unlink()
    seen = accuracies(read_run(path))
    assert list(shown) == ["test/accuracy", "test/balanced_accuracy"]
    for key, end in shown.items():
        for way in ("last", "mean_last_10", "best", "best_epoch", "at_validation"):
            assert getattr(seen[key], way) == pytest.approx(getattr(end, way)), (key, way)


def test_the_summary_stands_above_the_epochs(make_run: RunMaker) -> None:
    path = make_run()
    summary = json.loads((path / "summary.json").read_text())
    summary["test/accuracy"]["last"] = 0.123
    (path / "summary.json").write_text(json.dumps(summary))
    assert final_value(read_run(path), "test/accuracy").last == 0.123


def test_a_killed_run_is_read_as_far_as_it_goes(make_run: RunMaker) -> None:
    path = make_run(finished=False, epochs=5)
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 5, "test/acc')
    run = read_run(path)
    assert not run.finished
    assert len(run.history) == 5
    assert any("summary.json" in note for note in run.problems)
    assert any("1 line(s) of metrics.jsonl" in note for note in run.problems)
    assert total_seconds(run) == pytest.approx(7.5)


def test_an_epoch_written_twice_counts_once_and_the_later_one_holds(tmp_path: Path) -> None:
    rows = [{"epoch": 1, "test/accuracy": 0.5}, {"epoch": 0, "test/accuracy": 0.1}]
    rows.append({"epoch": 1, "test/accuracy": 0.7})
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    run = read_run(tmp_path)
    assert [row["test/accuracy"] for row in run.history] == [0.1, 0.7]


def test_values_that_are_not_finite_are_unknown(tmp_path: Path) -> None:
    text = '{"epoch": 0, "a": NaN, "b": Infinity, "c": null, "d": "x", "e": 1}\n'
    (tmp_path / "metrics.jsonl").write_text(text)
    run = read_run(tmp_path)
    assert run.history[0] == {"epoch": 0, "a": None, "b": None, "c": None, "d": None, "e": 1}
    assert last_value(run, "a") is None


def test_a_manifest_of_the_noise_room_is_read(make_run: RunMaker, tmp_path: Path) -> None:
    noise = pytest.importorskip("edgemask.noise")
    path = make_run(epochs=3, finished=False)
    labels = noise.NoisyLabels(
        clean=[0, 1, 1, -1], noisy=[0, 1, 0, 1], num_classes=2, kind="mine", rate=0.3, seed=5
    )
    labels.save(path / "noise.npz")
    run = read_run(path)
    facts = noise_facts(run)
    assert (facts["kind"], facts["rate"], facts["seed"]) == ("mine", 0.3, 5)
    assert facts["realised_rate"] == labels.realised_rate
    assert realised_transition(run)[:2, :2].tolist() == labels.transition.tolist()
    assert "of none of the classes (%)" in write_report([path], tmp_path).html.read_text()


def test_a_head_without_scores_misses_nothing(make_run: RunMaker) -> None:
    assert read_run(make_run(head="linear")).problems == ()


def test_without_clean_labels_no_true_rate_is_claimed(make_run: RunMaker) -> None:
    run = read_run(make_run(clean_known=False))
    assert noise_facts(run)["realised_rate"] is None
    assert "estimated_rate" not in noise_facts(run)
    assert any("clean labels are not known" in note for note in run.problems)


@sweep(
    "name", ["config.yaml", "metrics.jsonl", "summary.json", "noise.npz", "samples.npz", "head.npz"]
)
@sweep("damage", ["removed", "empty", "garbage", "cut"])
def test_any_file_may_be_missing_or_broken(
    make_run: RunMaker, tmp_path: Path, name: str, damage: str
) -> None:
    path = make_run(epochs=3, samples=40)
    file = path / name
    if damage == "removed":
        file.unlink()
    else:
        whole = file.read_bytes()
        broken = {"empty": b"", "garbage": b"\x00\xff{[: ]", "cut": whole[: len(whole) // 2]}
        file.write_bytes(broken[damage])
    html = write_report([path], tmp_path).html.read_text(encoding="utf-8")
    unharmed = name in {"config.yaml", "metrics.jsonl"} and damage in {"cut", "empty"}
    assert "What is missing" in html or unharmed


@sweep(
    ("name", "arrays"),
    [
        ("head.npz", {"epochs": np.arange(3), "scores": np.zeros((2, 4, 4))}),
        ("head.npz", {"epochs": np.array(["a"]), "scores": np.zeros((1, 4, 4))}),
        ("head.npz", {"epochs": np.array([np.nan]), "scores": np.zeros((1, 4, 4))}),
        ("samples.npz", {"index": np.arange(3), "given": np.zeros(2, int)}),
        ("thumbnails.npz", {"index": np.arange(3), "images": np.zeros((2, 4, 4, 3), np.uint8)}),
        ("noise.npz", {"clean": np.zeros(3, int), "noisy": np.zeros(2, int)}),
        ("noise.npz", {"noisy": np.array([0, 1 << 40])}),
        ("noise.npz", {"noisy": np.zeros(2)}),
        ("noise.npz", {"noisy": np.zeros(2, int), "meta": np.array("[")}),
    ],
)
def test_arrays_of_wrong_shapes_are_left_out_with_a_note(
    make_run: RunMaker, tmp_path: Path, name: str, arrays: dict[str, np.ndarray]
) -> None:
    path = make_run(epochs=3, samples=40)
    np.savez(path / name, **arrays)
    assert any(name in note for note in read_run(path).problems)
    write_report([path], tmp_path)


def test_bins_that_make_no_sense_are_replaced(make_run: RunMaker, tmp_path: Path) -> None:
    path = make_run(epochs=3, samples=40)
    counts = np.ones((3, 4))
    np.savez(path / "head.npz", epochs=np.arange(3), histogram=counts, edges=np.zeros(5))
    assert read_run(path).head["edges"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert "Scores of the edges" in write_report([path], tmp_path).html.read_text()


def test_a_pickle_in_an_array_file_is_not_opened(make_run: RunMaker) -> None:
    path = make_run(epochs=3)
    np.savez(path / "samples.npz", index=np.array([{"a": 1}], dtype=object))
    run = read_run(path)
    assert not run.samples
    assert any("samples.npz cannot be read" in note for note in run.problems)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, make_run: RunMaker) -> None:
    with pytest.raises(UserError, match="does not exist"):
        read_run(tmp_path / "nothing")
    with pytest.raises(UserError, match="is no run and holds none"):
        read_run(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="is a file"):
        read_run(tmp_path / "file")
    parent = make_run("inner-run").parent
    with pytest.raises(UserError, match="is no run itself, but holds runs"):
        read_run(parent)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
KEYS = (
    *("status", "test/accuracy", "per_class_accuracy", "class_names", "noise", "memorised"),
    *("seconds", "versions", "config_hash", "noise_fingerprint", "seed", "command", "clean_test"),
)


@settings(max_examples=80)
@given(
    summary=st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)),
    rows=st.lists(
        st.fixed_dictionaries(
            {"epoch": st.integers(0, 9) | JSON},
            optional=dict.fromkeys(("test/accuracy", "train/loss", "head/retention", "x/y"), JSON),
        ),
        max_size=4,
    ),
    config=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("name", "data", "head", "train", "noise", "log"), JSON)
    ),
)
def test_any_values_in_the_files_give_a_page(
    summary: dict[str, Any], rows: list[dict[str, Any]], config: dict[str, Any]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "summary.json").write_text(json.dumps(summary))
        (path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
        (path / "config.yaml").write_text(json.dumps(config))
        assert write_report([path], path / "out").html.stat().st_size > 10_000
