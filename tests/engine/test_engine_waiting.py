"""A training step waits for the device at progress ticks only."""

from __future__ import annotations

import json
import math
import traceback
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import edgemask.engine.loop as loop_module
from clip_helpers import digits_features
from edgemask.engine import LossError, Objects, Observer, merge, resolve, train
from edgemask.engine.checkpoint import Checkpoints
from edgemask.engine.feeds import Feeds
from edgemask.engine.processes import Processes
from edgemask.engine.progress import Sums, joint_means
from edgemask.engine.stepping import Stepper
from edgemask.methods import StepResult, Supervised
from guarantees.kinds import SETTINGS, kinds
from torchrun_helper import torchrun

# Operations whose result, or the size of it, the host must have before it can go on.
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "unique"}


def caller() -> str:
    """The innermost function of EdgeMask that is running, with its subpackage."""
    for frame in reversed(traceback.extract_stack()):
        path = Path(frame.filename)
        if "edgemask" in path.parts[:-1]:
            return f"{path.parent.name}/{path.name}:{frame.name}"
    return "torch"


class CountWaits(TorchDispatchMode):
    def __init__(self, skip: tuple[str, ...] = ("losses/", "heads/adaptive.py:_known_to_be_false")):
        super().__init__()
        self.skip = skip
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        waits = name in WAITING
        if name in ("index", "index_put", "index_put_"):
            waits = any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1])
        # Losses check labels on the CPU only, and a head looks at a flag there only.
        if waits and not (where := caller()).startswith(self.skip):
            self.counts[f"{name} in {where}"] += 1
        return func(*args, **(kwargs or {}))


class Steps(Observer):
    """Keeps the counts as they were after each step."""

    def __init__(self, mode):
        self.mode = mode
        self.after: dict[tuple[int, int], Counter[str]] = {}

    def on_step(self, *, epoch, step, loss, **_):
        assert math.isfinite(loss)
        self.after[epoch, step] = Counter(self.mode.counts)


@pytest.fixture
def waits(tiny, tmp_path, monkeypatch):
    """Train; return what was waited for in the steps after the first one, by epoch."""

    def run(*layers):
        real = Feeds._at

        def batch(self, position):
            # Batches are made on the host, whatever the device of the networks.
            with _disable_current_modes():
                return real(self, position)

        monkeypatch.setattr(Feeds, "_at", batch)
        monkeypatch.setattr("edgemask.heads.native.enabled", False)  # what a head does on a GPU
        with CountWaits() as mode:
            watch = Steps(mode)
            train(tiny(*layers), out=tmp_path / "run", observers=[watch])
        assert mode.counts  # evaluation passes and checkpoints do wait
        return [watch.after[epoch, 7] - watch.after[epoch, 1] for epoch in (0, 1)]

    return run


@pytest.mark.parametrize("head", ["linear", "sem", "adaptive"])
@pytest.mark.parametrize(
    "layer",
    [{}, {"train": {"accumulate": 2}, "optim": {"clip": 1.0, "l1": 1e-5}}],
    ids=["plain", "accumulate"],
)
def test_no_step_between_two_ticks_waits(head, layer, waits, monkeypatch):
    monkeypatch.setattr(loop_module, "TICK_SECONDS", 1e9)
    assert waits({"head": {"name": head}}, layer) == [Counter(), Counter()]


def test_a_tick_reads_one_number(waits, monkeypatch):
    monkeypatch.setattr(loop_module, "TICK_SECONDS", 0.0)
    expected = {"_local_scalar_dense in engine/progress.py:mean": 6}
    assert waits({"head": {"name": "linear"}}) == [expected, expected]


class Explodes(Supervised):
    """Its loss is not a number from the fourth step of the second epoch on."""

    def step(self, phase, batch, clock):
        loss = super().step(phase, batch, clock).loss
        return StepResult(loss * math.nan if (clock.epoch, clock.step) == (1, 3) else loss)


# Where a step looks at numbers all the same, and why that costs little or cannot be avoided.
ON_THE_HOST = {
    # Drawn by the method's generator, which is on the CPU.
    "_local_scalar_dense in parts/mixing.py:draw_share",
    "_local_scalar_dense in parts/fmix.py:low_frequency_mask",
    # A short cut for the CPU, which looks at the labels.
    "_local_scalar_dense in losses/cross_entropy.py:forward",
}
MIX_A_SELECTION = {
    # Mixing the samples of a selection among each other needs their number.
    "promix": {"index in methods/promix.py:_loss"},
    "disc": {"index in methods/disc.py:step"},
}
LOSSES = (
    "gce",
    "sce",
    "nce+agce",
    "anl-ce-er",
    "jal-ce",
    "ldr",
    "logit-clipping",
    "forward-correction",
)


def one_hot(labels, classes):
    """Like torch's, which looks at the labels on the CPU alone."""
    return torch.zeros(*labels.shape, classes, dtype=torch.long).scatter_(-1, labels[..., None], 1)


