"""The loop: epochs of phases of steps, for every method."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from edgemask.diagnostics import retention
from edgemask.engine.checkpoint import Checkpoints
from edgemask.engine.config import Config
from edgemask.engine.feeds import Feeds, split_batch
from edgemask.engine.identity import config_hash
from edgemask.engine.job import Job
from edgemask.engine.observer import Observer
from edgemask.engine.passes import move
from edgemask.engine.probes import build_probes
from edgemask.engine.processes import Processes
from edgemask.engine.randomness import load_rng_state, rng_state
from edgemask.engine.record import Recorder, looks_every
from edgemask.engine.rundir import RunDir
from edgemask.engine.selection import Selection
from edgemask.engine.signals import Interrupted, Stop
from edgemask.engine.stepping import Stepper
from edgemask.engine.tester import Outcome, Tester
from edgemask.errors import UserError
from edgemask.methods import Clock, Method, Phase
from edgemask.methods.parts.tables import joined_rows

__all__ = ["Trainer"]


class Trainer:
    """Runs a method to its end and can be taken up at any step.

    Args:
        config: The resolved config.
        job: Data and labels.
        method: The method, set up.
        processes: The processes that share the work.
        folder: The run's folder.
        observers: Who watches.
        stop: Raised when the run is asked to stop.
    """

    def __init__(
        self,
        config: Config,
        job: Job,
        method: Method,
        processes: Processes,
        folder: RunDir,
        observers: Sequence[Observer],
        stop: Stop,
    ):
        self.config = config
        self.job = job
        self.method = method
        self.processes = processes
        self.folder = folder
        self.observers = observers if processes.main else ()
        self.stop = stop
        self.stepper = Stepper(config, method, processes)
        self.stepper.probes = build_probes(config, method, job.noise)
        self.recorder = Recorder(job.noise, config.train.epochs)
        self.checkpoints = Checkpoints(folder.checkpoints)
        self.tester = Tester(
            answers=method.answers,
            nets=method.nets,
            bundle=job.bundle,
            processes=processes,
            batch_size=config.eval.batch_size,
            workers=config.data.workers,
        )
        self.selection = Selection(config.train.select, method.nets)
        # Where the run stands: all of it is in the checkpoint.
        self.epoch = 0
        self.phase_number = 0
        self.position = 0
        self.steps = 0
        self.phase: Phase | None = None
        self.sums: dict[str, list[float]] = {}
        self.retention: float | None = None
        self.history: list[dict[str, Any]] = []
        self.seconds = 0.0
        # The last epoch's answers, so that the end of the run need not ask again.
        self.answers: dict[str, Outcome] = {}
        self._synced: dict[str, Tensor] = {}
        self._clock = self._saved = time.monotonic()

    def run(self) -> None:
        """Train from where the run stands to its end."""
        if self.processes.count > 1:
            self._synced = {name: buffer.clone() for name, buffer in self._loss_memory()}
        self._clock = self._saved = time.monotonic()
        while self.epoch < self.config.train.epochs:
            self._epoch()
            self._check_stop()

    def _epoch(self) -> None:
        method, epoch = self.method, self.epoch
        method.start_epoch(epoch)
        names = list(method.phases(epoch))
        while self.phase_number < len(names):
            if self.phase is None:
                self.phase = method.begin(names[self.phase_number], epoch)
                self.position = 0
            self._run_phase(self.phase)
            self._sync()
            self.phase, self.position = None, 0
            self.phase_number += 1
        extra = method.end_epoch(epoch)
        self.stepper.check_finite()
        self.history.append(self._metrics(extra))
        if self.config.train.rollback and self._tested and not self._last:
            self.selection.take()
        self.epoch, self.phase_number, self.sums = epoch + 1, 0, {}
        self.save()
        if self.processes.main:
            self.folder.write_history(self.history)
        tracked = {k: v for k, v in self.history[-1].items() if v is not None and k != "epoch"}
        self.processes.accelerator.log(tracked, step=self.steps)
        for observer in self.observers:
            observer.on_epoch(self.history[-1])

    def _run_phase(self, phase: Phase) -> None:
        feed = Feeds(
            phase,
            self.job,
            self.config,
            self.processes,
            epoch=self.epoch,
            number=self.phase_number,
        )
        self.stepper.begin(phase)
        for batch in feed.batches(self.position):
            clock = Clock(self.epoch, self.position, len(feed))
            micro = split_batch(batch, self.config.train.accumulate)
            moved = [{k: move(b, self.processes.device) for k, b in m.items()} for m in micro]
            results = self.stepper.step(phase, moved, clock)
            first = next(iter(phase.feeds))
            for part, result in zip(micro, results, strict=True):
                size = len(part[first].index)
                self._add("train/loss", float(result.loss), size)
                for name, value in result.logs.items():
                    self._add(f"train/{name}", float(value), size)
            self.position += 1
            self.steps += 1
            for observer in self.observers:
                observer.on_step(
                    epoch=self.epoch,
                    phase=phase.name,
                    step=self.position,
                    steps=len(feed),
                    loss=float(results[-1].loss),
                )
            if self.position < len(feed):
                self._between_steps()
        if self.method.networks[0] in phase.learners:
            self.retention = retention(self.method.nets[self.method.networks[0]])

    def _add(self, name: str, value: float, size: int) -> None:
        entry = self.sums.setdefault(name, [0.0, 0.0])
        entry[0] += value * size
        entry[1] += size

    def _between_steps(self) -> None:
        log = self.config.log
        due = log.checkpoint_steps is not None and self.steps % log.checkpoint_steps == 0
        if not due and log.checkpoint_seconds is not None:
            late = time.monotonic() - self._saved >= log.checkpoint_seconds
            due = self.processes.any(late)
        stopped = self._stopped()
        if due or stopped:
            self._sync()
            self.save()
        if stopped:
            raise Interrupted(self.folder.path, self.stop.number or 15)

    def _stopped(self) -> bool:
        return self.processes.any(bool(self.stop))

    def _check_stop(self) -> None:
        if self._stopped() and self.epoch < self.config.train.epochs:
            raise Interrupted(self.folder.path, self.stop.number or 15)

    def _sync(self) -> None:
        """Make all processes agree on memories and running statistics."""
        processes = self.processes
        if processes.count == 1:
            return
        self.method.sync(processes.total)
        for name, buffer in self._loss_memory():
            changed = (buffer != self._synced[name]).flatten(1).any(1)
            buffer.copy_(joined_rows(buffer, changed, processes.total))
            self._synced[name] = buffer.clone()
        processes.same_buffers(self.method.nets)

    def _loss_memory(self) -> list[tuple[str, Tensor]]:
        """Return what the loss remembers of each sample (ELR)."""
        return [
            (name, buffer)
            for name, buffer in self.method.task.criterion.named_buffers()
            if buffer.ndim > 1 and len(buffer) == len(self.job.noise)
        ]

    @property
    def _last(self) -> bool:
        return self.epoch == self.config.train.epochs - 1

    @property
    def _tested(self) -> bool:
        """Whether the running epoch ends with a test."""
        return self._last or (self.epoch + 1) % self.config.eval.every == 0

    def _metrics(self, extra: Mapping[str, float]) -> dict[str, Any]:
        config, classes = self.config, self.job.bundle.num_classes
        row: dict[str, Any] = {
            "epoch": self.epoch,
            "step": self.steps,
            "seconds": 0.0,
            "lr": self.stepper.rate,
        }
        for name, (total, count) in sorted(self.sums.items()):
            both = self.processes.total(torch.tensor([total, count], dtype=torch.float64))
            row[name] = float(both[0] / both[1]) if both[1] else None
        row |= {name: float(value) for name, value in extra.items()}
        if self._tested:
            for prefix, split in self.job.named_tests.items():
                outcome = self.answers[prefix] = self.tester(split)
                row |= outcome.metrics(prefix, classes, top5=config.eval.top5)
                if "calibration" in config.log.record:
                    row |= outcome.calibration(prefix)
            for prefix, (split, labels) in self.job.validations.items():
                held = self.tester(split, labels)
                row |= held.metrics(prefix, classes)
                if prefix == self.selection.by:
                    self.selection.look(held, self.epoch)
        if self.retention is not None:
            row["head/retention"] = self.retention
        every = looks_every(config.train.record_every, len(self.job.train))
        if self._last or (every and (self.epoch + 1) % every == 0):
            outcome = self.answers["train"] = self.tester(self.job.train, self.job.given)
            row |= self.recorder.look(outcome)
        first = self.method.nets[self.method.networks[0]]
        self.recorder.head(first, self.epoch, self.retention)
        now = time.monotonic()
        row["seconds"] = round(now - self._clock, 3)
        self.seconds += now - self._clock
        self._clock = now
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }

    def save(self) -> None:
        """Write a checkpoint of the run as it stands."""
        self.stepper.check_finite()
        rngs = self.processes.collect([rng_state(), self.method.task.generator.get_state()])
        if self.processes.main:
            self.checkpoints.save(self._state(rngs), self.steps)
        self.processes.wait()
        self._saved = time.monotonic()

    def _state(self, rngs: list[Any]) -> dict[str, Any]:
        return {
            "config_hash": config_hash(self.config),
            "noise_fingerprint": self.job.noise.fingerprint,
            "processes": self.processes.count,
            "position": {
                "epoch": self.epoch,
                "phase_number": self.phase_number,
                "position": self.position,
                "steps": self.steps,
                "phase": None if self.phase is None else self.phase.state_dict(),
                "sums": self.sums,
                "retention": self.retention,
                "seconds": self.seconds,
                "rate": self.stepper.rate,
            },
            "history": self.history,
            "networks": {name: net.state_dict() for name, net in self.method.nets.items()},
            "criterion": self.method.task.criterion.state_dict(),
            "method": self.method.state_dict(),
            "stepper": self.stepper.state_dict(),
            "recorder": self.recorder.state_dict(),
            "selection": self.selection.state_dict(),
            "random": rngs,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to where a checkpoint stands.

        Raises:
            UserError: If it belongs to another config, other labels or another number of
                processes.
        """
        if state["config_hash"] != config_hash(self.config):
            raise UserError(
                f"the checkpoint in {self.folder.path} belongs to another config (hash "
                f"{state['config_hash']}); give another folder, or start over with fresh"
            )
        if state["noise_fingerprint"] != self.job.noise.fingerprint:
            raise UserError(
                f"{self.folder.path} was trained on other labels (noise fingerprint "
                f"{state['noise_fingerprint'][:12]}, now {self.job.noise.fingerprint[:12]}); "
                "bring the data back as it was, or start over with fresh"
            )
        if state["processes"] != self.processes.count:
            raise UserError(
                f"{self.folder.path} was trained by {state['processes']} processes, now there are "
                f"{self.processes.count}; resume with as many as before"
            )
        for name, net in self.method.nets.items():
            net.load_state_dict(state["networks"][name])
        self.method.task.criterion.load_state_dict(state["criterion"])
        self.method.load_state_dict(state["method"])
        self.stepper.load_state_dict(state["stepper"])
        self.recorder.load_state_dict(state["recorder"])
        if self.selection.active:
            self.selection.load_state_dict(state["selection"])
        place = state["position"]
        self.epoch, self.phase_number = place["epoch"], place["phase_number"]
        self.position, self.steps = place["position"], place["steps"]
        self.phase = None if place["phase"] is None else Phase.from_state(place["phase"])
        self.sums = {name: list(entry) for name, entry in place["sums"].items()}
        self.retention, self.seconds = place["retention"], place["seconds"]
        self.stepper.rate = place["rate"]
        self.history = [dict(row) for row in state["history"]]
        rng, generator = state["random"][self.processes.rank]
        load_rng_state(rng)
        self.method.task.generator.set_state(generator)
        if self.processes.main:
            self.folder.write_history(self.history)
