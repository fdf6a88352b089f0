"""Plans: which runs a table needs, how they stand, and the whole way on the smoke preset."""

from __future__ import annotations

import csv
import dataclasses
import json

import numpy as np
import pytest

from edgemask.engine import Run, evaluate, resolve
from edgemask.engine.config import to_dict
from edgemask.engine.estimate import estimate
from edgemask.engine.jobs import JobRunner
from edgemask.errors import UserError
from edgemask.noise import NoisyLabels
from edgemask.reproduce import (
    EXPERIMENTS,
    collect,
    make_plan,
    parse_seeds,
    pick,
    run_plan,
    write_results,
)
from edgemask.reproduce.experiments import CostColumn
from edgemask.reproduce.figures import draw
from edgemask.reproduce.measures import MEASURES
from edgemask.reproduce.plan import OPEN_STATES
from edgemask.reproduce.tables import result_tables, status_json, status_table
from sweeps import sweep


def _plan(root, *names, preset="smoke", seeds=(0,), **options):
    return make_plan(pick(names), preset=preset, seeds=seeds, root=root, **options)


def test_tables_share_their_runs(tmp_path):
    both = _plan(
        tmp_path, "table7", "table8", "tables2", "tables4", preset="paper", data_root="/no"
    )
    names = {(c.experiment.name, c.row.key, c.column.key): c.name for c in both.cells}
    assert names["table7", "rms", "cifar10-sym-80"] == names["table8", "ce-sem", "cifar10-sym-80"]
    scaled = names["tables4", "ce-sem-scaled", "cifar100-sym-80"]
    assert scaled == names["tables2", "ce-sem", "cifar100-sym-80"]
    assert names["table8", "hard", "cifar10-sym-80"] != names["table8", "ce-sem", "cifar10-sym-80"]


def test_noise_and_seeds_are_paired_across_rows(tmp_path):
    plan = _plan(tmp_path, "table8", preset="laptop", seeds=(0, 1), data_root="/no")
    for seed in (0, 1):
        cells = [c for c in plan.cells if c.seed == seed and c.column.key == "cifar10-sym-80"]
        first = cells[0].config
        assert len(cells) == 5
        for cell in cells[1:]:
            assert cell.config.noise == first.noise
            assert cell.config.train == first.train
            assert cell.config.model == first.model
        assert cells[0].config.noise.seed == 123 + seed


def test_missing_data_is_said_and_not_faked(tmp_path):
    plan = _plan(tmp_path, "table8", preset="laptop", data_root=tmp_path / "nothing")
    assert {cell.state for cell in plan.cells} == {"skipped"}
    assert all("cifar" in cell.reason for cell in plan.cells)
    assert not plan.runs("to do")


def test_cited_systems_are_not_run(tmp_path):
    plan = _plan(tmp_path, "table6", data_root=tmp_path)
    cited = {cell.row.key for cell in plan.cells if cell.state == "cited"}
    assert cited == {"sop", "promix", "clipcleaner"}


def test_figures_get_what_they_need_from_the_runs_of_tables(tmp_path):
    plan = _plan(tmp_path, "table8", "table7", seeds=(0, 1))
    by_cell = {(c.experiment.name, c.row.key, c.column.key, c.seed): c.config for c in plan.cells}
    config = by_cell["table8", "ce", "cifar10-sym-80", 0]
    assert "gradient_error" in config.log.record
    assert by_cell["table8", "ce", "cifar10-sym-80", 1].log.record == []
    assert "criteria" in by_cell["table7", "mean-abs", "cifar100-sym-80", 0].log.record


@sweep(("text", "seeds"), [("1", [0]), ("3", [0, 1, 2]), ("1-3", [1, 2, 3]), ("4,2", [4, 2])])
def test_seeds_as_typed(text, seeds):
    assert parse_seeds(text) == seeds


