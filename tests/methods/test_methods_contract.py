"""What holds for every method of the registry, whichever it is."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from collections import Counter

import pytest
import torch

from edgemask import methods
from edgemask.engine import Objects, train
from edgemask.engine.checkpoint import Checkpoints
from edgemask.engine.observer import Observer
from edgemask.engine.stepping import Stepper
from edgemask.errors import UserError
from edgemask.heads import HEADS
from edgemask.methods import METHODS, Method
from edgemask.methods import parts as parts_package

MODULES = [
    *(f"edgemask.methods.{m.name}" for m in pkgutil.iter_modules(methods.__path__)),
    *(f"edgemask.methods.parts.{m.name}" for m in pkgutil.iter_modules(parts_package.__path__)),
]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    assert not doctest.testmod(importlib.import_module(name)).failed


@pytest.mark.parametrize("name", METHODS)
def test_options_are_documented_keywords(name):
    text = inspect.getdoc(METHODS[name])
    for parameter in inspect.signature(METHODS[name]).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY, parameter.name
        assert f"    {parameter.name}: " in text
        assert parameter.default is not parameter.empty


@pytest.fixture
def watched(monkeypatch):
    """Record, for each optimiser step, the score updates (masks drawn) of each network, and the
    roles used; a head without any counts none."""
    records = []
    roles = []

    def scores(method):
        heads = {name: method.nets[name].head for name in method.networks}
        return {name: int(head.steps) for name, head in heads.items() if hasattr(head, "steps")}

    real_step, real_run = Stepper.step, Method.run

    def step(self, phase, batches, clock):
        before = scores(self.method)
        roles.clear()
        result = real_step(self, phase, batches, clock)
        after = scores(self.method)
        made = {name: after[name] - before[name] for name in after}
        records.append((type(self.method), phase, made, tuple(roles)))
        return result

    def run(self, name, function, role="main"):
        roles.append(role)
        return real_run(self, name, function, role)

    monkeypatch.setattr(Stepper, "step", step)
    monkeypatch.setattr(Method, "run", run)
    return records


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_one_score_update_a_step_for_each_network_that_learns(
    name, accumulate, tiny, tmp_path, watched
):
    settings = {"method": {"name": name}, "train": {"accumulate": accumulate}}
    train(tiny(settings), out=tmp_path / "run")
    assert watched
    for method, phase, made, used in watched:
        expected = {net: int(net in phase.learners) for net in method.networks}
        assert made == expected, phase.name
        declared = Counter(method.roles[phase.name])
        assert "main" in used
        if accumulate == 1:
            assert Counter(used) <= declared, phase.name
    # Every phase that a method declares was seen, so its roles were put to the test.
    phases = {phase.name for _, phase, _, _ in watched}
    assert phases == set(METHODS[name].roles)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_with_every_head(name, head, tiny, tmp_path, watched):
    settings = {"method": {"name": name}, "head": {"name": head}, "data": {"limit": 64}}
    run = train(tiny(settings), out=tmp_path / "run")
    assert run.finished
    masks = hasattr(HEADS[head](4, 2), "steps")
    assert masks == (head in {"sem", "skan", "dropconnect", "ddc"})
    for method, phase, made, _ in watched:
        expected = {net: int(net in phase.learners) for net in method.networks}
        assert made == (expected if masks else {}), phase.name
    trust = run.trust
    assert len(trust) == 64
    assert ((trust >= 0) & (trust <= 1)).all()


class KilledError(Exception):
    """Stands for SIGKILL: nothing is saved on the way out."""


class Kill(Observer):
    def __init__(self, steps):
        self.left = steps

    def on_step(self, **_):
        self.left -= 1
        if not self.left:
            raise KilledError


def same(first, second, path=""):
    assert type(first) is type(second), path
    if isinstance(first, torch.Tensor):
        assert torch.equal(torch.nan_to_num(first, -7), torch.nan_to_num(second, -7)), path
    elif isinstance(first, dict):
        assert first.keys() == second.keys(), path
        for key in first:
            if key != "seconds":
                same(first[key], second[key], f"{path}.{key}")
    elif isinstance(first, list | tuple):
        assert len(first) == len(second), path
        for number, pair in enumerate(zip(first, second, strict=True)):
            same(*pair, f"{path}[{number}]")
    else:
        assert first == second or first != first, path


@pytest.mark.parametrize("name", METHODS)
def test_killed_in_either_epoch_and_resumed_ends_with_the_same_bits(name, tiny, tmp_path):
    settings = {"method": {"name": name}, "log": {"checkpoint_steps": 1}}
    config = tiny(settings)
    whole = train(config, out=tmp_path / "whole")
    steps = whole.history[-1]["step"]
    broken = tmp_path / "broken"
    # The third step of the first epoch, and later the second step of the last.
    for kill in (3, steps - 4):
        with pytest.raises(KilledError):
            train(config, out=broken, observers=[Kill(kill)])
    again = train(config, out=broken)
    same(*(Checkpoints(run.path / "checkpoints").load() for run in (whole, again)))
    assert (whole.trust == again.trust).all()


@pytest.mark.parametrize("name", METHODS)
def test_state_of_another_method_is_refused(name, tiny, tmp_path):
    method = METHODS[name]()
    config = tiny({"method": {"name": f"object:{name}"}, "loss": {"name": method.loss or "ce"}})
    train(config, out=tmp_path / "run", objects=Objects(method=method))
    with pytest.raises(ValueError, match="the checkpoint remembers"):
        method.load_state_dict({"something": {}})


@pytest.mark.parametrize(
    ("name", "option"), [("coteaching", "forget_rate"), ("jocor", "forget_rate"), ("cdr", "tau")]
)
def test_a_noise_rate_that_is_not_known_is_asked_for(name, option, tiny, tmp_path):
    given = {"noise": {"spec": "given"}, "method": {"name": name}}
    with pytest.raises(UserError, match=rf"{name} has to know.*{option}"):
        train(tiny(given), out=tmp_path / "run")
    told = {**given, "method": {"name": name, "options": {option: 0.3}}}
    assert train(tiny(told), out=tmp_path / "told").finished


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("coteaching", {"gradual": -1}, "coteaching: gradual must be 0 or above, got -1"),
        ("coteaching", {"schedule": "mine"}, "'paper' or 'released', got 'mine'"),
        ("coteaching", {"exponent": 0}, "exponent must be above 0"),
        ("jocor", {"co_lambda": 2}, r"jocor: co_lambda must lie in \[0, 1\]"),
        ("ca2c", {"top_k": 0}, "ca2c: top_k must be 1 or above"),
        ("ca2c", {"top_k": 10}, "leaves none of 10 classes"),
        ("ca2c", {"warmup": 2}, r"ca2c: warmup must lie in \[0, 2\)"),
        ("josrc", {"teacher_mode": "dead"}, "'train' or 'eval'"),
        ("josrc", {"smoothing": 1.5}, "josrc: smoothing"),
        ("josnc", {"neighbours": 0}, "josnc: neighbours must be 1 or above"),
        ("josnc", {"thresholds": "x"}, "'class' or 'global'"),
        ("josnc", {"temperature": 0}, "temperature must be above 0"),
    ],
)
def test_wrong_options_are_named(name, options, match, tiny, tmp_path):
    with pytest.raises(UserError, match=match):
        train(tiny({"method": {"name": name, "options": options}}), out=tmp_path / "run")


def test_josnc_wants_a_projector(tiny, tmp_path):
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    config = tiny({"method": {"name": "josnc"}, "head": {"name": "linear"}})
    with pytest.raises(UserError, match=r"projector beside its classifier.*Sequential"):
        train(config, out=tmp_path / "run", objects=Objects(model=net))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("coteaching", {"schedule": "released"}),
        ("coteaching", {"views": "weak"}),
        ("jocor", {"exponent": 2.0}),
        ("ca2c", {"rectified_penalty": True}),
        ("josrc", {"teacher_mode": "eval"}),
        ("josnc", {"warmup_heads_only": True}),
        ("josnc", {"thresholds": "global"}),
        ("josnc", {"contrast": "cross", "gamma": 0.5}),
        ("josnc", {"remembered": "key"}),
        ("josnc", {"top_k_decay": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_options_make_a_difference(name, options, tiny, tmp_path):
    def weights(more):
        changes = {"method": {"name": name, "options": more}, "train": {"epochs": 4}}
        run = train(tiny(changes), out=tmp_path / str(len(more)))
        return torch.cat([p.flatten() for p in run.model.parameters()])

    # High thresholds leave nothing clean for Jo-SNC, so that its options have a say.
    base = {"delta": 0.5, "tau_momentum": 0.0} if name == "josnc" else {}
    assert not torch.equal(weights(base), weights({**base, **options}))
