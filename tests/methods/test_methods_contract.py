"""What holds for every method of the registry, whichever it is."""

from __future__ import annotations

import inspect
from collections import Counter

import pytest
import torch

from edgemask._options import check_options, option_defaults
from edgemask.engine import Objects, resolve, train
from edgemask.engine.checkpoint import Checkpoints
from edgemask.engine.observer import Observer
from edgemask.engine.stepping import Stepper
from edgemask.errors import UserError
from edgemask.heads import HEADS
from edgemask.methods import METHODS, Method
from head_helpers import MASKING
from sweeps import sweep


@sweep("name", METHODS)
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

    def step(self, phase, batches, clock, samples):
        before = scores(self.method)
        roles.clear()
        result = real_step(self, phase, batches, clock, samples)
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


@sweep("accumulate", [1, 2])
@pytest.mark.parametrize("name", METHODS)
def test_one_score_update_a_step_for_each_network_that_learns(
    name, accumulate, tiny, tmp_path, watched
):
    watched.clear()
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


@sweep("head", HEADS)
@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_with_every_head(name, head, tiny, tmp_path, watched):
    watched.clear()
    settings = {"method": {"name": name}, "head": {"name": head}, "data": {"limit": 64}}
    run = train(tiny(settings), out=tmp_path / "run")
    assert run.finished
    counts = hasattr(HEADS[head](4, 2), "steps")
    assert counts or head not in MASKING
    for method, phase, made, _ in watched:
        expected = {net: int(net in phase.learners) for net in method.networks}
        assert made == (expected if counts else {}), phase.name
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


@sweep("name", METHODS)
def test_state_of_another_method_is_refused(name, tiny, tmp_path, needed):
    method = METHODS[name](**needed(name))
    config = tiny({"method": {"name": f"object:{name}"}, "loss": {"name": method.loss or "ce"}})
    train(config, out=tmp_path / "run", objects=Objects(method=method))
    with pytest.raises(ValueError, match="the checkpoint remembers"):
        method.load_state_dict({"something": {}})


@pytest.mark.parametrize(
    ("name", "option"), [("coteaching", "forget_rate"), ("jocor", "forget_rate"), ("cdr", "tau")]
)
def test_a_noise_rate_that_is_not_known_is_asked_for(name, option, tiny, tmp_path):
    given = {"noise": {"spec": "given"}, "method": {"name": name}}
    with pytest.raises(UserError, match=rf"{METHODS[name].__name__} has to know.*{option}"):
        train(tiny(given), out=tmp_path / "run")
    told = {**given, "method": {"name": name, "options": {option: 0.3}}}
    assert train(tiny(told), out=tmp_path / "told").finished


@sweep(
    ("name", "options", "match"),
    [
        ("coteaching", {"gradual": -1}, "gradual=-1: expected a number of at least 0"),
        ("coteaching", {"schedule": "mine"}, "schedule='mine': expected 'paper' or 'released'"),
        ("coteaching", {"exponent": 0}, "exponent=0: expected a number above 0"),
        ("jocor", {"co_lambda": 2}, r"co_lambda=2: expected a number in \[0, 1\]"),
        ("ca2c", {"top_k": 0}, "top_k=0: expected a number of at least 1"),
        ("ca2c", {"top_k": 10}, "leaves none of 10 classes"),
        ("ca2c", {"warmup": 2}, r"CA2C: warmup must lie in \[0, 2\)"),
        ("josrc", {"teacher_mode": "dead"}, "'train' or 'eval'"),
        ("josrc", {"smoothing": 1.5}, r"smoothing=1\.5: expected"),
        ("josnc", {"neighbours": 0}, "neighbours=0: expected a number of at least 1"),
        ("josnc", {"thresholds": "x"}, "'class' or 'global'"),
        ("josnc", {"temperature": 0}, "temperature=0: expected a number above 0"),
    ],
)
def test_wrong_options_are_named(name, options, match, tiny, tmp_path):
    with pytest.raises(UserError, match=match):
        train(tiny({"method": {"name": name, "options": options}}), out=tmp_path / "run")


@pytest.mark.parametrize("value", ["yes", -1, True])
def test_a_wrong_option_is_refused_when_the_config_is_resolved(value):
    with pytest.raises(UserError, match=r"method\.options\.mixup=.*: expected a number"):
        resolve({"method": {"options": {"mixup": value}}})


@sweep("name", METHODS)
def test_every_option_has_a_type_that_a_config_is_checked_against(name):
    defaults = option_defaults(METHODS[name])
    assert check_options(METHODS[name], {}, "method.options") == defaults
    for option, default in defaults.items():
        wrong = object() if isinstance(default, str) or default is None else "yes"
        with pytest.raises(UserError, match=rf"method\.options\.{option}=.*: expected "):
            check_options(METHODS[name], {option: wrong}, "method.options")
        with pytest.raises(UserError, match=rf"{option}=.*: expected "):
            METHODS[name](**{option: wrong})


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
