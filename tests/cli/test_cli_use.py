"""What is done with a finished run: test, predict, export, report."""

from __future__ import annotations

import csv
import io
import json
import shlex
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from edgemask.data import load
from edgemask.engine import load_run
from edgemask.runs import SCHEMA
from sweeps import sweep


@pytest.fixture(scope="module")
def images():
    """The test images of the digits, as they are stored."""
    split = load("digits").test
    return split.raw(torch.arange(40)).numpy(), split.labels[:40]


@pytest.fixture(scope="module")
def arrays(images, tmp_path_factory):
    path = tmp_path_factory.mktemp("arrays") / "new.npz"
    np.savez(path, x=images[0], other=images[0][:3])
    return path


def test_eval_gives_the_accuracy_of_the_last_epoch(read, trained):
    found = read("eval", trained)
    assert found["test/accuracy"] == load_run(trained).summary["test/accuracy"]["last"]
    assert found["samples"] == 359


def test_eval_writes_a_table(call, trained):
    text = call("eval", trained).stdout
    assert "359 samples" in text
    assert "test/accuracy" in text
    assert text.count("class ") == 10


def test_eval_under_other_conditions(read, trained):
    dense, expected = (read("eval", trained, "--inference", way) for way in ("dense", "expected"))
    assert dense["test/accuracy"] == read("eval", trained)["test/accuracy"]
    assert expected["inference"] == "expected"
    assert read("eval", trained, "--test-limit", 20)["samples"] == 20
    assert "test/top5" in read("eval", trained, "--top5")


def test_eval_refuses_an_inference_that_is_none(call, trained):
    assert "expected" in call("eval", trained, "--inference", "hopeful", code=2).stderr


def test_eval_on_another_dataset(read, trained, images, tmp_path):
    path = tmp_path / "again.npz"
    x, y = images
    np.savez(path, x=x, y=y, x_test=x, y_test=y, class_names=[str(n) for n in range(10)])
    assert read("eval", trained, "--data", f"npz:{path}")["samples"] == 40


def test_predict_arrays(call, trained, arrays, images):
    rows = json.loads(call("predict", trained, "--npz", arrays).stdout)
    assert len(rows) == 40
    assert set(rows[0]) == {"input", "label", "class", "probability"}
    agreed = np.mean([row["label"] for row in rows] == images[1])
    assert agreed > 0.2  # two epochs are few, yet no accident
    assert all(0 < row["probability"] <= 1 for row in rows)


def test_predict_writes_csv_with_all_probabilities(call, trained, arrays, tmp_path):
    path = tmp_path / "out.csv"
    said = call(
        "predict", trained, "--npz", arrays, "--key", "other", "--probabilities", "--out", path
    ).stdout
    assert said == f"3 predictions in {path}\n"
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert len(rows) == 3
    chances = [float(rows[0][f"probability {number}"]) for number in range(10)]
    assert sum(chances) == pytest.approx(1, abs=1e-5)
    assert float(rows[0]["probability"]) == pytest.approx(max(chances))


def test_predict_prints_a_table(call, trained, arrays):
    words = ("predict", trained, "--npz", arrays, "--key", "other", "--format", "table")
    title, *rows = call(*words).stdout.splitlines()
    assert title.split() == ["input", "class", "probability"]
    assert len(rows) == 3
    assert all(row.endswith(" %") for row in rows)
    assert len(call(*words, "--probabilities").stdout.splitlines()[0].split()) == 12


def test_predict_says_which_arrays_there_are(call, trained, arrays):
    assert "'other'" in call("predict", trained, "--npz", arrays, "--key", "othr", code=2).stderr


@sweep(
    ("arguments", "words"),
    [
        ([], "image files or a table, or --npz"),
        (["no.png"], "there is no file or folder no.png"),
        (["--npz", "no.npz"], "there is no such file"),
        (["a.png", "--npz", "no.npz"], "not both"),
    ],
)
def test_predict_refuses_what_it_cannot_read(call, trained, arguments, words):
    assert words in call("predict", trained, *arguments, code=2).stderr


