"""Names: listing, explaining, completing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

import edgemask as em
from edgemask.cli.early import check_name
from edgemask.cli.listing import registry
from edgemask.cli.names import KINDS, complete, name_registry, registered
from edgemask.errors import UserError
from sweeps import sweep


@sweep("kind", KINDS)
def test_list_shows_the_registry(call, read, kind):
    names = list(registry(kind))
    rows = read("list", kind)
    assert [row["name"] for row in rows] == names
    assert all(row["summary"] and ":`" not in row["summary"] for row in rows)
    lines = call("list", kind).stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == names


def test_list_says_what_a_method_needs_and_costs(call, read):
    rows = {row["name"]: row for row in read("list", "methods")}
    assert (rows["co-teaching"]["needs"], rows["co-teaching"]["networks"]) == ("noise rate", "2")
    assert (rows["jo-snc"]["needs"], rows["jo-snc"]["networks"]) == ("nothing", "2")
    assert rows["dividemix"]["passes"] == "warmup 1 / 1, train 7 / 1"
    for row in rows.values():  # linear / SEM head
        assert {"accuracy", "precision", "recall", "cost"} <= set(row)
    assert rows["clipcleaner"]["accuracy"] == "not run"
    shown = call("list", "methods")
    assert "needs to know" in shown.stdout.splitlines()[0]
    assert "No method needs clean validation images" in shown.stderr


def test_list_refuses_what_it_does_not_know(call):
    assert "'hats' is not one of" in call("list", "hats", code=2).stderr


@sweep("kind", KINDS)
def test_completion_knows_the_registry(kind):
    found = registry(kind)
    # Names that other tests have registered are stored by their module.
    assert registered(kind) == [name for name in found if found.stored_name(name) == name]


@sweep("kind", [kind for kind in KINDS if kind != "recipes"])
def test_names_read_from_the_source_mean_what_the_registry_means(kind):
    found, read_names = registry(kind), name_registry(kind)
    assert read_names.kind == found.kind
    for name in registered(kind):
        assert read_names.aliases_of(name) == found.aliases_of(name)


@pytest.mark.parametrize(
    ("kind", "section", "said"),
    [("losses", "loss", "gcee"), ("heads", "head", "sme(rho=0.3)"), ("models", "model", "cnn88")],
)
def test_a_wrong_name_is_refused_early_in_the_words_of_fit(monkeypatch, kind, section, said):
    with pytest.raises(UserError) as late:
        em.fit("digits", dry_run=True, **{section: said})
    monkeypatch.delitem(sys.modules, f"edgemask.{KINDS[kind][0]}")
    with pytest.raises(UserError) as early:
        check_name(kind, said)
    assert str(early.value) == str(late.value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("losses", None),
        ("losses", "jal"),
        ("losses", "label_smoothing(smoothing=0.1)"),
        ("methods", "coteaching"),
        ("models", "timm:resnet18"),
        ("heads", "a b"),  # no name at all: refused where options are read
    ],
)
def test_every_spelling_that_fit_takes_passes_the_early_check(monkeypatch, kind, said):
    monkeypatch.delitem(sys.modules, f"edgemask.{KINDS[kind][0]}", raising=False)
    check_name(kind, said)


def test_names_of_imported_modules_are_left_to_the_registry():
    assert "edgemask.losses" in sys.modules
    check_name("losses", "of-my-own-module")


def test_completion_offers_what_begins_so():
    assert complete("heads")("s") == ["sem", "skan", "scaled"]


def test_the_shell_is_offered_names():
    done = subprocess.run(
        [sys.executable, "-m", "edgemask"],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
            "_EDGEMASK_COMPLETE": "complete_bash",
            "COMP_WORDS": "edgemask train --head s",
            "COMP_CWORD": "3",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["sem", "skan", "scaled"]


def test_explain_gives_every_value_a_source(read):
    rows = {row["key"]: row for row in read("explain", "cifar10/jal-sem")}
    assert rows["optim.lr"] == {"key": "optim.lr", "value": 0.01, "source": "the paper, Table S6"}
    assert rows["head.name"]["value"] == "sem"
    assert all(row["source"] for row in rows.values())


def test_explain_says_what_was_set(read):
    rows = {row["key"]: row for row in read("explain", "digits/ce", "--set", "optim.lr=0.5")}
    assert (rows["optim.lr"]["value"], rows["optim.lr"]["source"]) == (0.5, "--set")


def test_explain_writes_a_config_that_train_takes(call, tmp_path):
    text = call("explain", "digits/jal-sem", "--yaml").stdout
    assert yaml.safe_load(text)["loss"]["name"] == "jal-ce"
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    from_file = json.loads(call("train", "--config", path, "--dry-run", "--json").stdout)
    by_name = json.loads(call("train", "--recipe", "digits/jal-sem", "--dry-run", "--json").stdout)
    assert from_file == by_name


def test_explain_offers_the_nearest_recipe(call):
    message = call("explain", "cifar10/jal-sen", code=2).stderr
    assert "did you mean 'cifar10/jal-sem'" in message


def test_explain_prints_one_format_at_a_time(call):
    assert "choose one" in call("explain", "digits/ce", "--json", "--yaml", code=2).stderr


def test_the_schema_of_a_config_is_for_editors(call):
    schema = json.loads(call("explain", "--schema").stdout)
    assert "epochs" in json.dumps(schema["$defs"]["TrainConfig"]["properties"])


def test_explain_needs_a_recipe(call):
    assert "edgemask list recipes" in call("explain", code=2).stderr
