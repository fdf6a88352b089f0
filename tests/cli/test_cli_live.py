"""The live view, drawn into a terminal that is a string."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from edgemask.cli.live import Display, LineDisplay, LiveDisplay, display
from edgemask.cli.screen import console, count, duration, percent
from edgemask.engine import RunInfo, resolve


def terminal(width=120, **options):
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=width,
        markup=False,
        highlight=False,
        **options,
    )


def info(tmp_path, **changed):
    values = {
        "path": tmp_path,
        "config": resolve({"train": {"epochs": 4}, "head": {"name": "sem"}}),
        "samples": 1000,
        "classes": 10,
        "noise": "symmetric, realised 0.4",
        "parameters": 12345,
        "device": "cpu",
        "processes": 1,
        "start_epoch": 0,
    }
    return RunInfo(**values | changed)


def epoch(number, **changed):
    row = {
        "epoch": number, "step": 8, "seconds": 2.0, "lr": 0.1, "train/loss": 1.25,
        "test/accuracy": 0.5 + number / 10, "memorised": 0.125, "head/retention": 0.25,
    }  # fmt: skip
    return row | changed


def test_live_view_shows_progress_and_numbers(tmp_path):
    out = terminal()
    watcher = LiveDisplay(out)
    watcher.on_start(info(tmp_path))
    watcher.on_step(epoch=0, phase="train", step=4, steps=8, loss=1.5)
    assert "step 4/8  loss 1.500" in _drawn(watcher)
    watcher.on_epoch(epoch(0))
    watcher.on_epoch(epoch(1, **{"test/accuracy": 0.25}))
    text = _drawn(watcher)
    assert "2/4 epochs" in text
    assert "4 s left" in text
    for words in ("25.00 %", "12.5 %", "25.0 %", "1.2500", "so far 50.00 % (oracle)"):
        assert words in text
    watcher.stop()
    written = out.file.getvalue()
    assert "12,345 parameters" in written
    assert "left" not in _drawn(watcher)


def _drawn(watcher, width=120):
    shown = terminal(width, color_system=None)
    shown.print(watcher)
    return shown.file.getvalue()


def test_live_view_keeps_the_last_epochs_only(tmp_path):
    watcher = LiveDisplay(terminal())
    watcher.on_start(info(tmp_path))
    for number in range(20):
        watcher.on_epoch(epoch(number))
    assert [row["epoch"] for row in watcher.rows] == list(range(12, 20))
    watcher.stop()


@pytest.mark.parametrize(("width", "shown"), [(80, False), (120, True)])
def test_a_narrow_terminal_shows_less_but_whole(tmp_path, width, shown):
    watcher = LiveDisplay(terminal(width))
    watcher.on_start(info(tmp_path))
    watcher.on_epoch(epoch(0, **{"confidence/clean": 0.5, "validation/accuracy": 0.25}))
    text = _drawn(watcher, width)
    assert ("conf. clean" in text) is shown
    assert "…" not in text
    watcher.stop()


def test_a_view_that_never_started_stops_quietly():
    out = terminal()
    with display(out, quiet=False) as watcher:
        assert isinstance(watcher, LiveDisplay)
    assert watcher.started is False


def test_the_terminal_is_given_back_after_an_error(tmp_path):
    out = terminal()

    def fail():
        with display(out, quiet=False) as watcher:
            watcher.on_start(info(tmp_path))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert out.file.getvalue().rstrip("\n").endswith("\x1b[?25h")


def test_line_view_writes_one_line_per_epoch(tmp_path):
    out = Console(file=io.StringIO(), width=200, markup=False)
    with display(out, quiet=False) as watcher:
        assert isinstance(watcher, LineDisplay)
        watcher.on_start(info(tmp_path, start_epoch=2))
        watcher.on_epoch(epoch(2))
        watcher.on_epoch(epoch(3, **{"test/accuracy": None}))
    lines = out.file.getvalue().splitlines()
    assert "resumes after epoch 2 of 4" in lines[-3]
    assert lines[-2] == (
        "epoch 3/4  loss 1.2500  test 70.00 %  memorised 12.5 %  edges kept 25.0 %  2.0 s  2 s left"
    )
    assert "test" not in lines[-1]
    assert "left" not in lines[-1]


def test_quiet_says_only_what_must_be_known(tmp_path, capsys):
    with display(terminal(), quiet=True) as watcher:
        assert type(watcher) is Display
        watcher.on_start(info(tmp_path, notes=("bf16 does not work here",)))
        watcher.on_epoch(epoch(0))
    assert capsys.readouterr() == ("", "note: bf16 does not work here\n")


def test_brackets_in_names_are_no_markup(capsys):
    console().print("runs/[bold]x[/bold]")
    assert capsys.readouterr().out == "runs/[bold]x[/bold]\n"


def test_words_for_numbers():
    assert percent(None) == "-"
    assert percent(float("nan")) == "-"
    assert percent(0.12345) == "12.35 %"
    assert (duration(59.6), duration(3599)) == ("1 min 0 s", "59 min 59 s")
    assert (count(1, "run"), count(0, "run")) == ("1 run", "0 runs")


def test_the_first_epoch_already_tells_the_time(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr("edgemask.cli.live.time.monotonic", lambda: now[0])
    watcher = LiveDisplay(terminal())
    watcher.on_start(info(tmp_path))
    now[0] += 3
    watcher.on_step(epoch=0, phase="train", step=1, steps=2, loss=1.5)  # half an epoch in 3 s
    assert "21 s left" in _drawn(watcher)
    watcher.stop()

    out = terminal(color_system=None)
    lines = LineDisplay(out)
    now[0] = 100.0
    lines.on_start(info(tmp_path))
    for seconds, step in ((3.0, 1), (11.0, 2), (12.0, 3)):
        now[0] = 100.0 + seconds
        lines.on_step(epoch=0, phase="train", step=step, steps=4, loss=1.5)
    told = [line for line in out.file.getvalue().splitlines() if "first epoch" in line]
    assert told == ["step 2/4 of the first epoch; about 1 min 17 s left"]
    lines.on_epoch(epoch(0))
    lines.on_step(epoch=1, phase="train", step=2, steps=4, loss=1.5)
    assert out.file.getvalue().count("first epoch") == 1