def test_no_method_and_no_loss_waits_in_a_step(tmp_path, monkeypatch):
    # As on a GPU: no native kernels, and losses do not look at labels.
    monkeypatch.setattr("edgemask.heads.native.enabled", False)
    base = "edgemask.losses.base"
    monkeypatch.setattr(f"{base}.valid_labels", lambda y, _, ignored: y != ignored)
    monkeypatch.setattr(f"{base}._check_distributions", lambda _: None)
    monkeypatch.setattr(f"{base}._in_range", lambda *_: True)
    monkeypatch.setattr("torch.nn.functional.one_hot", one_hot)
    monkeypatch.setattr(loop_module, "TICK_SECONDS", 1e9)
    found: Counter[str] = Counter()
    real = Stepper.step

    def step(self, *args):
        with CountWaits(skip=("nothing",)) as mode:
            results = real(self, *args)
        found.update(mode.counts)
        return results

    monkeypatch.setattr(Stepper, "step", step)
    cases: dict[str, dict] = {}
    for name, layer in kinds(digits_features(tmp_path / "clip")).items():
        options = layer.get("method", {}).get("options", {})
        more = {"warmup": 1} if "warmup" in options else {}
        mixing = {key: 1.0 for key in ("alpha", "mixup") if key in options}
        cases[name] = merge(layer, {"method": {"options": {**more, **mixing}}})
    cases["promix"]["method"]["options"]["fmix"] = True
    cases |= {f"loss {name}": {"loss": {"name": name}} for name in LOSSES}
    cases["mixup"] = {"method": {"options": {"mixup": 1.0}}}
    quick = {
        "data": {"limit": 97},
        "model": {"name": "mlp", "options": {"hidden": [16]}},
        "train": {"epochs": 3},
    }
    for number, (name, layer) in enumerate(cases.items()):
        found.clear()
        train(resolve(merge(SETTINGS, layer, quick)), out=tmp_path / str(number))
        assert {*found} - ON_THE_HOST == MIX_A_SELECTION.get(name, set()), name


@pytest.mark.parametrize(
    ("log", "steps", "saved"),
    [({}, "0 and 7", 7), ({"checkpoint_steps": 2}, "3 and 5", 10)],
    ids=["at the end of the epoch", "before a checkpoint"],
)
def test_a_loss_between_two_ticks_stops_the_run(log, steps, saved, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(loop_module, "TICK_SECONDS", 1e9)
    config = tiny({"method": {"name": "object:explodes"}, "log": log, "optim": {"lr": 0.01}})
    expected = rf"loss became nan in epoch 1, between steps {steps} of phase 'train' \(learning"
    with pytest.raises(LossError, match=expected):
        train(config, out=tmp_path / "run", objects=Objects(method=Explodes()))
    state = Checkpoints(tmp_path / "run" / "checkpoints").load()
    assert state["progress"]["total_steps"] == saved
    assert all(value.isfinite().all() for value in state["networks"]["net"].values())


class Breaks(Explodes):
    """A method that cannot go on once its weights are not finite."""

    def step(self, phase, batch, clock):
        if not all(p.isfinite().all() for p in self.nets["net"].parameters()):
            raise ValueError("probabilities must not be negative")
        return super().step(phase, batch, clock)


def test_an_error_that_follows_from_such_a_loss_says_so(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(loop_module, "TICK_SECONDS", 1e9)
    config = tiny({"method": {"name": "object:breaks"}})
    with pytest.raises(LossError, match="loss became nan in epoch 1, between steps 0 and 4"):
        train(config, out=tmp_path / "run", objects=Objects(method=Breaks()))


def test_sums_are_exact_however_often_they_are_stored():
    values = torch.rand(50, generator=torch.Generator().manual_seed(0)) * 1e3
    sums, stored = Sums(torch.device("cpu")), Sums(torch.device("cpu"))
    total = 0.0
    for number, value in enumerate(values):
        total += float(value) * (1 + number)
        sums.add("loss", value, 1 + number)
        stored.add("loss", value, 1 + number)
        again = Sums(torch.device("cpu"))
        again.load_state_dict(stored.state_dict())
        stored = again
    assert sums.state_dict() == stored.state_dict() == {"loss": [total, 50 * 51 // 2]}
    assert sums.mean("loss") == total / (50 * 51 // 2)
    assert Sums(torch.device("cpu")).state_dict() == {}


def test_means_over_processes_weight_by_samples_and_take_missing_names():
    parts = [{"a": [6.0, 3], "b": [1.0, 1]}, {"a": [4.0, 1], "c": [0.0, 0]}]
    means = joint_means(parts)
    assert list(means) == ["a", "b", "c"]
    assert (means["a"], means["b"]) == (2.5, 1.0)
    assert math.isnan(means["c"])


def test_flags_of_a_single_process_stay_on_the_host():
    flags = (False, True)
    assert Processes(folder=None).any(*flags) == flags


@pytest.mark.long
def test_processes_stop_together_and_go_on_with_their_own_sums(tmp_path):
    worker = Path(__file__).with_name("ddp_stop_worker.py")
    for name, stop in (("whole", 0), ("parts", 1), ("parts", 0)):
        torchrun(worker, str(tmp_path / name), str(stop), processes=2)
    # A signal to the second process alone, in step 3, is agreed upon after step 8.
    stopped = [json.loads((tmp_path / f"stopped-{rank}.json").read_text()) for rank in (0, 1)]
    assert stopped == [{"steps": 8, "agreements": 1}] * 2
    rows = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "parts")
    ]
    for row in (*rows[0], *rows[1]):
        row.pop("seconds")
    assert rows[0] == rows[1]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]
