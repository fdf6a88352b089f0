"""Config: what is refused and how, what is filled in, what the hash sees."""

from __future__ import annotations

import dataclasses
import inspect

import pytest
import yaml

from edgemask.engine import assign, config_hash, dump_yaml, json_schema, load_yaml, merge, resolve
from edgemask.engine import config as config_module
from edgemask.engine.schema import build, check_options
from edgemask.errors import UserError


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"optim": {"larning_rate": 1}}, ["optim.larning_rate", "lr", "momentum"]),
        ({"trian": {}}, ["trian", "'train'"]),
        ({"optim": {"schedule": {"nmae": "x"}}}, ["optim.schedule.nmae", "'name'"]),
        ({"optim": {"name": "sdg"}}, ["optim.name", "'sgd'", "'adam'", "'sdg'"]),
        ({"train": {"epochs": "many"}}, ["train.epochs", "integer", "'many'"]),
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
        if inspect.isclass(cls) and dataclasses.is_dataclass(cls):
            own = schema if name == "Config" else schema["$defs"][name]
            for field in dataclasses.fields(cls):
                entry = own["properties"][field.name]
                if "$ref" in entry:
                    entry = schema["$defs"][entry["$ref"].rsplit("/", 1)[1]]
                assert len(entry["description"]) > 8, f"{name}.{field.name}"


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


@pytest.mark.parametrize("text", ["- a\n- b\n", "a: [", "just words"])
def test_files_that_hold_no_config(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match="yaml"):
        load_yaml(path)


def test_assignments():
    values = assign({"train": {"seed": 1}}, ["train.epochs=5", "optim.clip=null", "name=a=b"])
    assert values == {"train": {"seed": 1, "epochs": 5}, "optim": {"clip": None}, "name": "a=b"}
    for line in ("epochs", "=3", "a..b=1"):
        with pytest.raises(UserError, match="--set"):
            assign({}, [line])
    with pytest.raises(UserError, match="holds a value"):
        assign({"name": "x"}, ["name.y=1"])


def test_merge_leaves_its_arguments_alone():
    first = {"a": {"b": [1]}}
    merged = merge(first, {"a": {"c": 2}})
    merged["a"]["b"].append(3)
    assert first == {"a": {"b": [1]}}


@pytest.mark.parametrize(
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
    assert config_hash(resolve(text)) == config_hash(resolve({}))


def test_options_of_a_factory():
    def factory(given, *, a, b=(1, 2)):
        return given, a, b

    assert check_options(factory, {"a": 3}, "x", given=("given",)) == {"a": 3, "b": [1, 2]}
    with pytest.raises(UserError, match=r"x\.a: needed"):
        check_options(factory, {}, "x", given=("given",))
