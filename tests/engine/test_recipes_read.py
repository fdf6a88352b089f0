"""How recipes are read from TOML files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgemask.engine import recipes
from edgemask.engine.recipes.read import read_recipes
from edgemask.engine.recipes.recipe import Setting
from edgemask.errors import UserError
from sweeps import sweep

FILE = """
variants = ["sem"]

[sources]
code = "the released code"

[part.sgd]
optim.name = "sgd"
optim.lr = 0.1

[part.table]
source = "the table"
optim.lr = 0.2
null = ["loss.preset"]

[[recipe]]
name = "{dataset}/x"
each.dataset = ["digits", "mnist"]
base = ["sgd", "table"]
source = "{code} of {method}"
data.spec = "{dataset}"

[[recipe]]
name = "digits/y"
base = ["digits/x"]
summary = "y"
variants = []
source = "{code}"
train.epochs = 3

[variant.sem]
suffix = "-sem"
summary = ", masked"
source = "the paper"
head.name = "sem"
"""


def read(folder: Path, text: str = FILE):
    (folder / "file.toml").write_text(text)
    return read_recipes(folder)


def test_bases_variants_and_variables(tmp_path):
    found = read(tmp_path)
    assert list(found) == ["digits/x", "digits/x-sem", "mnist/x", "mnist/x-sem", "digits/y"]
    assert found["mnist/x"].settings == {
        "optim.name": Setting("sgd", "the released code of x"),
        "optim.lr": Setting(0.2, "the table"),
        "loss.preset": Setting(None, "the table"),
        "data.spec": Setting("mnist", "the released code of x"),
    }
    assert found["mnist/x-sem"].settings["head.name"] == Setting("sem", "the paper")
    assert found["mnist/x-sem"].summary == "x on mnist, masked"
    assert found["digits/y"].settings["data.spec"].value == "digits"
    assert found["digits/y"].settings["train.epochs"] == Setting(3, "the released code")


@sweep(
    ("old", "new", "message"),
    [
        ("train.epochs", "train.epoch", "file.toml: recipe digits/y: train.epoch: no such key"),
        ("optim.name", "optimiser.name", "file.toml: part sgd: optimiser.name: no such key"),
        ("suffix", "sufix", "file.toml: variant sem: sufix: no such key; did you mean 'suffix'"),
        ("[sources]", "[source]", "file.toml: source: no such key"),
        ('base = ["digits/x"]', 'base = ["digits/z"]', "recipe digits/y: there is no 'digits/z'"),
        ('variants = ["sem"]', 'variants = ["kan"]', "recipe digits/x: there is no 'kan'"),
        ('source = "{code} of {method}"', "", "file.toml: part sgd: optim.name: it has no source"),
        ('name = "digits/y"', 'name = "digits/x"', "recipe digits/x: the name exists twice"),
        ('name = "digits/y"', "", "file.toml: a recipe has no name"),
        ("[part.sgd]", "[part.sgd", "cannot read .*file.toml"),
        ("train.epochs = 3", "loss_settings = {noises = 1, dataset = 'x'}", "loss_settings.noises"),
    ],
)
def test_mistakes_name_file_table_and_key(tmp_path, old, new, message):
    assert old in FILE
    with pytest.raises(UserError, match=message):
        read(tmp_path, FILE.replace(old, new))


def test_every_part_source_and_variant_is_used():
    folder = Path(recipes.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("*.toml"))
    reader = recipes.read._Reader(folder)
    for name in reader.sources:
        assert f"{{{name}}}" in text, name
    for name in (*reader.parts, *reader.variants):
        dataset = next((r for r in reader.recipes if name.endswith(r.split("/")[0])), "")
        template = name.replace(dataset.split("/")[0], "{dataset}") if dataset else name
        assert f'"{name}"' in text or f'"{template}"' in text, name


def test_recipes_are_read_at_first_use_alone():
    code = (
        "from edgemask.engine import RECIPES; assert '_entries' not in vars(RECIPES); "
        "'digits/ce' in RECIPES; assert '_entries' in vars(RECIPES)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
