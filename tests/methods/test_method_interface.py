"""The interface with a method that uses all of it: two networks in turn, a teacher, a table."""

from __future__ import annotations

import os
import signal
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F

from edgemask.data import Loader, load
from edgemask.engine import Interrupted, Objects, Observer, resolve, train
from edgemask.engine.checkpoint import Checkpoints
from edgemask.errors import UserError
from edgemask.methods import METHODS, Feed, Method, Phase, StepResult
from edgemask.methods.parts import SampleTable
from sweeps import sweep

SETTINGS = {
    "data": {"spec": "digits", "limit": 120, "test_limit": 60},
    "noise": {"spec": "sym:0.4"},
    "model": {"name": "small-cnn", "width": 0.25},
    "head": {"name": "sem"},
    "train": {"epochs": 2, "batch_size": 16},
    "log": {"trackers": []},
}


class Alternating(Method):
    """Trains two networks in turn on the half with small loss; a teacher follows the first."""

    networks = ("a", "b")
    copies: ClassVar = {"teacher": "a"}
    roles: ClassVar = {
        "a": ("main", "pseudo", "peer", "teacher"),
        "b": ("main", "pseudo", "peer", "teacher"),
    }
    uses_criterion = False

    def __init__(self, *, keep: float = 0.5):
        self.keep = keep
        self.log: list = []

    def setup(self, task, nets):
        super().setup(task, nets)
        self.losses = SampleTable(task.num_samples, fill=-1.0)
        self.remember("losses", self.losses)

    def phases(self, epoch):
        return ("a", "b")

    def begin(self, phase, epoch):
        peer = "b" if phase == "a" else "a"
        assert not torch.is_inference_mode_enabled()

        def loss(batch):
            assert not self.nets[peer].training
            logits = self.nets[peer](batch.views[0])
            return {"loss": F.cross_entropy(logits, batch.target, reduction="none")}

        scores = self.task.score(loss)["loss"]
        order = scores.argsort()
        count = int(self.keep * len(order))
        return Phase(
            name=phase,
            train=(phase,),
            frozen=(peer,),
            shadow=("teacher",),
            feeds={
                "labelled": Feed(views=("weak", "weak"), indices=order[:count].cpu(), batch_size=8),
                "unlabelled": Feed(views=("none",), indices=order[count:].cpu(), batch_size=16),
            },
        )

    def step(self, phase, batch, clock):
        (peer,) = phase.frozen
        mine, labelled, unlabelled = phase.name, batch["labelled"], batch.get("unlabelled")
        net = self.nets[mine]
        assert net.training
        assert not self.nets[peer].training
        assert self.nets["teacher"].training
        assert all(p.requires_grad for p in net.parameters())
        assert not any(p.requires_grad for p in self.nets[peer].parameters())
        guess = self.logits(mine, labelled.views[1], "pseudo")
        other = self.logits(peer, labelled.views[1], "peer")
        teacher = self.logits("teacher", labelled.views[1], "teacher")
        assert not any(t.requires_grad for t in (guess, other, teacher))
        logits = self.logits(mine, labelled.views[0])
        rows = F.cross_entropy(logits, labelled.target, reduction="none")
        self.losses.write(labelled.index, rows)
        sizes = (len(labelled.index), 0 if unlabelled is None else len(unlabelled.index))
        self.log.append((clock.epoch, phase.name, clock.step, clock.steps, sizes))
        return StepResult(rows.mean() + 0 * logits.sum(), {"kept": rows.detach().mean()})

    def after_step(self, phase, clock):
        if phase.name == "a":
            pairs = zip(self.nets["teacher"].parameters(), self.nets["a"].parameters(), strict=True)
            with torch.no_grad():
                for teacher, student in pairs:
                    teacher.lerp_(student, 0.1)

    def end_epoch(self, epoch):
        return {"seen": float((self.losses.values >= 0).float().mean())}

    def trust(self):
        return (self.losses.values < 1).float()


def run_it(tmp_path, name="run", method=None, observers=(), **changes):
    config = resolve(SETTINGS, {"method": {"name": "object:alternating"}}, changes)
    method = method or Alternating()
    return train(
        config, out=tmp_path / name, objects=Objects(method=method), observers=observers
    ), method


def test_two_networks_in_turn(tmp_path):
    run, method = run_it(tmp_path)
    assert run.finished
    # 60 kept samples in batches of 8: seven full ones and one of four.
    assert [entry[:2] for entry in method.log[:9]] == [(0, "a")] * 8 + [(0, "b")]
    assert method.log[0][3] == 8
    # 60 others in batches of 16: four batches, then again from the first.
    assert [entry[4][1] for entry in method.log[:8]] == [16, 16, 16, 12] * 2
    # One mask and one update a step for the network that learns; nothing for the others.
    assert int(method.nets["a"].head.steps) == 16
    assert int(method.nets["b"].head.steps) == 16
    assert int(method.nets["teacher"].head.steps) == 0
    row = run.history[-1]
    assert row["train/kept"] == pytest.approx(row["train/loss"], rel=1e-6)
    assert 0.4 < row["seen"] <= 1
    assert set(run.trust.tolist()) <= {0.0, 1.0}


