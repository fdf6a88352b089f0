"""Config: what is refused and how, what is filled in, what the hash sees."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import yaml

from edgemask._options import check_options
from edgemask.engine import assign, config_hash, dump_yaml, json_schema, load_yaml, merge, resolve
from edgemask.engine import config as config_module
from edgemask.engine.config import build
from edgemask.errors import UserError
from sweeps import sweep


@sweep(
    ("layer", "words"),
    [
        ({"optim": {"larning_rate": 1}}, ["optim.larning_rate", "lr", "momentum"]),
        ({"trian": {}}, ["trian", "'train'"]),
        ({"optim": {"schedule": {"nmae": "x"}}}, ["optim.schedule.nmae", "'name'"]),
        ({"optim": {"name": "sdg"}}, ["optim.name", "'sgd'", "'adam'", "'sdg'"]),
        ({"train": {"epochs": "many"}}, ["train.epochs", "whole number", "'many'"]),
        ({"train": {"epochs": 0}}, ["train.epochs", "at least 1", "0"]),
        ({"optim": {"lr": float("nan")}}, ["optim.lr", "nan"]),
        ({"data": {"validation": 1.0}}, ["data.validation", "[0, 1)"]),
        ({"head": {"name": "semm"}}, ["head.name", "'sem'"]),
        ({"head": {"name": "sem", "options": {"roh": 0.5}}}, ["head.options.roh", "'rho'"]),
        ({"loss": {"name": "jla"}}, ["loss.name", "'jal'"]),
        ({"loss": {"name": "gce", "options": {"p": 1}}}, ["loss.options.p", "q"]),
        ({"method": {"options": {"mixip": 1}}}, ["method.options.mixip", "'mixup'"]),
        ({"model": {"name": "resnet43"}}, ["model.name", "'resnet34'"]),
        ({"data": {"spec": "digit"}}, ["data.spec", "'digits'"]),
        ({"optim": {"schedule": {"name": "cosin"}}}, ["optim.schedule.name", "'cosine'"]),
        ({"head": {"name": "sem", "options": {"rho": "abc"}}}, ["head.options.rho", "a number"]),
        ({"head": {"name": "sem", "options": {"rho": 1.5}}}, ["head.options.rho=1.5", "[0, 1]"]),
        (
            {"head": {"name": "sem", "options": {"policy": "bernouli"}}},
            ["head.options.policy", "'bernoulli'"],
        ),
        ({"head": {"name": "ddc", "options": {"p0": 0.6, "pg": 0.6}}}, ["head.options", "below 1"]),
        ({"head": {"name": "sem", "options": {"scaling": "x"}}}, ["head.options", "inverted"]),
        ({"loss": {"name": "gce", "options": {"q": 5}}}, ["loss.options", "q=5"]),
        ({"method": {"options": {"mixup": "yes"}}}, ["method.options.mixup", "a number"]),
        ({"model": {"name": "mlp", "options": {"hidden": ["a"]}}}, ["model.options.hidden"]),
        ({"model": {"name": "mlp", "options": {"hidden": [0]}}}, ["model.options.hidden=[0]", "1"]),
        ({"model": {"name": "cnn8", "options": {"hidden": -1}}}, ["model.options.hidden=-1", "0"]),
        ({"model": {"width": 0}}, ["model.width=0", "above 0"]),
        ({"noise": {"spec": "symetric:0.4"}}, ["noise.spec", "'symmetric'"]),
        ({"noise": {"spec": "sym:40"}}, ["noise.spec", "rate=40.0", "[0, 1]", "0.4?"]),
        ({"noise": {"spec": "sym:lots"}}, ["noise.spec", "rate='lots'", "a number"]),
        ({"noise": {"spec": "sym"}}, ["noise.spec", "needs a rate"]),
        ({"noise": {"spec": "human:worse"}}, ["noise.spec", "subset='worse'", "'worst'?"]),
        ({"noise": {"protocol": "jall"}}, ["noise.protocol='jall'", "'jal'"]),
        (
            {"noise": {"spec": "idn:0.4", "protocol": "apl"}},
            ["noise.protocol='apl'", "'paper' or 'jal'"],
        ),
        ({"noise": {"seed": -3}}, ["noise.seed=-3", "[0, 4294967295]"]),
        ({"noise": {"seed": 1.5}}, ["noise.seed=1.5", "whole number"]),
        ({"data": {"views": "cifar10/divedemix"}}, ["data.views", "'cifar10/dividemix'"]),
        (
            {"data": {"spec": "imagefolder:x", "options": {"size": 0}}},
            ["data.options.size=0", "at least 1"],
        ),
        (
            {"data": {"spec": "imagefolder:x", "options": {"on_broken": "skipp"}}},
            ["data.options.on_broken='skipp'", "'skip'"],
        ),
        ({"data": {"spec": "npz:x", "options": {"seed": -1}}}, ["data.options.seed=-1", "0"]),
        (
            {"data": {"spec": "cifar10", "options": {"recipe": "divide"}}},
            ["data.options.recipe='divide'", "'dividemix'"],
        ),
        ({"model": {"name": "mlp", "pretrained": True}}, ["model.pretrained", "'mlp'"]),
        ({"model": {"name": "timm:resnet18", "width": 2}}, ["model.width", "fixed width"]),
        (
            {"data": {"spec": "npz:x", "options": {"test_fraction": 2}}},
            ["data.options.test_fraction", "(0, 1)"],
        ),
        (
            {"optim": {"schedule": {"name": "step", "options": {"size": "a"}}}},
            ["optim.schedule.options.size", "whole number"],
        ),
        ({"head": {"options": {"a": {"b": 1}}}}, ["head.options.a", "text or a list"]),
        ({"train": 5}, ["train=5", "a mapping"]),
        (
            {"optim": {"schedule": {"name": "step"}}},
            ["optim.schedule.options.size", "needed"],
        ),
    ],
)
def test_wrong_settings_are_refused_with_path_and_help(layer, words):
    with pytest.raises(UserError) as caught:
        resolve(layer)
    for word in words:
        assert word in str(caught.value)


def test_every_field_has_a_docstring_and_the_schema_carries_it():
    schema = json_schema()
    for name, cls in vars(config_module).items():
        if inspect.isclass(cls) and name.endswith("Config"):
            own = schema if name == "Config" else schema["$defs"][name]
            for field in cls.model_fields:
                entry = own["properties"][field]
                if "$ref" in entry:
                    entry = schema["$defs"][entry["$ref"].rsplit("/", 1)[1]]
                assert len(entry["description"]) > 8, f"{name}.{field}"


def test_yaml_round_trip_is_exact(tmp_path):
    config = resolve({"head": {"name": "sem"}, "loss": {"name": "jal"}, "optim": {"lr": 1e-3}})
    path = tmp_path / "config.yaml"
    path.write_text(dump_yaml(config))
    assert resolve(load_yaml(path)) == config
    assert build(load_yaml(path)) == config


def test_no_option_stays_hidden():
    config = resolve({"head": {"name": "sem"}, "loss": {"name": "gce"}})
    assert config.head.options["beta"] == 0.9
    assert config.loss.options["q"] == 0.7
    assert config.method.options["mixup"] == 0.0
    assert config.optim.schedule.options["minimum"] == 0.0


def test_numbers_in_yaml_that_only_look_like_strings(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("optim: {lr: 1e-3, weight_decay: 5E-4}\nname: 1e\n")
    values = load_yaml(path)
    assert values == {"optim": {"lr": 1e-3, "weight_decay": 5e-4}, "name": "1e"}


@sweep("text", ["- a\n- b\n", "a: [", "just words"])
def test_files_that_hold_no_config(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="yaml"):
        load_yaml(path)


def test_assignments():
    values = assign({"train": {"seed": 1}}, ["train.epochs=5", "optim.clip=null", "name=a=b"])
    assert values == {"train": {"seed": 1, "epochs": 5}, "optim": {"clip": None}, "name": "a=b"}
    for line in ("epochs", "=3", "a..b=1"):
        with pytest.raises(UserError, match="set takes"):
            assign({}, [line])
    with pytest.raises(UserError, match="holds a value"):
        assign({"name": "x"}, ["name.y=1"])


def test_merge_leaves_its_arguments_alone():
    first = {"a": {"b": [1]}}
    merged = merge(first, {"a": {"c": 2}})
    merged["a"]["b"].append(3)
    assert first == {"a": {"b": [1]}}


@sweep(
    ("layer", "same"),
    [
        ({"eval": {"batch_size": 7}}, True),
        ({"log": {"trackers": []}}, True),
        ({"name": "other"}, True),
        ({"data": {"test_limit": 9}}, True),
        ({"head": {"options": {"inference": "expected"}}}, True),
        ({"head": {"options": {"rho": 0.4}}}, False),
        ({"noise": {"seed": 1}}, False),
        ({"train": {"seed": 1}}, False),
        ({"optim": {"lr": 0.02}}, False),
    ],
)
def test_the_hash_names_what_is_trained(layer, same):
    base = {"head": {"name": "sem"}}
    assert (config_hash(resolve(base)) == config_hash(resolve(base, layer))) is same


def test_the_hash_is_stable_between_sessions():
    text = yaml.safe_load(dump_yaml(resolve({})))
    assert text.pop("schema") == 2
    assert config_hash(resolve(text)) == config_hash(resolve({}))


def test_options_of_a_factory():
    def factory(given, *, a, b=(1, 2)):
        return given, a, b

    assert check_options(factory, {"a": 3}, "x", provided=("given",)) == {"a": 3, "b": [1, 2]}
    with pytest.raises(UserError, match=r"x\.a: needed"):
        check_options(factory, {}, "x", provided=("given",))


@sweep(
    "text",
    [
        "a: &a [1]\n"
        + "".join(f"b{i}: &b{i} [*b{i - 1}, *b{i - 1}]\n" for i in range(1, 60)).replace(
            "*b0", "*a"
        ),
        "a: &a [*a]\n",
        "train: &t {epochs: *t}\n",
        "a: " + "[" * 5000,
    ],
)
def test_endless_yaml_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"bomb\.yaml") as caught:
        load_yaml(path)
    assert "\n" not in str(caught.value)


def test_a_config_is_frozen_and_written_with_its_schema_version(tmp_path):
    config = resolve({})
    with pytest.raises(ValueError, match="frozen"):
        config.train.epochs = 3
    assert dump_yaml(config).startswith("schema: 2\n")
    path = tmp_path / "config.yaml"
    path.write_text(dump_yaml(config))
    assert "schema" not in load_yaml(path)


def test_without_pydantic_the_package_imports_and_training_names_the_extra():
    code = (
        "import sys; sys.modules['pydantic'] = None\n"
        "import edgemask as em\n"
        "em.SEMLinear(4, 2)\n"
        "try:\n    em.fit\nexcept em.errors.MissingExtraError as error:\n    print(error)\n"
    )
    code = code.replace("em.errors.", "__import__('edgemask.errors').errors.")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "edgemask[app]"' in done.stdout
