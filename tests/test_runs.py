"""Reading run folders: every version, every kind of damage, one line for each problem."""

from __future__ import annotations

import io
import json
import shutil
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from edgemask.engine import load_run
from edgemask.errors import UserError
from edgemask.report import write_report
from edgemask.runs import (
    SCHEMA,
    find_runs,
    is_finished,
    parse_yaml,
    read_arrays,
    read_config,
    read_history,
    read_run,
    read_samples,
    read_summary,
)
from sweeps import sweep

FOLDERS = Path(__file__).parent / "fixtures" / "runs"


def copied(place: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / "v1", place / "run"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return copied(tmp_path)


def test_a_finished_run_of_version_1_is_read_in_full():
    run = read_run(FOLDERS / "v1")
    assert (run.schema, run.finished, run.problems) == (1, True, ())
    assert (run.name, run.seed, run.num_classes) == ("v1", 0, 10)
    assert run.config["model"] == {
        "name": "mlp",
        "width": 1.0,
        "pretrained": False,
        "options": {"hidden": [16]},
    }
    assert [row["epoch"] for row in run.history] == [0, 1, 2]
    assert run.summary["test/accuracy"]["last"] == run.history[-1]["test/accuracy"]
    assert len(run.samples["trust"]) == len(run.noise["noisy"]) == 1438
    assert run.head["scores"].shape == (3, 10, 16)
    assert run.thumbnails["images"].shape == (12, 8, 8, 1)
    assert read_history(FOLDERS / "v1") == list(run.history)


def test_the_engine_reads_the_same(folder):
    run, record = load_run(folder), read_run(folder)
    assert run.finished
    assert run.history == list(record.history)
    assert run.summary == record.summary
    assert {key: value.tolist() for key, value in run.samples.items()} == {
        key: value.tolist() for key, value in record.samples.items()
    }


def test_the_schema_version_stands_in_the_config(folder):
    path = folder / "config.yaml"
    text = path.read_text()
    assert read_config(folder)[0] == 1
    path.write_text(f"schema: {SCHEMA}\n{text}")
    assert read_config(folder)[0] == SCHEMA
    assert "schema" not in read_config(folder)[1]
    path.write_text(f"schema: {SCHEMA + 1}\n{text}")
    with pytest.raises(UserError, match="update EdgeMask"):
        read_config(folder)
    with pytest.raises(UserError, match="update EdgeMask"):
        _ = load_run(folder).config


def test_runs_are_found_below_a_folder_and_count_once(tmp_path):
    for name in ("b/run2", "b/run1", "a"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.yaml").write_text("name: x\n")
    (tmp_path / "a" / "inner").mkdir()
    (tmp_path / "a" / "inner" / "config.yaml").write_text("name: part of the run a\n")
    (tmp_path / "empty").mkdir()
    found = find_runs([tmp_path, tmp_path / "b" / "run1"])
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["a", "b/run1", "b/run2"]
    with pytest.raises(UserError, match="is no run and holds none"):
        find_runs([tmp_path / "empty"])


def test_yaml_that_is_endless_or_huge_is_refused():
    with pytest.raises(UserError, match="a value within itself"):
        parse_yaml("a: &a [*a]", "x.yaml")
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(UserError, match="more than 100000 values"):
        parse_yaml("\n".join(lines), "x.yaml")
    for text in ("a: [", "a: 2026-99-99", "[" * 5000, "a: !!python/object:os.system x", "\x00"):
        with pytest.raises(UserError, match=r"x\.yaml is not valid YAML") as caught:
            parse_yaml(text, "x.yaml")
        assert len(str(caught.value).splitlines()) == 1


def archive(name: str, content: bytes, **change: int) -> bytes:
    """Return a zip file with one entry, with fields of its central directory overwritten."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr(name, content)
    data = bytearray(file.getvalue())
    start = data.index(b"PK\x01\x02")
    places = {"flags": (8, "<H"), "method": (10, "<H"), "size": (24, "<I")}
    for key, value in change.items():
        offset, form = places[key]
        struct.pack_into(form, data, start + offset, value)
        if key != "size":
            struct.pack_into(form, data, offset - 2, value)
    return bytes(data)


def array_file(shape: str = "(3,)", values: bytes = b"\x00" * 24) -> bytes:
    """Return an ``.npy`` file of int64 whose header says any shape."""
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values


RANDOM = archive("index.npy", array_file(values=np.random.default_rng(0).bytes(24)))
DAMAGE = {
    "compressed data": RANDOM[:60] + b"\xff\xff\xff\xff" + RANDOM[64:],
    "more values than can be counted": archive("index.npy", array_file(f"({1 << 60},)")),
    "more memory than the machine has": archive("index.npy", array_file(f"({10**12},)")),
    "negative shape": archive("index.npy", array_file("(-3,)")),
    "shape of words": archive("index.npy", array_file("('a',)")),
    "unknown compression": archive("index.npy", array_file(), method=99),
    "encrypted": archive("index.npy", array_file(), flags=1),
    "declared too large": archive("index.npy", array_file(), size=0xFFFFFFF0),
    "no header": archive("index.npy", b"\x93NUMPY"),
    "no zip": b"PK\x03\x04 and nothing else",
    "empty": b"",
    "a single array": array_file(),
}


@sweep("kind", DAMAGE)
@sweep("name", ["samples.npz", "noise.npz", "head.npz", "thumbnails.npz"])
def test_damaged_arrays_are_one_line(tmp_path, kind, name):
    folder = copied(tmp_path)
    (folder / name).write_bytes(DAMAGE[kind])
    with pytest.raises(UserError, match=name) as caught:
        read_arrays(folder / name)
    assert len(str(caught.value).splitlines()) == 1
    run = read_run(folder)
    assert len(run.problems) == 1
    assert run.problems[0].startswith(name)
    if name == "samples.npz":
        with pytest.raises(UserError, match=f"run: {name}"):
            _ = load_run(folder).samples


@sweep(
    "columns",
    [
        {"index": np.int64(3)},
        {"index": np.array([-1, 0, 1])},
        {"trust": np.array(["a", "b", "c"])},
        {"given": np.array([0, 1, 2**40])},
        {"predicted": np.zeros((3, 1), int)},
        {"given": np.zeros(3, np.uint64)},
        {"clean": np.zeros(2, int)},
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path, columns):
    good = {key: np.zeros(3, int) for key in ("index", "given", "predicted")}
    good["trust"] = np.ones(3)
    np.savez(tmp_path / "samples.npz", **good, ids=np.array(["a", "b", "c"]), calibrated=True)
    assert set(read_samples(tmp_path)) == {*good, "ids", "calibrated"}
    np.savez(tmp_path / "samples.npz", **(good | columns))
    with pytest.raises(UserError, match="do not fit"):
        read_samples(tmp_path)


@sweep("text", ["[1, 2]", "3", "null", '{"status": "fin', "", "[" * 100_000])
def test_a_summary_that_is_no_object_is_one_line(folder, text):
    (folder / "summary.json").write_text(text)
    with pytest.raises(UserError, match=r"^summary\.json") as caught:
        read_summary(folder)
    assert len(str(caught.value).splitlines()) == 1
    assert not is_finished(folder)
    assert any(line.startswith("summary.json") for line in read_run(folder).problems)
    with pytest.raises(UserError, match=r"run: summary\.json"):
        _ = load_run(folder).summary


def test_a_summary_with_nan_is_read(folder):
    (folder / "summary.json").write_text('{"status": "finished", "memorised": NaN}')
    assert read_run(folder).finished


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6])
def test_a_truncated_config_is_one_line_in_the_engine(folder, part):
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text[: int(part * len(text))] + "\n  : [")
    with pytest.raises(UserError, match=r"run: config\.yaml is not valid YAML") as caught:
        _ = load_run(folder).config
    assert len(str(caught.value).splitlines()) == 1


def test_an_unfinished_run_says_how_to_go_on_in_a_line_to_copy(folder):
    moved = folder.rename(folder.with_name("a run; rm -rf x"))
    (moved / "summary.json").unlink()
    with pytest.raises(
        UserError, match=r"not finished; continue it with: edgemask resume '.*a run; rm -rf x'$"
    ):
        _ = load_run(moved).summary


def test_history_keeps_numbers_as_they_are(tmp_path):
    rows = ['{"epoch": 0, "step": 12, "a": 0.5, "b": NaN}', '{"epoch": 1e99}', "[]", '{"epoch": 1']
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows))
    problems: list[str] = []
    assert read_history(tmp_path, problems) == [{"epoch": 0, "step": 12, "a": 0.5, "b": None}]
    assert problems == ["3 line(s) of metrics.jsonl could not be read and are left out."]
    assert json.dumps(read_history(tmp_path)[0]["step"]) == "12"


def test_flipped_bytes_and_odd_values_never_stop_a_report(tmp_path):
    rng = np.random.default_rng(0)
    names = ["samples.npz", "noise.npz", "head.npz", "thumbnails.npz", "config.yaml"]
    values = [np.nan, np.inf, 1e300, -1, 2**62]
    for number in range(40):
        folder = tmp_path / str(number)
        shutil.copytree(FOLDERS / "v1", folder, ignore=shutil.ignore_patterns("checkpoints"))
        path = folder / names[number % len(names)]
        if path.suffix == ".npz" and number % 2:
            arrays = dict(np.load(path))
            key = str(rng.choice([key for key, array in arrays.items() if array.ndim]))
            shape = arrays[key].shape if rng.random() < 0.7 else (*arrays[key].shape, 1)
            arrays[key] = np.full(shape, values[rng.integers(len(values))])
            np.savez(path, **arrays)
        else:
            data = bytearray(path.read_bytes())
            for place in rng.integers(0, len(data), 4):
                data[place] = rng.integers(256)
            path.write_bytes(data)
        assert write_report([folder], tmp_path / "out").html.stat().st_size > 10_000
