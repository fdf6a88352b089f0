"""Too little memory, impossible numbers and odd files: an error that says what to change."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import edgemask as em
from edgemask.data import from_arrays, load
from edgemask.engine import Observer
from edgemask.engine.failures import is_out_of_memory
from edgemask.engine.remarks import ChanceWatch
from edgemask.errors import DataError, EdgeMaskWarning, UserError
from edgemask.losses import LOSSES
from guarantees import forked

FEATURES = np.random.default_rng(0).normal(size=(90, 5)).astype(np.float32)
LABELS = np.arange(90) % 3


def fit(folder: Path, **options):
    return em.fit(FEATURES, LABELS, out=folder / "run", epochs=options.pop("epochs", 1), **options)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_out_of_memory_says_what_to_lower(tmp_path):
    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(5, 3)

        def forward(self, x):
            return self.head(x) + 0 * x.new_empty(len(x), 1 << 28).sum()

    fit(tmp_path / "warm", model="mlp")  # what is imported for a run is not counted

    def work():
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), used + (1 << 29)))
        fit(tmp_path, model=Wide, batch_size=30)

    kind, message = forked.run(work, tmp_path / "end.json")
    assert kind == "UserError", message
    assert message.startswith("out of memory (")
    assert "lower train.batch_size (now 30)" in message
    assert "\n" not in message


def test_what_counts_as_out_of_memory():
    assert is_out_of_memory(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried ..."))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory"))
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))
    assert not is_out_of_memory(ValueError("out of memory"))


def test_a_batch_of_one_with_batch_norm(tmp_path):
    net = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with pytest.raises(UserError, match=r"batch of one sample; use a train\.batch_size \(now 1\)"):
        fit(tmp_path, model=net, batch_size=1)
    # 71 samples in batches of 7 leave one: it joins another batch.
    fit(tmp_path / "rest", model=net, batch_size=7)


@pytest.mark.parametrize("rate", [1e37, 1e300, float("inf"), float("nan")])
def test_a_learning_rate_that_no_float_holds(rate, tmp_path):
    with pytest.raises(UserError, match=r"optim\.lr"):
        fit(tmp_path, lr=rate)


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param(tuple(LOSSES)[::5], id="some"),
        pytest.param(tuple(LOSSES), id="all", marks=pytest.mark.long),
    ],
)
def test_training_that_has_collapsed_warns_once_or_stops(losses, tmp_path):
    """Bounded losses have no NaN to stop at: the size of the weights and the predictions tell."""
    for loss in losses:
        stopped = ""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                em.fit(0 * FEATURES, LABELS, loss=loss, lr=1e7, epochs=3, out=tmp_path / loss)
            except UserError as error:
                stopped = str(error)
        if stopped:
            # A matrix estimated from a collapsed network has no inverse, which is said first.
            assert "optim.lr" in stopped or loss == "backward-correction", (loss, stopped)
            continue
        texts = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        for sign in ("training has collapsed", "stayed at chance"):
            assert sum(sign in text for text in texts) == 1, (loss, sign, texts)


@pytest.mark.parametrize("record_every", [0, 1])
def test_a_model_at_chance_is_warned_of_once_while_it_trains(record_every, tmp_path):
    settings = {"train": {"record_every": record_every}}
    for loss in ("ce", "mae", "gce", "jal", "anl", "sce"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found: list[list[str]] = []

            class Warnings(Observer):
                def on_epoch(self, metrics, found=found, caught=caught):
                    texts = [str(each.message) for each in caught]
                    found.append([text for text in texts if "been at chance" in text])

            em.fit(
                np.zeros((150, 5), np.float32),
                np.arange(150) % 3,
                loss=loss,
                epochs=9,
                settings=settings,
                out=tmp_path / loss,
                observers=[Warnings()],
            )
        assert [len(texts) for texts in found] == [0] * 4 + [1] * 5, loss
        samples = "training" if record_every else "test"
        assert f"% of the {samples} labels" in found[-1][0]
        assert ("try loss ce or another optim.lr" in found[-1][0]) == (loss != "ce"), loss


def test_a_watch_for_chance_counts_epochs_in_a_row(recwarn):
    def evaluation(right):
        labels = np.arange(60) % 3
        return SimpleNamespace(labels=labels, predicted=np.where(right, labels, 0))

    good, bad = evaluation(right=True), evaluation(right=False)
    watch = ChanceWatch("another day")
    for epoch in range(4):
        watch.check(epoch, {"test": bad})
    watch.check(4, {"test": bad, "training": good})  # it learns its labels: no chance
    for epoch in range(5, 9):
        watch.check(epoch, {"test": bad, "training": bad} if epoch % 2 else {"test": bad})
    assert not recwarn
    with pytest.warns(EdgeMaskWarning, match=r"^for 6 epochs .*try another day$"):
        watch.check(10, {"test": bad})  # epoch 9 was not evaluated
    watch.check(11, {"test": bad})
    few = SimpleNamespace(labels=np.arange(5), predicted=np.zeros(5, int))
    single = SimpleNamespace(labels=np.zeros(60, int), predicted=np.ones(60, int))
    other = ChanceWatch("nothing")
    for epoch in range(9):
        other.check(epoch, {"test": few, "training": single})
    assert not recwarn


@pytest.mark.filterwarnings("error::edgemask.errors.EdgeMaskWarning")
def test_training_that_learns_does_not_warn(tmp_path):
    inputs = FEATURES + 3 * LABELS[:, None]
    em.fit(inputs, LABELS, out=tmp_path / "run", epochs=6, lr=0.05)


def test_impossible_datasets_are_refused():
    for name, make in {
        "has no samples": lambda: from_arrays(
            FEATURES, LABELS, x_test=FEATURES[:0], y_test=LABELS[:0]
        ),
        "name 'a'": lambda: from_arrays(FEATURES, LABELS, class_names=["a", "a", "b"]),
        "no labels": lambda: from_arrays(FEATURES[:0], LABELS[:0]),
    }.items():
        with pytest.raises(DataError, match=name):
            make()


def test_a_label_of_a_billion_is_refused(tmp_path):
    labels = LABELS.copy()
    labels[:2] = 10**9
    far = "2 labels are 1000000000, far from all others, which go up to 2"
    with pytest.raises(DataError, match=far):
        from_arrays(FEATURES, labels)
    np.savez(tmp_path / "x.npz", x=FEATURES, y=labels.astype(np.float64))
    with pytest.raises(DataError, match=far):
        load(f"npz:{tmp_path / 'x.npz'}")
    rows = [f"{x},{y}" for x, y in zip(FEATURES[:, 0], labels, strict=True)]
    (tmp_path / "x.csv").write_text("\n".join(["x,label", *rows]))
    with pytest.raises(DataError, match=far):
        load(f"csv:{tmp_path / 'x.csv'}")
    with pytest.raises(DataError, match="too large for a number"):
        from_arrays(FEATURES, [10**30, *LABELS[1:].tolist()])
    # Large numbers may be the names of classes.
    assert from_arrays(FEATURES, LABELS + 10**9).num_classes == 3


SOFT = {
    "sum": [[0.5, 0.6, 0.3]],
    "negative": [[-0.5, 1.2, 0.3]],
    "nan": [[float("nan"), 0.5, 0.5]],
    "zero": [[0.0, 0.0, 0.0]],
}


@pytest.mark.parametrize("kind", SOFT)
def test_impossible_soft_targets_are_refused(kind):
    for name in ("ce", "gce", "mae", "nce", "sce"):
        criterion = em.losses.build(name)
        good = torch.tensor([[0.2, 0.5, 0.3]])
        assert criterion(torch.zeros(1, 3), good).isfinite()
        with pytest.raises(UserError, match="shares that are not negative and sum to 1"):
            criterion(torch.zeros(1, 3), torch.tensor(SOFT[kind]))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_no_image(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        for number in range(4):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / name / f"{number}.png")
    os.mkfifo(tmp_path / "a" / "z.png")
    with pytest.raises(DataError, match=r"z\.png: .*no regular file"):
        load(f"imagefolder:{tmp_path}", size=8)
    with pytest.warns(EdgeMaskWarning, match="1 of 9 images"):
        load(f"imagefolder:{tmp_path}", size=8, on_broken="skip")


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_while_starting_is_one_line():
    """From the first line of ours on, an interruption ends in a word instead of a traceback."""
    script = (
        "import os, signal, sys\n"
        # a process that was started in the background may have been told to ignore it
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == sys.argv[1]:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "where, sys.argv[1:] = sys.argv[1], [sys.argv[1]]\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from edgemask.cli import main\n"
        "sys.argv = ['edgemask', 'list', 'losses']\n"
        "main()\n"
    ).replace("sys.argv[1]:", "where:")
    for module in ("typer", "edgemask.cli.train", "torch", "edgemask.losses.gce"):
        done = subprocess.run(
            [sys.executable, "-c", script, module],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert done.returncode in (130, -signal.SIGINT), (module, done.stderr)
        assert "Traceback" not in done.stderr, (module, done.stderr)
        assert done.stderr.count("\n") <= 1, (module, done.stderr)
