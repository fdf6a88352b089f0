"""A run's life: done once, taken up, refused, started over, watched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import edgemask._files as files_module
from edgemask._files import write_text
from edgemask.data import load
from edgemask.engine import (
    Interrupted,
    LossError,
    Observer,
    config_hash,
    dump_yaml,
    load_run,
    resume,
    train,
)
from edgemask.engine.checkpoint import Checkpoints
from edgemask.engine.rundir import RunDir, default_name
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.runs import read_run


class Count(Observer):
    def __init__(self):
        self.events: list[str] = []

    def on_start(self, info):
        self.info = info
        self.events.append("start")

    def on_step(self, *, loss, **_):
        assert loss == loss
        self.events.append("step")

    def on_epoch(self, metrics):
        self.events.append("epoch")

    def on_end(self, summary):
        self.events.append("end")


def snapshot(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_a_run_leaves_what_it_promises(tiny, tmp_path):
    watch = Count()
    config = tiny(
        {"data": {"validation": 0.1}, "eval": {"top5": True}, "train": {"record_every": 1}}
    )
    run = train(config, out=tmp_path / "run", observers=[watch])
    assert watch.events == ["start", *["step"] * 7, "epoch", *["step"] * 7, "epoch", "end"]
    assert watch.info.samples == 200
    history = run.history
    assert [row["epoch"] for row in history] == [0, 1]
    wanted = {
        "epoch", "step", "seconds", "lr", "train/loss", "test/accuracy", "test/balanced_accuracy",
        "test/top5", "validation/accuracy", "validation/balanced_accuracy", "head/retention",
        "confidence/clean", "confidence/noisy", "memorised", "corrected", "fitted",
    }  # fmt: skip
    assert set(history[0]) == wanted
    summary = run.summary
    assert summary["status"] == "finished"
    assert summary["test/accuracy"]["last"] == history[1]["test/accuracy"]
    assert summary["test/accuracy"]["mean_last_10"] == pytest.approx(
        np.mean([row["test/accuracy"] for row in history])
    )
    best = max(history, key=lambda row: row["validation/accuracy"])
    assert summary["test/accuracy"]["at_validation"] == best["test/accuracy"]
    assert summary["config_hash"] == config_hash(config)
    assert summary["noise_fingerprint"] == run.noise.fingerprint
    assert len(summary["per_class_accuracy"]) == 10
    samples = run.samples
    assert len(samples["index"]) == 200
    assert ((samples["trust"] >= 0) & (samples["trust"] <= 1)).all()
    assert (samples["given"] == run.noise.noisy).all()
    assert (samples["clean"] == run.noise.clean).all()
    with np.load(run.path / "head.npz") as head:
        assert head["scores"].shape == (2, 10, 256)
        assert head["scores"].dtype == np.float16
        assert (head["histogram"].sum(1) == 2560).all()
        assert len(head["edges"]) == 51
    with np.load(run.path / "thumbnails.npz") as pictures:
        assert pictures["images"].shape == (len(pictures["index"]), 8, 8, 1)
        assert pictures["images"].dtype == np.uint8
        place = np.searchsorted(samples["index"], pictures["index"])
        assert (samples["index"][place] == pictures["index"]).all()
        # The 64 samples of lowest trust, then those of the random draw that are not among them.
        assert (samples["trust"][place[:64]] <= np.sort(samples["trust"])[63]).all()
        drawn = np.flatnonzero(samples["check"])
        assert sorted(samples["check"][drawn]) == list(range(1, 101))
        assert set(place[64:]) == set(drawn) - set(place[:64])
    digits = load("digits")
    assert (digits.train.labels[samples["index"]] == samples["clean"]).all()


def test_the_same_run_is_not_done_twice(tiny, tmp_path):
    train(tiny(), out=tmp_path / "run")
    before = snapshot(tmp_path / "run")
    watch = Count()
    run = train(tiny({"eval": {"batch_size": 64}}), out=tmp_path / "run", observers=[watch])
    assert watch.events == []
    assert run.finished
    assert snapshot(tmp_path / "run") == before


def test_same_config_and_seed_give_the_same_bits(tiny, tmp_path):
    runs = [train(tiny(), out=tmp_path / name) for name in "ab"]
    blobs = [(run.path / "model.safetensors").read_bytes() for run in runs]
    assert blobs[0] == blobs[1]
    other = train(tiny({"train": {"seed": 1}}), out=tmp_path / "c")
    assert (other.path / "model.safetensors").read_bytes() != blobs[0]
    assert other.noise.fingerprint == runs[0].noise.fingerprint


def test_fresh_starts_over_and_leaves_foreign_files_alone(tiny, tmp_path):
    run = train(tiny(), out=tmp_path / "run")
    (run.path / "notes.txt").write_text("mine")
    first = run.summary["test/accuracy"]
    watch = Count()
    train(tiny({"train": {"epochs": 1}}), out=run.path, fresh=True, observers=[watch])
    assert watch.events.count("epoch") == 1
    assert load_run(run.path).summary["epochs"] == 1
    assert load_run(run.path).summary["test/accuracy"] != first
    assert (run.path / "notes.txt").read_text() == "mine"


def test_another_run_in_the_folder_is_refused(tiny, tmp_path):
    train(tiny(), out=tmp_path / "run")
    before = snapshot(tmp_path / "run")
    with pytest.raises(UserError, match="holds another run"):
        train(tiny({"optim": {"lr": 0.5}}), out=tmp_path / "run")
    assert snapshot(tmp_path / "run") == before


def test_a_folder_with_foreign_files_is_refused(tiny, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for fresh in (False, True):
        with pytest.raises(UserError, match="not empty"):
            train(tiny(), out=tmp_path, fresh=fresh)
    file = tmp_path / "thesis.tex"
    with pytest.raises(UserError, match="is a file"):
        train(tiny(), out=file)
    assert file.read_text() == "years of work"


def stop_after(config, path, steps):
    """Train for some steps and stop as Ctrl-C would."""

    class Stop(Observer):
        def __init__(self):
            self.left = steps

        def on_step(self, **_):
            self.left -= 1
            if not self.left:
                import signal

                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match="resume"):
        train(config, out=path, observers=[Stop()])


def test_other_labels_are_refused(tiny, tmp_path):
    path = tmp_path / "run"
    stop_after(tiny(), path, 3)
    from edgemask.noise import make

    manifest = load_run(path).noise
    other = make("sym:0.4", manifest.clean, 10, seed=9)
    other.save(path / "noise.npz")
    before = snapshot(path)
    with pytest.raises(UserError, match=r"other labels.*fingerprint"):
        resume(path)
    assert snapshot(path) == before


def test_a_checkpoint_of_other_labels_is_refused(tiny, tmp_path):
    path = tmp_path / "run"
    stop_after(tiny(), path, 3)
    checkpoints = Checkpoints(path / "checkpoints")
    state = checkpoints.load()
    state["noise_fingerprint"] = "0" * 64
    state.pop("version")
    checkpoints.save(state, 3)
    with pytest.raises(UserError, match="other labels"):
        resume(path)


def test_a_checkpoint_of_another_config_is_refused(tiny, tmp_path):
    path = tmp_path / "run"
    stop_after(tiny(), path, 3)
    (path / "config.yaml").unlink()
    with pytest.raises(UserError, match="belongs to another config"):
        train(tiny({"optim": {"lr": 0.5}}), out=path)
    train(tiny({"optim": {"lr": 0.5}}), out=path, fresh=True)


def test_a_checkpoint_of_another_version_is_refused(tiny, tmp_path):
    path = tmp_path / "run"
    stop_after(tiny(), path, 3)
    newest = Checkpoints(path / "checkpoints").paths()[-1]
    state = torch.load(newest, weights_only=True)
    torch.save({**state, "version": 999}, newest)
    before = snapshot(path)
    with pytest.raises(UserError, match="version 999"):
        resume(path)
    assert snapshot(path) == before


def test_a_damaged_checkpoint_is_named_and_the_run_ends_the_same(tiny, tmp_path):
    undisturbed = train(tiny(), out=tmp_path / "undisturbed")
    path = tmp_path / "run"
    stop_after(tiny(), path, 9)
    before, newest = Checkpoints(path / "checkpoints").paths()
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 4
    newest.write_bytes(content)
    with pytest.warns(EdgeMaskWarning, match=f"{newest.name}.*going on from .*{before.name}"):
        run = resume(path)
    assert (run.path / "model.safetensors").read_bytes() == (
        undisturbed.path / "model.safetensors"
    ).read_bytes()


def test_a_full_disk_stops_with_a_clear_word_and_the_run_goes_on_later(tiny, tmp_path, monkeypatch):
    undisturbed = train(tiny(), out=tmp_path / "undisturbed")
    path = tmp_path / "run"
    calls = [0]
    real = os.fsync

    def full(handle):
        calls[0] += 1
        if calls[0] >= 7:
            raise OSError(28, "No space left on device")
        return real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(files_module.os, "fsync", full)
        with pytest.raises(UserError, match="No space left on device"):
            train(tiny(), out=path)
    assert not list(path.glob("**/*.tmp"))
    run = resume(path)
    assert (run.path / "model.safetensors").read_bytes() == (
        undisturbed.path / "model.safetensors"
    ).read_bytes()


def test_a_folder_that_cannot_be_made(tiny):
    with pytest.raises(UserError, match="cannot make the run folder /proc/x/run"):
        train(tiny(), out="/proc/x/run")


HOLD = """
import sys
from edgemask.engine.rundir import RunDir
with RunDir(sys.argv[1]).lock():
    print("held", flush=True)
    sys.stdin.read()
