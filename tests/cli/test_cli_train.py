"""Training from the command line: flags, files, plans, resuming."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import yaml

from cli_helpers import SMALL
from edgemask.engine.compose import default_model, named_part, override
from edgemask.errors import UserError
from sweeps import sweep


def config_of(folder):
    return yaml.safe_load((folder / "config.yaml").read_text())


def plan(read, *arguments):
    return read("train", *arguments, "--dry-run")


def test_a_run_leaves_its_files(trained):
    names = {path.name for path in trained.iterdir()}
    assert {"config.yaml", "metrics.jsonl", "summary.json", "model.safetensors"} <= names
    assert len((trained / "metrics.jsonl").read_text().splitlines()) == 2


def test_the_same_line_again_finds_it_done(call, trained):
    before = (trained / "summary.json").stat().st_mtime_ns
    text = call("train", *SMALL, "--out", trained, "--quiet").stdout
    assert "finished before" in text
    assert len(text.splitlines()) == 1
    assert (trained / "summary.json").stat().st_mtime_ns == before


def test_resume_of_a_finished_run_shows_it(call, read, trained):
    assert "finished before" in call("resume", trained).stdout
    assert read("resume", trained)["status"] == "finished"


def test_another_config_in_the_same_folder_is_refused(call, trained):
    message = call("train", *SMALL, "--seed", "9", "--out", trained, code=2).stderr
    assert "holds another run" in message


def test_fresh_starts_over(call, trained, tmp_path):
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(trained, folder)
    call("train", *SMALL, "--seed", "9", "--out", folder, "--fresh", "--quiet")
    assert config_of(folder)["train"]["seed"] == 9


def test_a_line_an_epoch_where_there_is_no_terminal(call, tmp_path):
    text = call("train", *SMALL, "--out", tmp_path / "run").stdout
    lines = [line for line in text.splitlines() if line.startswith("epoch ")]
    assert [line.split()[1] for line in lines] == ["1/2", "2/2"]
    assert all("test" in line and "edges kept" in line for line in lines)
    assert "memorised" in lines[-1]  # of an epoch whose samples were recorded
    assert f"edgemask report {tmp_path / 'run'}" in text


def test_the_chosen_weights_are_named_beside_the_last_ones(call, read, tmp_path):
    choice = (*SMALL, "--validation", 0.1, "--select", "validation", "--out", tmp_path / "run")
    text = call("train", *choice, "--quiet").stdout
    summary = read("train", *choice)
    chosen, last = summary["selected"]["test/accuracy"], summary["test/accuracy"]["last"]
    assert f"test accuracy {100 * chosen:.2f} % selected by validation, " in text
    assert f"{100 * last:.2f} % last" in text
    page = call("report", tmp_path / "run").stdout
    assert page
    report_text = (tmp_path / "run" / "report.md").read_text()
    assert "| best (oracle) | at validation | selected |" in report_text
    assert read("eval", tmp_path / "run")["test/accuracy"] == chosen


def test_json_leaves_stdout_to_the_program(call, tmp_path):
    result = call("train", *SMALL, "--out", tmp_path / "run", "--json")
    summary = json.loads(result.stdout)
    assert summary["path"] == str(tmp_path / "run")
    assert 0 < summary["test/accuracy"]["last"] <= 1
    assert "epoch 2/2" in result.stderr


def test_every_flag_reaches_its_place(read, tmp_path):
    config = plan(
        read,
        "--data", "digits", "--data-root", tmp_path, "--noise", "asym:0.3", "--protocol", "jal",
        "--noise-seed", 4, "--model", "mlp", "--width", 0.5, "--head", "dropout", "--loss", "gce",
        "--method", "supervised", "--epochs", 7, "--batch-size", 50, "--lr", "0.5", "--seed", 3,
        "--validation", 0.1, "--precision", "bf16", "--compile", "aot_eager", "--workers", 2,
        "--name", "mine", "--track", "none",
    )["config"]  # fmt: skip
    assert config["data"]["spec"] == "digits"
    assert config["data"]["root"] == str(tmp_path)
    assert (config["data"]["validation"], config["data"]["workers"]) == (0.1, 2)
    assert config["noise"] == {"spec": "asym:0.3", "protocol": "jal", "seed": 4}
    assert (config["model"]["name"], config["model"]["width"]) == ("mlp", 0.5)
    assert config["head"]["name"] == "dropout"
    assert (config["loss"]["name"], config["method"]["name"]) == ("gce", "supervised")
    train = config["train"]
    assert (train["epochs"], train["batch_size"], train["seed"]) == (7, 50, 3)
    assert (train["precision"], train["compile"]) == ("bf16", "aot_eager")
    assert config["optim"]["lr"] == 0.5
    assert (config["name"], config["log"]["trackers"]) == ("mine", [])


def test_layers_go_recipe_file_flags_set(read, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("train: {epochs: 5, batch_size: 16, seed: 5}\noptim: {lr: 0.3}\n")
    config = plan(
        read, "--recipe", "digits/ce-sem", "--config", path, "--batch-size", 48, "--seed", 6,
        "--set", "train.seed=7",
    )["config"]  # fmt: skip
    train = config["train"]
    assert (train["epochs"], train["batch_size"], train["seed"]) == (5, 48, 7)
    assert (config["optim"]["lr"], config["head"]["name"]) == (0.3, "sem")
    assert config["optim"]["schedule"]["name"] == "constant"


def test_a_new_head_starts_from_its_own_options(read):
    config = plan(read, "--recipe", "cifar10/jal-sem", "--data", "digits", "--head", "linear")
    assert config["config"]["head"] == {"name": "linear", "at": None, "options": {}}


def test_options_in_brackets(read):
    config = plan(read, "--head", "sem(rho=0.3, policy=topk(0.1))", "--loss", "gce(q=0.5)")
    assert config["config"]["head"]["options"]["rho"] == 0.3
    assert config["config"]["head"]["options"]["policy"] == "topk(0.1)"
    assert config["config"]["loss"]["options"]["q"] == 0.5


@sweep("text", ["sem(rho)", "sem(rho=)", "sem(=1)", "sem(rho=1", "", "a b"])
def test_broken_brackets_are_explained(text):
    with pytest.raises(UserError, match="head="):
        named_part("head", text)


def test_names_with_signs_are_names():
    assert named_part("loss", "nce+rce(alpha=1e-1)")["options"] == {"alpha": 0.1}
    assert named_part("loss", "ce+lc") == {"name": "ce+lc"}
    assert named_part("model", "timm:resnet18") == {"name": "timm:resnet18"}


def test_laying_keeps_what_still_means_something():
    base = {"data": {"spec": "cifar10", "options": {"recipe": "plain"}, "limit": 5}, "name": "x"}
    assert override(base, {"data": {"spec": "digits"}})["data"] == {"spec": "digits", "limit": 5}
    assert override(base, {"data": {"spec": "cifar10"}})["data"]["options"] == {"recipe": "plain"}
    assert override(base, {"optim": {"lr": 1}})["name"] == "x"


def test_the_model_follows_from_the_data():
    assert default_model((30,)) == "mlp"
    assert default_model((1, 8, 8)) == "small-cnn"
    assert default_model((3, 32, 32)) == "cnn8"
    assert default_model((3, 224, 224)) == "timm:resnet18"


def test_the_plan_says_what_would_be_done(read, tmp_path):
    folder = tmp_path / "run"
    found = plan(read, *SMALL, "--batch-size", 100, "--validation", 0.1, "--out", folder)["plan"]
    assert found["state"] == "starts"
    assert found["folder"] == str(folder)
    assert found["training_samples"] + found["validation_samples"] == 1438
    assert found["steps_of_a_pass"] == -(-found["training_samples"] // 100)
    assert found["steps_of_all_passes"] == 2 * found["steps_of_a_pass"]
    assert found["parameters"] > 10_000
    assert not folder.exists()


def test_the_plan_knows_a_finished_run(call, trained):
    text = call("train", *SMALL, "--out", trained, "--dry-run").stdout
    assert "finished already" in text
    assert yaml.safe_load(text.split("\nwould be done")[0])["head"]["name"] == "sem"


def test_without_out_the_folder_is_named_by_the_config(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call("train", *SMALL, "--name", "first", "--quiet")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("first-")


def test_import_makes_registered_names_work(tmp_path):
    (tmp_path / "my_losses.py").write_text(
        "import edgemask as em\n"
        "class Twice(em.losses.CELoss):\n"
        "    'Twice the cross entropy.'\n"
        "    def forward(self, *arguments, **keywords):\n"
        "        return 2 * super().forward(*arguments, **keywords)\n"
        "em.register('loss', 'twice', Twice)\n"
    )

    def run(*arguments):
        command = [sys.executable, "-m", "edgemask", "train", *SMALL, "--loss", "twice", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    refused = run("--dry-run")
    assert refused.returncode == 2
    assert "unknown loss 'twice'" in refused.stderr
    named = run("--dry-run", "--json", "--import", "my_losses")
    assert json.loads(named.stdout)["config"]["loss"]["name"] == "my_losses:Twice"
    missing = run("--import", "no_such_module")
    assert missing.returncode == 2
    assert "cannot import the module 'no_such_module'" in missing.stderr