def test_predict_refuses_a_file_of_another_kind(call, trained, tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("not arrays")
    assert "cannot be read" in call("predict", trained, "--npz", path, code=2).stderr


def test_predict_needs_a_finished_run(call, tmp_path):
    assert "holds no run" in call("predict", tmp_path, "a.png", code=2).stderr


@pytest.mark.parametrize("form", ["safetensors", "torch"])
def test_export_writes_a_model(read, trained, tmp_path, form):
    path = tmp_path / "model.bin"
    found = read("export", trained, "--format", form, "--out", path)
    assert found == {"path": str(path), "format": form, "bytes": path.stat().st_size}


@pytest.mark.slow
def test_export_to_onnx_answers_alike(call, trained, images):
    runtime = pytest.importorskip("onnxruntime")
    text = call("export", trained, "--format", "onnx").stdout
    assert "outputs equal" in text
    session = runtime.InferenceSession(trained / "export.onnx")
    (logits,) = session.run(None, {"x": images[0].astype(np.float32)})
    rows = load_run(trained)
    from edgemask.engine import predict

    assert (logits.argmax(1) == predict(rows, images[0]).labels).all()


def test_report_of_one_run_goes_beside_it(call, trained):
    lines = call("report", trained).stdout.splitlines()
    assert lines == [str(trained / f"report.{kind}") for kind in ("html", "md", "csv")]
    page = (trained / "report.html").read_text()
    assert "<html" in page
    assert "What is missing" not in page


def test_the_command_of_a_report_repeats_the_run(call, trained, tmp_path, monkeypatch):
    from edgemask.report.describe import repeat_command
    from edgemask.runs import read_run

    run = read_run(trained)
    assert run.schema == SCHEMA
    monkeypatch.chdir(tmp_path)
    call(*shlex.split(repeat_command(run))[1:], "--quiet")
    again = read_run(tmp_path / f"{trained.name}-again")
    assert again.summary["test/accuracy"] == run.summary["test/accuracy"]
    assert (again.samples["trust"] == run.samples["trust"]).all()


def test_report_of_several_runs_goes_above_them(read, trained, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(trained, tmp_path / name)
    found = read("report", tmp_path / "a", tmp_path / "b")
    assert found["html"] == str(tmp_path / "report.html")
    assert read("report", trained, "--out", tmp_path / "c")["csv"] == str(
        tmp_path / "c" / "report.csv"
    )


def test_report_refuses_what_is_no_run(call, tmp_path):
    assert str(tmp_path) in call("report", tmp_path, code=2).stderr


def test_image_files_are_predicted(call, trained, images, tmp_path):
    for number in range(2):
        Image.fromarray(images[0][number, 0]).save(tmp_path / f"{number}.png")
    result = call("predict", trained, tmp_path / "0.png", tmp_path / "1.png")
    rows = json.loads(result.stdout)
    assert [row["input"].endswith(f"{n}.png") for n, row in enumerate(rows)] == [True, True]


@pytest.fixture
def hostile(trained, tmp_path):
    """A run folder whose class names hold control characters and marks of direction."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    path = folder / "model.safetensors"
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(file.metadata()["edgemask"])
    about = {
        key: value for key, value in about.items() if not isinstance(value, str) or len(value) != 64
    }
    about["class_names"] = [f"\x1b[2J\u202e\x9b{n}\ud800" for n in range(10)]
    save_file(tensors, path, metadata={"edgemask": json.dumps(about)})
    return folder


def harmless(text):
    return not any(char in text for char in "\x1b\u202e\x9b\ud800")


def test_predict_prints_class_names_without_control_characters(call, hostile, arrays):
    text = call("predict", hostile, "--npz", arrays, "--probabilities").stdout
    assert harmless(text)
    assert json.loads(text)[0]["class"].startswith("\x1b[2J\u202e\x9b")
    text = call("predict", hostile, "--npz", arrays, "--format", "csv", "--probabilities").stdout
    assert harmless(text)
    assert "\\x1b[2J" in text


def test_eval_prints_class_names_without_control_characters(call, trained, images, tmp_path):
    path = tmp_path / "again.npz"
    x, y = images
    names = [f"\x1b[2J\u202e\x9b{n}" for n in range(10)]
    np.savez(path, x=x, y=y, x_test=x, y_test=y, class_names=names)
    text = call("eval", trained, "--data", f"npz:{path}").stdout
    assert harmless(text)
    assert "class \\x1b[2J\\u202e\\x9b0" in text
    result = call("eval", trained, "--data", f"npz:{path}", "--json").stdout
    assert harmless(result)
    assert json.loads(result)["class_names"] == names


def test_errors_hold_no_control_characters(call, trained):
    assert harmless(call("predict", trained, "\x1b[2J\u202e.png", code=2).stderr)


@sweep(
    ("name", "damage"),
    [
        ("config.yaml", "cut"),
        ("config.yaml", "empty"),
        ("config.yaml", "garbage"),
        ("config.yaml", "other model"),
        ("summary.json", "empty"),
        ("summary.json", "list"),
        ("model.safetensors", "cut"),
        ("model.safetensors", "no card"),
    ],
)
@sweep("verb", ["eval", "predict", "export"])
def test_a_damaged_run_is_one_line(call, trained, arrays, tmp_path, verb, name, damage):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    path = folder / name
    whole = path.read_bytes()
    if damage == "other model":
        path.write_text(path.read_text().replace("hidden:", "_hidden:").replace("small-cnn", "mlp"))
    elif damage == "no card":
        save_file(load_file(path), path)
    else:
        cut = whole[: len(whole) // 3].rpartition(b":")[0]
        contents = {"cut": cut, "empty": b"", "garbage": b"\x00: [", "list": b"[1]"}
        path.write_bytes(contents[damage])
    extra = ("--npz", arrays) if verb == "predict" else ()
    result = call(verb, folder, *extra, code=2)
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert result.stdout == ""


def test_report_takes_a_folder_of_runs(read, trained, tmp_path):
    for name in ("a", "deeper/b"):
        shutil.copytree(trained, tmp_path / name)
    assert read("report", tmp_path)["html"] == str(tmp_path / "report.html")
    rows = list(csv.DictReader((tmp_path / "report.csv").read_text().splitlines()))
    assert len(rows) == 2


@pytest.mark.parametrize("form", ["safetensors", "torch"])
def test_export_to_a_full_disk_is_one_line(call, trained, tmp_path, form):
    resource = pytest.importorskip("resource", reason="file sizes cannot be limited here")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, limits[1]))
    try:
        result = call("export", trained, "--format", form, "--out", tmp_path / "model", code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "cannot write" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