"""
START = """
import sys
from edgemask.engine import load_yaml, resolve, train
from edgemask.errors import EdgeMaskWarning, UserError
from pathlib import Path
while not Path(sys.argv[3]).exists():
    pass
try:
    train(resolve(load_yaml(Path(sys.argv[1]))), out=sys.argv[2])
    print("trained")
except UserError as error:
    print(error)
"""


def _python(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


@pytest.mark.parametrize("fresh", [False, True])
def test_a_held_folder_is_left_as_it_is(fresh, tiny, tmp_path):
    folder = RunDir(tmp_path / "run")
    stop_after(tiny(), folder.path, 3)
    with _python(HOLD, folder.path) as other:
        assert other.stdout.readline() == "held\n"
        # What the other process is writing at this moment.
        (folder.path / ".metrics.jsonl.x.tmp").write_text("half")
        (folder.checkpoints / ".0000000009.pt.x.tmp").write_text("half")
        before = snapshot(folder.path)
        for _ in range(3):
            with pytest.raises(UserError, match="another process is working on"):
                train(tiny(), out=folder.path, fresh=fresh)
        assert snapshot(folder.path) == before
    with folder.lock():  # its temporary files are removed when it is gone
        assert not list(folder.path.glob("**/*.tmp"))


def test_of_several_starts_at_once_one_trains(tiny, tmp_path):
    write_text(tmp_path / "config.yaml", dump_yaml(tiny()))
    go = tmp_path / "go"
    starts = [_python(START, tmp_path / "config.yaml", tmp_path / "run", go) for _ in range(3)]
    go.touch()
    said = [start.communicate(timeout=600)[0] for start in starts]
    assert all(text == "trained\n" or "another process is working" in text for text in said)
    assert "trained\n" in said
    assert load_run(tmp_path / "run").finished
    # In a process of its own, which has the same number of threads and so the same roundings.
    alone = _python(START, tmp_path / "config.yaml", tmp_path / "undisturbed", go)
    assert alone.communicate(timeout=600)[0] == "trained\n"
    assert (tmp_path / "run/model.safetensors").read_bytes() == (
        tmp_path / "undisturbed/model.safetensors"
    ).read_bytes()


def test_a_loss_that_explodes_keeps_the_last_good_checkpoint(tiny, tmp_path):
    path = tmp_path / "run"
    with pytest.raises(LossError, match=r"(loss became|no longer finite).*last good"):
        train(tiny({"optim": {"lr": 1e30}}), out=path)
    state = Checkpoints(path / "checkpoints").load()
    if state is not None:
        for value in state["networks"]["net"].values():
            assert torch.isfinite(value.float()).all()
    assert not load_run(path).finished


def test_an_unfinished_run_says_so(tiny, tmp_path):
    path = tmp_path / "run"
    stop_after(tiny(), path, 9)
    run = load_run(path)
    assert len(run.history) == 1
    with pytest.raises(UserError, match=f"edgemask resume {path}"):
        _ = run.summary
    with pytest.raises(UserError, match="holds no run"):
        load_run(tmp_path)


def test_a_stopped_run_gives_what_is_known_of_its_samples_so_far(tiny, tmp_path):
    config = tiny({"train": {"epochs": 6, "record_every": 2}})
    path = tmp_path / "run"
    stop_after(config, path, 9)  # in the second epoch: no pass over the training set yet
    with pytest.raises(UserError, match=f"edgemask resume {path}"):
        _ = load_run(path).samples
    record = read_run(path)
    assert any("after the first epoch that ends with a pass" in line for line in record.problems)
    stop_after(config, path, 20)  # in the fifth
    run, record = load_run(path), read_run(path)
    assert record.so_far == "after epoch 4 of 6"
    with pytest.warns(EdgeMaskWarning, match="is not finished.* after epoch 4 of 6"):
        samples = run.samples
    assert samples["agreement"].max() <= 1
    assert (np.round(samples["agreement"] * 2) == samples["agreement"] * 2).all()  # two passes
    with pytest.warns(EdgeMaskWarning, match="after epoch 4"):
        suspects = run.suspects
    low = np.flatnonzero(samples["trust"] < 0.5)
    assert sorted(map(int, suspects["id"])) == sorted(samples["index"][low].tolist())
    assert (np.diff(suspects["trust"]) >= 0).all()
    names = record.state.class_names
    assert set(suspects["given"]) <= set(names)
    # At the end nothing of it is left, and the result is that of a run that was not stopped.
    done = train(config, out=path)
    straight = train(config, out=tmp_path / "straight")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, column in straight.samples.items():
            assert np.array_equal(done.samples[name], column), name
    assert read_run(path).so_far == ""
    assert done.suspects.equals(straight.suspects)


def test_the_default_folder_has_name_and_hash(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = tiny({"train": {"epochs": 1}})
    run = train(config)
    assert run.path == Path("runs") / f"digits-ce-sem-{config_hash(config)}"
    named = tiny({"name": "../../evil name"})
    assert default_name(named) == f"evil-name-{config_hash(named)}"


def test_heads_and_losses_start_from_the_same_weights_and_order(tiny, tmp_path):
    order: dict[str, list] = {}
    start: dict[str, dict] = {}
    for head, loss in (("linear", "ce"), ("sem", "ce"), ("linear", "jal"), ("kan", "ce")):
        key = f"{head}-{loss}"

        from edgemask.engine import loop

        seen: list = []
        real = loop.Stepper.step

        def step(self, phase, batches, clock, samples, seen=seen, key=key, real=real):
            if not seen:
                net = self.method.nets["net"]
                start[key] = {n: p.detach().clone() for n, p in net.named_parameters()}
            seen.append(batches[0]["train"].index.tolist())
            return real(self, phase, batches, clock, samples)

        loop.Stepper.step = step
        try:
            train(
                tiny({"head": {"name": head}, "loss": {"name": loss}, "train": {"epochs": 1}}),
                out=tmp_path / key,
            )
        finally:
            loop.Stepper.step = real
        order[key] = seen
    for key, seen in order.items():
        assert seen == order["linear-ce"]
        for name, value in start["linear-ce"].items():
            if not (key == "kan-ce" and name.startswith("head.")):
                assert torch.equal(start[key][name], value), (key, name)


def test_recording_by_default_is_every_fourth_epoch_and_the_last(tiny, tmp_path):
    run = train(tiny({"train": {"epochs": 5}}), out=tmp_path / "run")
    assert [row["epoch"] for row in run.history if "memorised" in row] == [3, 4]
    assert all("test/accuracy" in row for row in run.history)


def test_recording_less_often(tiny, tmp_path):
    run = train(tiny({"train": {"record_every": 0}, "eval": {"every": 5}}), out=tmp_path / "run")
    assert "memorised" not in run.history[0]
    assert "test/accuracy" not in run.history[0]
    assert run.history[1]["memorised"] is not None
    assert run.history[1]["test/accuracy"] is not None


def test_checkpoints_by_the_clock(tiny, tmp_path, monkeypatch):
    saved = []
    real = Checkpoints.save
    monkeypatch.setattr(
        Checkpoints, "save", lambda self, state, step: (saved.append(step), real(self, state, step))
    )
    train(tiny({"log": {"checkpoint_seconds": 0.0}, "train": {"epochs": 1}}), out=tmp_path / "run")
    assert saved == [1, 2, 3, 4, 5, 6, 7]


def test_a_log_that_is_not_finite_becomes_null(tiny, tmp_path):
    from edgemask.engine import Objects
    from edgemask.methods import StepResult, Supervised

    class Odd(Supervised):
        def step(self, phase, batch, clock):
            return StepResult(super().step(phase, batch, clock).loss, {"odd": float("nan")})

    config = tiny({"train": {"epochs": 1}, "method": {"name": "object:odd"}})
    run = train(config, out=tmp_path / "run", objects=Objects(method=Odd()))
    assert run.history[0]["train/odd"] is None


def test_tensorboard_and_unknown_trackers(tiny, tmp_path, monkeypatch):
    run = train(
        tiny({"log": {"trackers": ["tensorboard"]}, "train": {"epochs": 1}}), out=tmp_path / "a"
    )
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run.path / "events" / "edgemask"))
    events.Reload()
    (point,) = events.Scalars("test/accuracy")
    assert point.value == pytest.approx(run.history[0]["test/accuracy"], rel=1e-6)
    with pytest.raises(UserError, match=r"log\.trackers"):
        train(tiny({"log": {"trackers": ["tensorbored"]}}), out=tmp_path / "b")
    assert not (tmp_path / "b" / "config.yaml").exists()
    monkeypatch.setattr("accelerate.tracking.get_available_trackers", list)
    with pytest.raises(UserError, match="'wandb' is not installed"):
        train(tiny({"log": {"trackers": ["wandb"]}}), out=tmp_path / "c")


@pytest.mark.parametrize("kind", ["npz", "imagefolder"])
def test_data_of_ones_own_without_clean_labels(kind, tiny, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    images = rng.integers(0, 256, (60, 12, 12, 3), dtype=np.uint8)
    if kind == "npz":
        np.savez(tmp_path / "my.npz", x=images, y=labels)
        spec = f"npz:{tmp_path / 'my.npz'}"
    else:
        from PIL import Image

        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            folder = tmp_path / "photos" / f"class {label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / f"{number}.png")
        spec = f"imagefolder:{tmp_path / 'photos'}"
    settings = {
        "data": {"spec": spec, "limit": None},
        "noise": {"spec": "none"},
        "loss": {"name": "jal"},
        "train": {"epochs": 1},
    }
    if kind == "imagefolder":
        settings["data"]["options"] = {"size": 16}
    run = train(tiny(settings), out=tmp_path / "run")
    assert "memorised" not in run.history[0]
    assert "clean" not in run.samples
    assert run.summary["noise"]["realised_rate"] is None
    assert len(run.trust) == len(run.samples["given"])


def test_metrics_are_plain_numbers(tiny, tmp_path):
    run = train(tiny({"train": {"epochs": 1}}), out=tmp_path / "run")
    line = (run.path / "metrics.jsonl").read_text()
    values = json.loads(line, parse_constant=pytest.fail)
    assert all(value is None or isinstance(value, int | float) for value in values.values())
    state = load_file(run.path / "model.safetensors")
    assert "head.weight" in state
