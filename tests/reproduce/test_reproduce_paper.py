"""The declared tables: the paper's numbers as printed, protocols, and configs that resolve."""

from __future__ import annotations

import pytest

from edgemask.engine import resolve
from edgemask.errors import UserError
from edgemask.heads import HEADS
from edgemask.methods import METHODS
from edgemask.reproduce import EXPERIMENTS, PRESETS, PaperNumber
from edgemask.reproduce.experiments import read_experiment, read_toml
from edgemask.reproduce.presets import UnavailableError, with_seed
from sweeps import sweep

# Read off the paper, one by one: first, last and some cells in between of every table.
PRINTED = {
    "table1": {
        ("ce", "cifar10-clean"): (90.50, 0.22),
        ("ce", "cifar10-sym-60"): (38.80, 0.45),
        ("ce-sem", "cifar10-sym-60"): (59.55, 0.46),
        ("nce+rce", "cifar10-sym-80"): (54.99, 2.13),
        ("jal-sem", "cifar10-asym-40"): (80.11, 0.46),
        ("ce", "cifar100-clean"): (70.93, 0.77),
        ("gce", "cifar100-sym-20"): (60.58, 2.51),
        ("jal", "cifar100-sym-80"): (22.80, 2.11),
        ("anl-sem", "cifar100-sym-80"): (29.04, 0.97),
        ("jal-sem", "cifar100-asym-40"): (57.52, 1.09),
    },
    "table2": {
        ("gce", "cifar10-idn-20"): (86.66, 0.14),
        ("sce", "cifar100-idn-40"): (39.82, 1.43),
        ("jal-sem", "cifar100-idn-60"): (53.08, 1.26),
    },
    "table3": {
        ("coteaching", "cifar100-sym-20"): (43.73, 0.16),
        ("josnc-sem", "cifar80n-o-asym-40"): (63.41, 0.25),
        ("ca2c-sem", "cifar100-sym-80"): (36.03, 0.12),
    },
    "table4": {
        ("ce", "cifar10-sym-80"): (19.74, 0.40),
        ("cdr", "cifar10-idn-60"): (51.94, 0.36),
        ("ce-sem", "cifar100-idn-60"): (29.09, 0.84),
    },
    "table5": {
        ("dividemix", "ilsvrc12-top1"): (75.2, None),
        ("josnc-sem", "webvision-top1"): (84.52, None),
    },
    "table6": {("sop", "accuracy"): (73.5, None), ("dividemix-sem", "accuracy"): (75.48, None)},
    "table7": {
        ("second-moment", "cifar100-sym-80"): (7.94, 0.86),
        ("rms", "cifar10-sym-80"): (39.72, 0.81),
    },
    "table8": {
        ("hard", "cifar10-sym-80"): (21.98, 0.79),
        ("fixed", "cifar100-sym-80"): (8.09, 0.65),
        ("no-ema", "cifar100-sym-80"): (17.59, 0.31),
    },
    "table9": {
        ("ce-kan", "cifar10-sym-80"): (17.71, 1.33),
        ("ce-skan", "cifar100-asym-40"): (43.04, 0.49),
    },
    "tables1": {("cdr-head", "cifar100-sym-80"): (16.94, 0.75)},
    "tables2": {
        ("ce-no-rho", "cifar10-sym-80"): (39.04, 1.36),
        ("jal-no-rho", "cifar100-sym-80"): (24.62, 2.03),
    },
    "tables3": {("sem-topk", "cifar100-sym-80"): (12.91, 0.56)},
    "tables4": {
        ("ce-sem-scaled", "cifar10-sym-80"): (37.25, 0.69),
        ("jal-sem-scaled", "cifar100-sym-80"): (25.47, 2.54),
    },
    "tables5": {("resnet34-sem", "flops"): (0.5819, None)},
}
REASONS = {
    "paper": set(),
    "laptop": {
        "the laptop preset has CIFAR only, not webvision-mini",
        "the laptop preset has CIFAR only, not clothing1m",
    },
    **{
        preset: {
            f"the {preset} preset has CIFAR-10 and CIFAR-100 only, not {name}"
            for name in ("webvision-mini", "clothing1m")
        }
        | {
            f"the {preset} preset has plain training only, not {name}"
            for name in METHODS
            if name != "supervised"
        }
        for preset in ("laptop-bf16", "quick")
    },
    "smoke": {"the digits have no human labels", "there is no recipe digits/clipcleaner"},
}
FIGURES = ["figure3", "figure4", "figure5", *(f"figures{n}" for n in range(1, 7))]


