"""Runs taken together by config."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev

import pytest
import yaml

from edgemask.report.groups import group_runs
from edgemask.report.outcomes import final_value
from edgemask.report.results import comparison_table, runs_table
from edgemask.runs import read_run
from report.rundirs import RunMaker


@pytest.fixture(scope="module")
def runs(make_run: RunMaker) -> list[Path]:
    return [
        make_run(f"{loss}-{head}-{seed}", loss=loss, head=head, seed=seed, lift=lift, epochs=6)
        for loss, head, lift in (("ce", "linear", 0.4), ("ce", "sem", 0.5), ("jal", "sem", 0.6))
        for seed in (2, 1, 0)
    ]


def edit(path: Path, change: Callable[[dict], None]) -> None:
    config = yaml.safe_load((path / "config.yaml").read_text())
    change(config)
    (path / "config.yaml").write_text(yaml.safe_dump(config))


def test_seeds_are_joined_and_the_best_config_comes_first(runs: list[Path]) -> None:
    groups = group_runs([read_run(path) for path in runs])
    assert [group.label for group in groups] == ["jal · sem", "ce · sem", "ce · linear"]
    assert [[run.seed for run in group.runs] for group in groups] == [[0, 1, 2]] * 3


def test_mean_and_deviation_are_those_of_the_statistics_module(runs: list[Path]) -> None:
    group = group_runs([read_run(path) for path in runs])[0]
    values = [final_value(run, "test/accuracy").last for run in group.runs]
    shown = group.final("test/accuracy", "last")
    assert shown.value == pytest.approx(mean(values))
    assert shown.std == pytest.approx(stdev(values))
    assert shown.text == f"{100 * mean(values):.2f} ± {100 * stdev(values):.2f}"
    assert shown.n == 3


def test_the_comparison_names_the_oracle_and_marks_the_best(runs: list[Path]) -> None:
    table = comparison_table(group_runs([read_run(path) for path in runs]))
    assert "best (oracle)" in table.columns
    column = list(table.columns).index("last")
    assert [row[column].best for row in table.cells] == [True, False, False]
    oracle = list(table.columns).index("best (oracle)")
    assert not any(row[oracle].best for row in table.cells)
    retained = list(table.columns).index("edges retained")
    assert table.cells[2][retained].text == "–"


def test_an_unfinished_run_does_not_count_beside_finished_ones(
    make_run: RunMaker, runs: list[Path]
) -> None:
    half = make_run("half", loss="jal", head="sem", seed=7, epochs=6, finished=False)
    group = group_runs([read_run(path) for path in [*runs, half]])[0]
    assert len(group.runs) == 4
    assert group.final("test/accuracy", "last").n == 3
    alone = group_runs([read_run(half)])[0]
    assert alone.final("test/accuracy", "last").n == 1
    assert "unfinished" in comparison_table([alone]).to_text()


def test_a_count_is_shown_where_a_value_is_not_known_of_all_runs(make_run: RunMaker) -> None:
    paths = [make_run(f"c{seed}", seed=seed, epochs=3) for seed in range(3)]
    summary = json.loads((paths[0] / "summary.json").read_text()) | {"memorised": None}
    (paths[0] / "summary.json").write_text(json.dumps(summary))
    rows = [json.loads(line) for line in (paths[0] / "metrics.jsonl").read_text().splitlines()]
    lines = [json.dumps(row | {"memorised": None}) for row in rows]
    (paths[0] / "metrics.jsonl").write_text("\n".join(lines))
    group = group_runs([read_run(path) for path in paths])[0]
    assert group.last("memorised").text.endswith(" (2)")
    assert "(" not in group.last("head/retention").text


def test_one_seed_twice_is_said_to_be_no_repetition(make_run: RunMaker) -> None:
    pair = [read_run(make_run(folder, epochs=3)) for folder in ("a", "b")]
    table = comparison_table(group_runs(pair))
    assert any("no independent repetitions" in note for note in table.notes)


def test_configs_that_share_all_names_are_told_apart_by_their_options(make_run: RunMaker) -> None:
    paths = [make_run(f"rho{place}", epochs=3) for place in range(3)]
    for path, rho in zip(paths, (0.1, 0.5, 0.9), strict=True):
        edit(path, lambda config, rho=rho: config["head"]["options"].update(rho=rho))
    groups = group_runs([read_run(path) for path in paths])
    assert {group.label for group in groups} == {"rho 0.1", "rho 0.5", "rho 0.9"}


def test_places_of_files_and_logging_do_not_set_runs_apart(make_run: RunMaker) -> None:
    paths = [make_run(name, seed=seed, epochs=3) for seed, name in enumerate(("here", "there"))]
    edit(paths[1], lambda config: config["data"].update(root="/elsewhere"))
    edit(paths[1], lambda config: config["log"].update(trackers=["wandb"]))
    edit(paths[1], lambda config: config.update(name="other"))
    assert len(group_runs([read_run(path) for path in paths])) == 1


def test_other_data_or_noise_is_not_compared(make_run: RunMaker) -> None:
    paths = [make_run(noise, noise=noise, epochs=3) for noise in ("sym:0.2", "sym:0.6")]
    groups = group_runs([read_run(path) for path in paths])
    table = comparison_table(groups)
    assert [group.label for group in groups] == ["sym:0.2", "sym:0.6"]
    assert not any(item.best for row in table.cells for item in row)
    assert any("same task" in note for note in table.notes)


def test_runs_without_a_config_stay_apart(make_run: RunMaker) -> None:
    paths = [make_run(name, epochs=3) for name in ("one", "two")]
    for path in paths:
        (path / "config.yaml").unlink()
    assert len(group_runs([read_run(path) for path in paths])) == 2


def test_the_table_of_runs_has_all_numbers(runs: list[Path]) -> None:
    table = runs_table(group_runs([read_run(path) for path in runs]))
    assert len(table.rows) == 9
    row = dict(zip(table.columns, table.cells[0], strict=True))
    end = final_value(read_run(runs[8]), "test/accuracy")
    assert row["seed"].value == 0
    assert row["test accuracy: last"].value == end.last
    assert row["test accuracy: best (oracle)"].value == end.best
    assert row["noise fingerprint"].value == "f00d0000"
