"""Tables, texts and odd pictures on the command line, as a person brings them."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

# The command prints them.
pytestmark = pytest.mark.filterwarnings("default::edgemask.errors.EdgeMaskWarning")
RNG = np.random.default_rng(0)
QUICK = ("--epochs", 2, "--batch-size", 16, "--track", "none", "--quiet")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A table with a name, gaps, categories, dates and a key."""
    path = tmp_path_factory.mktemp("people") / "people.csv"
    lines = ["key,survived,name,age,port,joined"]
    for i in range(60):
        age = "" if i % 6 == 0 else round(float(RNG.normal(30, 9)), 1)
        label, port, day = "yes" if i % 3 else "no", "SCQ"[i % 3], f"2020-01-{1 + i % 28:02}"
        lines.append(f'k{i},{label},"P, {i}",{age},{port},{day}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(call, people, tmp_path_factory):
    out = tmp_path_factory.mktemp("people") / "run"
    text = call("train", "--data", f"csv:{people}", "--label", "survived", "--id", "key", "--out",
                out, *QUICK).stderr  # fmt: skip
    assert "left out: name (48 different values in 48 rows" in " ".join(text.split())
    return out


def test_a_table_is_trained_on_and_predicted(call, read, run, people):
    text = call("predict", run, people, "--format", "csv", "--probabilities").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["input"] for row in rows] == [f"k{i}" for i in range(60)]
    assert {row["class"] for row in rows} <= {"no", "yes"}
    for row in rows:
        shares = float(row["probability no"]), float(row["probability yes"])
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert max(shares) == float(row["probability"])
    from edgemask.engine import load_run

    assert load_run(run).predict(str(people)).tolist() == [row["class"] for row in rows]
    found = read("eval", run, "--data", f"csv:{people}")
    right = np.mean([row["class"] == ("yes" if i % 3 else "no") for i, row in enumerate(rows)])
    assert found["test/accuracy"] == pytest.approx(right)
    assert found["samples"] == 60
    call("eval", run)
    call("export", run)


def test_what_was_understood_is_said(call, people, tmp_path):
    result = call("train", "--data", f"csv:{people}", "--label", "survived", "--id", "key",
                  "--out", tmp_path / "run", "--epochs", 1, "--track", "none")  # fmt: skip
    assert (
        "read as a table: 60 rows, label 'survived' with 2 classes (no, yes); columns: "
        "age (number, missing values filled), port (category of 3), "
        "joined (date as days since 1970)"
    ) in " ".join(result.stderr.split())


def test_mistakes_end_in_one_line(call, run, people, tmp_path):
    def error(*words):
        text = call(*words, code=2).stderr
        assert text.count("\n") == 1
        return text

    assert "which column holds the labels? Name it (--label" in error(
        "train", "--data", f"csv:{people}"
    )
    assert "did you mean 'survived'?" in error(
        "train", "--data", f"csv:{people}", "--label", "survive"
    )
    assert f"say what {people} is: csv:{people}" in error("train", "--data", people)
    assert "labels: the dataset 'digits' has no columns" in error(
        "train", "--data", "digits", "--label", "x"
    )
    assert "labels are missing (line 2, line 8, line 14" in error(
        "train", "--data", f"csv:{people}", "--label", "age"
    )
    other = tmp_path / "other.csv"
    other.write_text("age,port\n3,S\n")
    assert "the columns 'joined' of the training data are missing" in error("predict", run, other)
    assert "expected one file of rows, got 2" in error("predict", run, other, people)


def test_texts(call, tmp_path):
    path, new = tmp_path / "t.csv", tmp_path / "new.txt"
    rows = [f'{("sport", "trade")[i % 2]},"{("goal", "market")[i % 2]}, word{i % 4}",x{i}'
            for i in range(40)]  # fmt: skip
    path.write_text("\n".join(["topic,title,other", *rows]) + "\n")
    new.write_text("a goal\nthe market\n")
    call("train", "--data", f"csv:{path}", "--label", "topic", "--text", "title", "--out",
         tmp_path / "run", "--epochs", 20, "--batch-size", 8, "--lr", 0.1, "--track", "none",
         "--quiet")  # fmt: skip
    found = json.loads(call("predict", tmp_path / "run", new).stdout)
    assert [(row["input"], row["class"]) for row in found] == [("0", "sport"), ("1", "trade")]


def test_16_bit_pictures_have_thumbnails_and_predictions(call, tmp_path):
    for i in range(24):
        pixels = RNG.integers(0, 9000, (10, 10)) + (45000 if i % 2 else 5000)
        folder = tmp_path / "photos" / ("dark", "light")[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint16)).save(folder / f"{i}.png")
    out = tmp_path / "run"
    call("train", "--data", f"imagefolder:{tmp_path / 'photos'}", "--out", out, *QUICK)
    with np.load(out / "thumbnails.npz") as file:
        means = file["images"].mean((1, 2, 3))
    assert means.min() < 60
    assert 170 < means.max() < 220  # white would be 255
    found = json.loads(call("predict", out, tmp_path / "photos").stdout)
    assert len(found) == 24