def test_everything_is_declared():
    tables = [f"table{n}" for n in range(1, 10)] + [f"tables{n}" for n in range(1, 7)]
    assert list(EXPERIMENTS) == [*tables, *FIGURES, "controls", "methods"]


@sweep("name", PRINTED)
def test_numbers_of_the_paper(name):
    paper = EXPERIMENTS[name].paper
    for cell, (mean, std) in PRINTED[name].items():
        assert paper[cell] == PaperNumber(mean, std)


def test_tables_are_complete():
    counts = {name: len(EXPERIMENTS[name].paper) for name in PRINTED}
    assert counts == {
        "table1": 126, "table2": 42, "table3": 48, "table4": 36, "table5": 36, "table6": 10,
        "table7": 8, "table8": 10, "table9": 8, "tables1": 8, "tables2": 12, "tables3": 6,
        "tables4": 12, "tables5": 6,
    }  # fmt: skip


def test_tables_agree_where_they_share_a_system():
    """The paper repeats its numbers; a slip of ours would show."""
    first = EXPERIMENTS["table1"].paper
    for name, row, same in [
        ("table4", "ce-sem", "ce-sem"),
        ("table7", "rms", "ce-sem"),
        ("table8", "ce", "ce"),
        ("tables2", "jal-sem", "jal-sem"),
        ("tables4", "jal", "jal"),
    ]:
        for column in ("cifar10-sym-80", "cifar100-sym-80"):
            assert EXPERIMENTS[name].paper[row, column] == first[same, column]
    controls = EXPERIMENTS["controls"].paper
    assert len(controls) == 8
    assert all(first[cell] == number for cell, number in controls.items())


def test_small_loss_methods_are_scored_as_their_released_code_scores_them():
    table = EXPERIMENTS["table3"]
    single = {row.key for row in table.rows if row.metric == "test/networks_accuracy"}
    assert single == {"coteaching", "jocor"}
    assert any("single networks" in note for note in table.notes)


def test_every_method_is_compared_with_both_heads():
    experiment = EXPERIMENTS["methods"]
    assert [row.key for row in experiment.rows] == [
        name + head for name in METHODS if name != "clipcleaner" for head in ("", "-sem")
    ]
    (column,) = experiment.columns
    for row in experiment.rows:
        name = row.key.removesuffix("-sem")
        assert (row.system.method, row.system.head) == (
            name, "sem" if row.key.endswith("-sem") else "linear",
        )  # fmt: skip
        config = resolve(PRESETS["laptop"].cell_settings(row.system, column))
        assert (config.data.spec, config.data.limit, config.data.validation) == ("cifar10", 4000, 0)
        assert (config.model.name, config.model.width, config.train.epochs) == ("cnn8", 0.25, 20)
        assert config.train.select == "last"
        assert config.data.views == "cifar10/flip"


def test_a_recipe_of_another_dataset_is_taken_where_none_was_released():
    experiment = EXPERIMENTS["methods"]
    (column,) = experiment.columns
    config = resolve(PRESETS["paper"].cell_settings(experiment.row("jo-src").system, column))
    assert (config.data.spec, config.model.name, config.train.epochs) == (
        "cifar10",
        "cnn7-mlp",
        200,
    )


def test_protocols_follow_the_source_of_the_numbers():
    for name, experiment in EXPERIMENTS.items():
        kinds = {c.protocol for c in experiment.columns if c.noise.split(":")[0] != "human"}
        if name == "table3":
            assert kinds == {"nust"}
        elif name in ("table5", "table6", "figures5", "figures6"):
            assert kinds == {"paper"}
        elif kinds:
            assert kinds == {"jal"}
    assert all(c.statistic == "mean_last_10" for c in EXPERIMENTS["table3"].columns)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_cell_resolves_or_says_why_not(preset):
    resolved = 0
    reasons = set()
    for experiment in EXPERIMENTS.values():
        for row, column in experiment.cells():
            if row.system is None or experiment.measure:
                continue
            try:
                settings = PRESETS[preset].cell_settings(row.system, column)
            except UnavailableError as error:
                reasons.add(str(error))
                continue
            options = settings["head"].get("options", {})
            if any(isinstance(value, dict) for value in options.values()):
                continue
            config = resolve(with_seed(settings, 1))
            assert config.train.seed == 1
            assert config.head.name in (HEADS.name_of(row.system.head), "linear")
            resolved += 1
    assert resolved > 400
    assert reasons == REASONS[preset]