@sweep("text", ["0", "-1", "a", "1-b", ""])
def test_seeds_that_are_none(text):
    with pytest.raises(UserError, match="--seeds"):
        parse_seeds(text)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Some controls with what waits for them, Table S4 and figures, on digits, two seeds."""
    root = tmp_path_factory.mktemp("reproduce")

    def make():
        rows = ("ce", "ce-sem", "dropconnect-matched", "ce-validation", "ce-sem-scaled")
        names = ("controls", "tables4", "figure3", "figure4", "figures1", "figures4", "figures5")
        return _plan(root, *names, seeds=(0, 1), only=(*rows, "ce-skan", "rms"))

    first = make()
    seen = []
    plan, outcomes = run_plan(make, JobRunner(workers=0), seen.append)
    return first, plan, outcomes, seen


def test_smoke_from_plan_to_results(done):
    first, plan, outcomes, seen = done
    waiting = [cell for cell in first.cells if cell.state == "waits"]
    assert {cell.row.key for cell in waiting} == {"dropconnect-matched"}
    assert "needs the run of ce-sem" in waiting[0].reason
    assert outcomes == seen
    assert {outcome.state for outcome in outcomes} == {"done"}
    assert len({outcome.name for outcome in outcomes}) == len(outcomes)
    left = {cell.state for cell in plan.cells}
    assert left <= {"done", "skipped"}
    skipped = {cell.reason for cell in plan.cells if cell.state == "skipped"}
    assert skipped == {"the digits have no human labels"}


def test_matched_rates_are_those_of_the_paired_run(done):
    _, plan, _, _ = done
    for seed in (0, 1):
        cells = {
            c.row.key: c
            for c in plan.of(EXPERIMENTS["controls"])
            if c.seed == seed and c.column.key == "cifar10-sym-60"
        }
        kept = Run(plan.root / cells["ce-sem"].name).summary["head/retention"]
        rate = cells["dropconnect-matched"].config.head.options["p"]
        assert rate == pytest.approx(1 - kept, abs=1e-3)


def test_runs_of_one_seed_saw_the_same_labels_and_start(done):
    _, plan, _, _ = done
    cells = [
        c
        for c in plan.of(EXPERIMENTS["controls"])
        if (c.seed, c.column.key) == (1, "cifar10-sym-60") and c.row.key != "ce-validation"
    ]
    prints = {NoisyLabels.load(plan.root / c.name / "noise.npz").fingerprint for c in cells}
    assert len(cells) == 3
    assert len(prints) == 1


def test_scaled_inference_tests_the_same_runs_again(done):
    _, plan, _, _ = done
    experiment = EXPERIMENTS["tables4"]
    results = collect(plan, experiment)
    again = collect(plan, experiment)
    assert [r.value for r in results] == [r.value for r in again]
    runs = {(r.row, r.column, r.seed): r.run for r in results}
    for (row, column, seed), run in runs.items():
        if row == "ce-sem-scaled":
            assert run == runs["ce-sem", column, seed]
    scaled = next(r for r in results if r.row == "ce-sem-scaled")
    run = Run(plan.root / scaled.run)
    expected = evaluate(run, inference="expected", test_limit=run.config.data.test_limit)
    assert scaled.value == expected["test/accuracy"]


def test_results_in_every_form(done, tmp_path):
    _, plan, _, _ = done
    files = write_results(plan, EXPERIMENTS["tables4"], tmp_path)
    data = json.loads(files["json"].read_text())
    assert data["preset"] == "smoke"
    values = [
        r["value"] for r in data["results"] if (r["row"], r["column"]) == ("ce", "cifar10-sym-80")
    ]
    assert len(values) == 2
    first = data["results"][0]
    assert len(first["config_hash"]) == 10
    assert {"commit", "seconds", "versions", "noise_fingerprint"} <= set(first)
    mean = f"{100 * np.mean(values):.2f} ± {100 * np.std(values, ddof=1):.2f} (2)"
    for kind in ("txt", "md"):
        text = files[kind].read_text()
        assert mean in text
        assert "19.74 ± 0.40" in text
        assert "say nothing about the paper" in text
        assert "ce-sem > ce-sem-scaled" in text.replace("\\", "")
    assert r"\toprule" in files["tex"].read_text()
    rows = list(csv.DictReader(files["csv"].open()))
    assert float(rows[0]["CIFAR-10 Sym-80 %, ours mean"]) == pytest.approx(np.mean(values))
    assert "png" not in files


def test_results_of_runs_that_are_gone_are_kept(done, tmp_path):
    _, plan, _, _ = done
    experiment = EXPERIMENTS["tables4"]
    only = ("ce", "ce-sem", "ce-sem-scaled")
    here = _plan(plan.root, "tables4", seeds=(0, 1), only=only)
    before = write_results(here, experiment, tmp_path)
    table, results = before["txt"].read_text(), json.loads(before["json"].read_text())["results"]
    assert results

    elsewhere = _plan(tmp_path / "no-runs", "tables4", seeds=(0, 1), only=only)
    after = write_results(elsewhere, experiment, tmp_path)
    assert after["txt"].read_text() == table
    kept = json.loads(after["json"].read_text())
    assert kept["results"] == results
    assert not {(r["row"], r["column"], r["seed"]) for r in kept["not_run"]} & {
        (r["row"], r["column"], r["seed"]) for r in results
    }

    # A call for one row shows that row, and loses none of the others.
    part = _plan(tmp_path / "no-runs", "tables4", only=("ce",))
    text = write_results(part, experiment, tmp_path)["txt"].read_text()
    assert "CE-SEM" not in text
    assert "seeds 0;" in text
    assert sorted(json.loads(after["json"].read_text())["results"], key=str) == sorted(
        results, key=str
    )

    # A result of another config is not the cell's any more.
    for record in results:
        record["run"] += "-other"
    after["json"].write_text(json.dumps({"results": results}))
    write_results(elsewhere, experiment, tmp_path)
    assert json.loads(after["json"].read_text())["results"] == []


@pytest.mark.parametrize("text", ["", "[]", '{"results": [{"row": "ce"}]}', '{"results": 3}'])
def test_a_damaged_file_of_results_is_refused(text, done, tmp_path):
    _, plan, _, _ = done
    (tmp_path / "tables4.json").write_text(text)
    with pytest.raises(UserError, match="does not hold the results"):
        write_results(plan, EXPERIMENTS["tables4"], tmp_path)
    assert (tmp_path / "tables4.json").read_text() == text


def test_a_cell_that_was_not_run_says_so(done, tmp_path):
    _, plan, _, _ = done
    fresh = _plan(plan.root, "table8", seeds=(0,), only=("ce", "hard"))
    files = write_results(fresh, EXPERIMENTS["table8"], tmp_path)
    text = files["txt"].read_text()
    assert "not run" in text
    assert "fixed" not in text


def test_further_figures_make_a_table_of_each_column(done):
    _, plan, _, _ = done
    controls = EXPERIMENTS["controls"]
    tables = result_tables(plan, controls, collect(plan, controls))
    titles = [table.columns[2] for table in tables]
    assert titles == [f"{column.title}, ours" for column in controls.columns]
    assert [len(table.rows) for table in tables] == [4, 2, 2]
    assert [bool(table.notes) for table in tables] == [False, False, True]


def test_costs_and_selections_stand_beside_the_numbers(done):
    _, plan, _, _ = done
    controls = dataclasses.replace(
        EXPERIMENTS["controls"],
        extras={"selection/precision": "precision", "selection/recall": "recall"},
        cost=CostColumn(over="ce", title="cost"),
    )
    results = collect(plan, controls)
    assert all(0 < r.facts["last_epoch"]["selection/precision"] <= 1 for r in results)
    assert all(r.facts["cpu_seconds_per_epoch"] > 0 for r in results)
    table = result_tables(plan, controls, results)[0]
    assert table.columns[-3:] == ["precision", "recall", "cost"]
    notes = result_tables(plan, controls, results)[-1].notes
    count = len({r.run for r in results})
    assert f"{count} runs, 0.0 hours of processor time without evaluations." in notes
    costs = {row[0]: row[-1].text for row in table.rows}
    assert costs["CE"] == "1.0"
    assert float(costs["CE-SEM"]) > 0


def test_a_chosen_epoch_comes_with_its_own_figures(done):
    _, plan, _, _ = done
    found = collect(plan, EXPERIMENTS["controls"])
    chosen = [result for result in found if result.row == "ce-validation"]
    assert len(chosen) == 2
    for result in chosen:
        assert result.facts["last_epoch"]["test/accuracy"] == result.value


@sweep("name", ["controls", "figure3", "figure4", "figures1", "figures4", "figures5"])
def test_figures_are_drawn(done, tmp_path, name):
    _, plan, _, _ = done
    files = write_results(plan, EXPERIMENTS[name], tmp_path)
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    text = files["txt"].read_text()
    if name == "controls":
        assert "wrong labels memorised" in text
        assert "skipped: the digits have no human labels" in text


def test_criteria_of_several_runs_side_by_side(tmp_path):
    def make():
        return _plan(tmp_path, "figure4", columns=("cifar100-sym-80",))

    plan, _ = run_plan(make, JobRunner(workers=0))
    experiment = EXPERIMENTS["figure4"]
    figure = draw(plan, experiment, collect(plan, experiment))
    left, right = figure.axes
    titles = ["second moment", "mean absolute", "root mean square"]
    assert [line.get_label() for line in left.lines] == titles
    assert [patch.get_label() for patch in right.patches] == titles
    ranges = {line.get_label(): max(line.get_ydata()) for line in left.lines}
    assert ranges["second moment"] > ranges["root mean square"]


def test_status_counts_cells_and_lists_what_is_left(done):
    _, plan, _, _ = done
    chosen = pick(["table8"])
    fresh = _plan(plan.root, "table8", seeds=(0,))
    lines = status_table(fresh, chosen).to_text()
    states = [entry["state"] for entry in status_json(fresh, chosen)]
    assert states.count("done") == 4  # CE and CE-SEM in both columns, done for Table S4
    assert states.count("to do") == 6
    assert len(fresh.runs(*OPEN_STATES)) == 3
    assert "3 to do" in lines


def test_estimates_grow_with_the_run(tmp_path):
    plan = _plan(tmp_path, "table8", only=("ce",), columns=("cifar10-sym-80",))
    (name, config), *_ = plan.runs("to do").items()
    longer = resolve(to_dict(config), {"train": {"epochs": 400}})
    seconds = estimate({name: config, "longer": longer})
    assert 0 < seconds[name] < seconds["longer"]


def test_selection_methods_run_and_are_estimated(tmp_path):
    rows = ("coteaching", "jocor", "josrc", "unicon", "ca2c", "josnc-sem")

    def make():
        return _plan(tmp_path, "table3", only=rows, columns=("cifar100-sym-20",))

    seconds = estimate(make().runs("to do"))
    assert len(seconds) == 6
    assert all(value is not None and value > 0 for value in seconds.values())
    _, outcomes = run_plan(make, JobRunner(workers=0))
    assert {(outcome.state, outcome.error) for outcome in outcomes} == {("done", "")}


@pytest.mark.parametrize("name", ["tables5", "tables6"])
def test_measured_tables(name):
    experiment = EXPERIMENTS[name]
    text = MEASURES[experiment.measure](experiment, quick=True).to_text()
    expected = {
        "tables5": ["0.5818", "two operations per multiply-add"],
        "tables6": ["InceptionResNetV2", "the paper, Table S6", "cifar10/jal"],
    }
    assert all(words in text for words in expected[name])


@pytest.mark.data
def test_real_labels_are_found(data_root, tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEMASK_DATA", str(data_root))
    plan = _plan(tmp_path, "controls", "table2", preset="laptop", only=("ce", "jal"))
    assert {cell.state for cell in plan.cells} == {"to do"}
    kinds = {cell.config.noise.spec.split(":")[0] for cell in plan.cells}
    assert {"human", "idn", "sym", "none"} <= kinds