def test_the_ensemble_is_what_is_tested_and_deployed(tmp_path):
    run, method = run_it(tmp_path)
    x = torch.randn(3, 1, 8, 8)
    with torch.no_grad():
        nets = [method.nets[name].eval() for name in "ab"]
        torch.testing.assert_close(run.model(x), (nets[0](x) + nets[1](x)) / 2)
    assert not torch.equal(nets[0].head.weight, nets[1].head.weight)


def test_each_network_is_tested_beside_the_ensemble(tmp_path):
    run, method = run_it(tmp_path, data={"test_limit": None})
    bundle = load("digits")
    whole = Loader(
        bundle.test, bundle=bundle, views=("none",), batch_size=10_000, shuffle=False, seed=0
    )
    _, (x,), truth = whole.batch(0)
    with torch.no_grad():
        own = {
            name: float((method.nets[name].eval()(x).argmax(1) == truth).float().mean())
            for name in "ab"
        }
    row = run.history[-1]
    assert {name: row[f"test/accuracy.{name}"] for name in "ab"} == pytest.approx(own)
    assert row["test/networks_accuracy"] == pytest.approx(sum(own.values()) / 2)
    summary = run.summary["test/networks_accuracy"]
    assert summary["last"] == row["test/networks_accuracy"]


def test_the_first_network_starts_as_in_a_plain_run(tmp_path):
    starts = {}

    class Peek(Alternating):
        def setup(self, task, nets):
            super().setup(task, nets)
            starts["a"] = nets["a"].head.weight.detach().clone()
            assert torch.equal(nets["teacher"].head.weight, nets["a"].head.weight)

    class Plain(METHODS["supervised"]):
        def setup(self, task, nets):
            super().setup(task, nets)
            starts["plain"] = nets["net"].head.weight.detach().clone()

    run_it(tmp_path, "peek", Peek())
    run_it(tmp_path, "plain", Plain())
    assert torch.equal(starts["a"], starts["plain"])


@pytest.mark.parametrize("stops", [[3], [11], [5, 5, 12]])
def test_stopped_in_any_phase_it_goes_on_with_the_same_split(stops, tmp_path):
    whole, _ = run_it(tmp_path, "whole")

    class Ask(Observer):
        def __init__(self, after):
            self.left = after

        def on_step(self, **_):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGTERM)

    for after in stops:
        with pytest.raises(Interrupted):
            run_it(tmp_path, "parts", observers=[Ask(after)])
    parts, _ = run_it(tmp_path, "parts")
    for name in ("model.safetensors",):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes()
    states = [Checkpoints(run.path / "checkpoints").load() for run in (whole, parts)]
    assert torch.equal(*(s["method"]["losses"]["values"] for s in states))
    assert torch.equal(*(s["networks"]["teacher"]["head.weight"] for s in states))
    drop = {"seconds"}
    rows = [
        [{k: v for k, v in row.items() if k not in drop} for row in run.history]
        for run in (whole, parts)
    ]
    assert rows[0] == rows[1]


def test_full_and_empty_selections(tmp_path):
    run, method = run_it(tmp_path, "full", Alternating(keep=1.0))
    assert {entry[4][1] for entry in method.log} == {0}
    assert run.finished
    run, method = run_it(tmp_path, "empty", Alternating(keep=0.0))
    assert method.log == []
    assert run.finished


def test_parts_of_a_network_can_learn_alone(tmp_path):
    class HeadOnly(METHODS["supervised"]):
        def begin(self, phase, epoch):
            return Phase(name=phase, train=("net.head",), lr=0.5)

    class Watch(HeadOnly):
        def setup(self, task, nets):
            super().setup(task, nets)
            self.before = {n: p.detach().clone() for n, p in nets["net"].named_parameters()}

    run, method = run_it(tmp_path, method=Watch())
    for name, value in method.nets["net"].named_parameters():
        assert torch.equal(value, method.before[name]) is not name.startswith("head.")
    assert run.history[0]["lr"] == 0.5


class Oversampled(METHODS["supervised"]):
    """Draws sample 3 three times and others once, for seven steps whatever the feed's length."""

    def setup(self, task, nets):
        super().setup(task, nets)
        self.seen = self.remember("seen", SampleTable(task.num_samples))
        self.sizes = []

    def begin(self, phase, epoch):
        feed = Feed(indices=torch.tensor([3, 3, 3, 5, 7, 9, 11, 13, 15, 17]), batch_size=4)
        return Phase(name=phase, train=("net",), feeds={"train": feed}, steps=7)

    def step(self, phase, batch, clock):
        index = batch["train"].index
        self.seen.add(index, torch.ones(len(index)))
        self.sizes.append((clock.steps, len(index)))
        return super().step(phase, batch, clock)


