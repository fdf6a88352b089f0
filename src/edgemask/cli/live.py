"""Progress of a run: a live display on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgemask.cli.screen import complain, count, duration, percent
from edgemask.engine import Observer, RunInfo

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["Display", "LineDisplay", "LiveDisplay", "display"]

_ROWS = 8
_PATIENCE = 10.0  # seconds of the first epoch before a log says how long the run will take
_WIDE = 100
# Columns of an epoch: the metric, its title, its number of decimals.
_COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("test/accuracy", "test", 2),
    ("validation/accuracy", "validation", 2),
    ("clean_validation/accuracy", "clean val.", 2),
    ("memorised", "memorised", 1),
    ("confidence/clean", "conf. clean", 1),
    ("confidence/noisy", "conf. wrong", 1),
    ("head/retention", "edges kept", 1),
    ("head/factor", "logit factor", 1),
)


class Display(Observer):
    """Prints nothing but notes; the base class of the displays."""

    def __init__(self) -> None:
        self.started = False
        self.epochs = 0
        self._times: deque[float] = deque(maxlen=20)
        self._began, self._first = 0.0, 0

    def on_start(self, info: RunInfo) -> None:
        """Store the number of epochs and print notes."""
        self.started = True
        self.epochs = info.config.train.epochs
        self._began, self._first = time.monotonic(), info.start_epoch
        for note in info.notes:
            complain(note, kind="note")

    def left(self, metrics: Mapping[str, Any]) -> float:
        """Return the estimated seconds that remain, from the time of the last epochs."""
        self._times.append(metrics["seconds"])
        remaining: int = self.epochs - metrics["epoch"] - 1
        return remaining * sum(self._times) / len(self._times)

    def first_estimate(self, epoch: int, step: int, steps: int) -> float | None:
        """Return the estimated seconds that remain from the first steps; None after an epoch."""
        done = epoch - self._first + step / max(steps, 1)
        if self._times or done <= 0:
            return None
        return (time.monotonic() - self._began) / done * (self.epochs - self._first - done)


def describe(info: RunInfo) -> list[str]:
    """Return what is run, in a few lines."""
    config = info.config
    device = info.device + (f" x {info.processes} processes" if info.processes > 1 else "")
    method = "" if config.method.name == "supervised" else f"{config.method.name}, "
    classes = count(info.classes, "class", "classes")
    data = f"{config.data.spec}: {count(info.samples, 'sample')}, {classes}"
    labels = " as given" if config.noise.spec == "none" else f": {info.noise}"
    model = f"{config.model.name}, {config.head.name} head, {info.parameters:,} parameters"
    lines = [
        f"data   {data}; labels{labels}",
        f"model  {model}; {method}{config.loss.name} loss; {device}",
        f"run    {info.path}",
    ]
    if info.start_epoch:
        lines.append(f"       resumes after epoch {info.start_epoch} of {config.train.epochs}")
    return lines


class LineDisplay(Display):
    """One line per epoch, for logs and pipes."""

    def __init__(self, out: Console):
        super().__init__()
        self.out = out
        self._estimated = False

    def on_start(self, info: RunInfo) -> None:
        """Print what is run."""
        super().on_start(info)
        for line in describe(info):
            self.out.print(line)

    def on_step(self, *, epoch: int, phase: str, step: int, steps: int, loss: float) -> None:
        """Say once how long the run will take, where its first epoch is a long one."""
        left = self.first_estimate(epoch, step, steps)
        if left is not None and not self._estimated and time.monotonic() > self._began + _PATIENCE:
            self._estimated = True
            self.out.print(f"step {step}/{steps} of the first epoch; about {duration(left)} left")

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        """Print the line."""
        parts = [f"epoch {metrics['epoch'] + 1:>{len(str(self.epochs))}}/{self.epochs}"]
        if metrics.get("train/loss") is not None:
            parts.append(f"loss {metrics['train/loss']:.4f}")
        parts += [
            f"{title} {percent(metrics[key], digits)}"
            for key, title, digits in _COLUMNS
            if metrics.get(key) is not None
        ]
        parts.append(f"{metrics['seconds']:.1f} s")
        left = self.left(metrics)
        if metrics["epoch"] + 1 < self.epochs:
            parts.append(f"{duration(left)} left")
        self.out.print("  ".join(parts))


class LiveDisplay(Display):
    """A progress bar, the time that is left and the last epochs, redrawn in place."""

    def __init__(self, out: Console):
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        super().__init__()
        self.out = out
        self.bar = Progress(
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TextColumn("epochs  {task.fields[eta]}  {task.fields[step]}", markup=False),
            console=out,
        )
        self.task: Any = None
        self.rows: deque[Mapping[str, Any]] = deque(maxlen=_ROWS)
        self.best: float | None = None
        self.live = Live(self, console=out, refresh_per_second=5)
        self._eta, self._until, self._reached = "", 0.0, 0.0

    def __rich__(self) -> RenderableType:
        """Return what is shown now."""
        from rich.console import Group

        if self._until:
            self._eta = f"{duration(max(self._until - time.monotonic(), 0))} left"
        self.bar.update(self.task, eta=self._eta)
        return Group(self._table(), self.bar) if self.rows else Group(self.bar)

    def _table(self) -> RenderableType:
        from rich.table import Table

        shown = [column for column in _COLUMNS if self.rows[-1].get(column[0]) is not None]
        if self.out.width < _WIDE:
            shown = [column for column in shown if not column[0].startswith("confidence/")]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        titles = ["epoch", "loss", *(title for _, title, _ in shown), "seconds"]
        for title in titles:
            table.add_column(title, justify="right", no_wrap=True)
        for row in self.rows:
            loss = row.get("train/loss")
            cells = [percent(row.get(key), digits) for key, _, digits in shown]
            table.add_row(
                str(row["epoch"] + 1),
                "-" if loss is None else f"{loss:.4f}",
                *cells,
                f"{row['seconds']:.1f}",
                style="bold" if row is self.rows[-1] else None,
            )
        if self.best is not None:
            table.caption = f"best test accuracy so far {percent(self.best)} (oracle)"
            table.caption_justify = "left"
        return table

    def on_start(self, info: RunInfo) -> None:
        """Print what is run and start the live display."""
        super().on_start(info)
        for line in describe(info):
            self.out.print(line)
        self.task = self.bar.add_task(
            "", total=self.epochs, completed=info.start_epoch, eta="", step=""
        )
        self.live.start(refresh=True)

    def on_step(self, *, epoch: int, phase: str, step: int, steps: int, loss: float) -> None:
        """Move the bar by a step."""
        where = "" if phase == "train" else f"{phase} "
        text = f"{where}step {step}/{steps}  loss {loss:.3f}"
        # An epoch may have several phases; the bar waits for the longest and never goes back.
        self._reached = max(self._reached, epoch + step / max(steps, 1))
        self.bar.update(self.task, completed=self._reached, step=text)
        left = self.first_estimate(epoch, step, steps)
        if left is not None:
            self._until = time.monotonic() + left

    def on_epoch(self, metrics: Mapping[str, Any]) -> None:
        """Add the epoch to the table."""
        accuracy = metrics.get("test/accuracy")
        if accuracy is not None:
            self.best = max(accuracy, self.best or 0.0)
        self.rows.append(metrics)
        self._until = time.monotonic() + self.left(metrics)
        self.bar.update(self.task, completed=metrics["epoch"] + 1)

    def stop(self) -> None:
        """Stop the live display and leave its last state on the terminal."""
        if self.task is not None:
            self._until, self._eta = 0.0, ""
            self.bar.update(self.task, step="")
        self.live.stop()


@contextmanager
def display(out: Console, *, quiet: bool) -> Iterator[Display]:
    """Choose the display: none, live on a terminal, line by line elsewhere."""
    if quiet:
        yield Display()
    elif not out.is_terminal:
        yield LineDisplay(out)
    else:
        live = LiveDisplay(out)
        try:
            yield live
        finally:
            live.stop()