def test_the_paper_preset_is_table_s6():
    experiment = EXPERIMENTS["table1"]
    row, column = experiment.row("jal-sem"), experiment.column("cifar100-sym-60")
    config = resolve(with_seed(PRESETS["paper"].cell_settings(row.system, column), 2))
    assert (config.model.name, config.train.epochs, config.optim.lr) == ("resnet34", 200, 0.1)
    assert (config.noise.spec, config.noise.protocol, config.noise.seed) == ("sym:0.6", "jal", 125)
    assert config.optim.weight_decay == 0.0
    assert config.optim.l1 > 0
    assert config.head.options["rho"] == 0.5
    assert config.data.limit is None


def test_rho_zero_is_the_baseline_itself():
    figure, table = EXPERIMENTS["figure5"], EXPERIMENTS["table1"]
    for preset in PRESETS.values():
        column = figure.column("cifar100-sym-80-rho-0")
        here = preset.cell_settings(figure.row("jal-sem").system, column)
        there = preset.cell_settings(table.row("jal").system, table.column("cifar100-sym-80"))
        assert resolve(here) == resolve(there)


@sweep(
    ("change", "message"),
    [
        ({"titel": "x"}, r"paper/table8\.toml: unknown key 'titel'; did you mean 'title'"),
        ({"title": None}, "paper/table8.toml: the key 'title' is missing"),
        ({"source": {"numbers": "x", "rows": "x"}}, "the key 'source.protocol' is missing"),
        ({"source": None}, "the key 'source.numbers' is missing"),
        ({"claims": ["ce-sem > c"]}, r"claims\[0\]: there is no 'c'"),
        ({"cost": {"over": "ce-sme", "title": "x"}}, r"cost\.over: there is no 'ce-sme'"),
        ({"cost": {"over": "ce"}}, "cost: the key 'title' is missing"),
        ({"claims": ["ce-sem"]}, r"claims\[0\]: expected 'row > row', got 'ce-sem'"),
        ({"figure": {"kinds": "x"}}, "figure: unknown key 'kinds'; did you mean 'kind'"),
        ({"rows": [{"key": "a"}]}, r"rows\[0\] \(a\): the key 'titles' is missing"),
        (
            {"rows": [{"key": "a", "titles": ["A"], "haed": "sem"}]},
            r"rows\[0\] \(a\): unknown key 'haed'",
        ),
        (
            {"rows": [{"key": "a", "titles": ["A"], "paper": "1.0"}]},
            r"rows\[0\] \(a\): paper: 1 numbers for 2 columns",
        ),
        (
            {"rows": [{"key": "a", "titles": ["A"], "paper": "1.0 one"}]},
            "paper: expected numbers such as 90.50±0.22, or -, got 'one'",
        ),
        (
            {"rows": [{"key": "a", "titles": ["A"], "columns": ["cifar10"]}]},
            r"rows\[0\] \(a\): columns: there is no 'cifar10'",
        ),
        ({"columns": [{"key": "a"}]}, r"columns\[0\]: the key 'title' is missing"),
        ({"columns": [{"dataset": "c", "noises": ["Clean"]}]}, r"columns\[0\]: dataset: there is"),
        (
            {"columns": [{"dataset": "cifar10", "noises": ["Clean"], "points": [{"x": 1}]}]},
            r"columns\[0\]: points: each needs the keys 'x' and 'settings'",
        ),
    ],
)
def test_mistakes_in_a_file_are_named_with_file_and_key(change, message):
    table = {**read_toml("paper/table8.toml"), **change}
    table = {key: value for key, value in table.items() if value is not None}
    with pytest.raises(UserError, match=message):
        read_experiment("table8", table)


def test_every_table_and_preset_states_its_sources():
    for experiment in EXPERIMENTS.values():
        assert {"numbers", "protocol", "rows"} == set(experiment.source)
        assert all(experiment.source.values())
        if experiment.paper:
            assert experiment.source["numbers"].startswith("the paper, Table ")
        elif not experiment.measure:
            assert experiment.source["numbers"].startswith("ours")
    assert all(preset.source for preset in PRESETS.values())


def test_unknown_rows_and_columns_are_named():
    with pytest.raises(ValueError, match="its rows are ce"):
        EXPERIMENTS["table8"].row("foo")
    with pytest.raises(ValueError, match="its columns are cifar10-sym-80"):
        EXPERIMENTS["table8"].column("foo")