def test_a_feed_may_repeat_samples_and_a_phase_may_have_its_own_length(tmp_path):
    run, method = run_it(tmp_path, method=Oversampled(), train={"epochs": 1})
    assert run.finished
    # Two passes of 4 + 4 + 2 samples, and one batch of a third.
    assert method.sizes == [(7, 4), (7, 4), (7, 2)] * 2 + [(7, 4)]
    seen = method.seen.values
    assert seen.sum() == 24
    assert 6 <= seen[3] <= 9
    others = seen[[5, 7, 9, 11, 13, 15, 17]]
    assert ((others >= 2) & (others <= 3)).all()
    assert run.history[0]["step"] == 7

    class Killed(Exception):  # noqa: N818
        pass

    class Kill(Observer):
        def on_step(self, *, step, **_):
            if step == 5:
                raise Killed

    # In the middle of the second pass.
    changes = {"train": {"epochs": 1}, "log": {"checkpoint_steps": 1}}
    with pytest.raises(Killed):
        run_it(tmp_path, "broken", Oversampled(), [Kill()], **changes)
    again, resumed = run_it(tmp_path, "broken", Oversampled(), **changes)
    assert torch.equal(resumed.seen.values, seen)
    for one, other in zip(run.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


class Extended(METHODS["supervised"]):
    """Adds a second classifier, which learns beside the first."""

    neck = "linear"

    def extend(self, name, net):
        net.second = torch.nn.Linear(net.num_features, net.num_classes)
        return net

    def setup(self, task, nets):
        super().setup(task, nets)
        self.start = nets["net"].second.weight.detach().clone()

    def step(self, phase, batch, clock):
        _, (x,), y = batch["train"]
        features = self.run("net", lambda net: net.embed(x), "auxiliary")
        second = F.cross_entropy(self.nets["net"].second(features), y)
        return StepResult(second + F.cross_entropy(self.nets["net"].head(features), y))


def test_what_a_method_adds_to_a_network_is_not_the_heads(tmp_path):
    starts = []
    for head in ("linear", "sem", "kan"):
        run, method = run_it(tmp_path, head, Extended(), head={"name": head})
        net = method.nets["net"]
        assert type(net.second) is torch.nn.Linear
        assert type(net.neck) is torch.nn.Linear
        assert not torch.equal(net.second.weight, method.start)
        assert {"second.weight", "neck.weight"} <= set(run.model.state_dict())
        starts.append(method.start)
    assert torch.equal(starts[0], starts[1])
    assert torch.equal(starts[0], starts[2])


def test_a_config_may_name_another_neck_than_the_method(tmp_path):
    options = {"neck": "mlp", "hidden": 24}
    _, method = run_it(tmp_path, method=Extended(), model={"options": options})
    assert isinstance(method.nets["net"].neck, torch.nn.Sequential)
    assert method.nets["net"].num_features == 48
    with pytest.raises(UserError, match=r"model\.options\.neck='mpl': expected .*'mlp'"):
        resolve(SETTINGS, {"model": {"options": {"neck": "mpl"}}})


def test_phases_survive_as_plain_data():
    phase = Phase(
        name="x",
        train=("a.head",),
        frozen=("b",),
        feeds={"one": Feed(views=("weak", "strong"), indices=torch.tensor([1, 2]), drop_last=True)},
        lr=0.1,
        steps=9,
    )
    again = Phase.from_state(phase.state_dict())
    assert again.learners == ("a",)
    assert again.steps == 9
    assert again.feeds["one"].views == ("weak", "strong")
    assert torch.equal(again.feeds["one"].indices, torch.tensor([1, 2]))
    assert (again.train, again.frozen, again.lr) == (phase.train, phase.frozen, phase.lr)


def test_mistakes_in_a_method_are_named():
    with pytest.raises(ValueError, match="scalar"):
        StepResult(torch.zeros(3))
    with pytest.raises(NotImplementedError):
        Method().step(Phase(name="x", train=()), {}, None)
    method = Method()
    method.setup(None, {})
    with pytest.raises(ValueError, match="remembers"):
        method.load_state_dict({"old": {}})


@sweep(
    ("options", "word"),
    [({"mixup": -1.0}, "mixup"), ({"sam": -0.1}, "sam"), ({"label_smoothing": 1.0}, "smoothing")],
)
def test_supervised_refuses_wrong_options(options, word):
    with pytest.raises(ValueError, match=word):
        METHODS["supervised"](**options)


def test_every_method_declares_its_passes():
    for name, method in METHODS.items():
        assert method.roles, name
        for roles in method.roles.values():
            assert "main" in roles, name


def test_methods_are_found_under_the_spelling_of_their_papers():
    for spelling in ("co-teaching", "jo-src", "jo-snc", "jo_snc"):
        name = METHODS.name_of(spelling)
        assert name == spelling.replace("_", "-")
        assert METHODS[spelling] is METHODS[name]
