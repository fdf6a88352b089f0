"""The training loop: epochs of phases of steps, for every method."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from edgemask._random import load_rng_state, rng_state
from edgemask.diagnostics import logit_factor, retention
from edgemask.engine.checkpoint import Checkpoints
from edgemask.engine.config import Config
from edgemask.engine.evaluation import Evaluation, Evaluator
from edgemask.engine.feeds import Feeds, split_batch
from edgemask.engine.identity import config_hash
from edgemask.engine.inference import move
from edgemask.engine.observer import Observer
from edgemask.engine.outputs import TrainingResult
from edgemask.engine.probes import build_probes
from edgemask.engine.processes import Processes
from edgemask.engine.progress import Progress, Sums, add_sums, joint_means
from edgemask.engine.record import Recorder, record_interval
from edgemask.engine.remarks import ChanceWatch
from edgemask.engine.run_data import ALL, RunData
from edgemask.engine.rundir import RunDir
from edgemask.engine.samples import SamplesSoFar
from edgemask.engine.selection import Selection
from edgemask.engine.shared_state import SharedState
from edgemask.engine.signals import Interrupted, Stop
from edgemask.engine.stepping import LossError, Stepper
from edgemask.engine.transition import TransitionEstimate
from edgemask.errors import EdgeMaskWarning, UserError
from edgemask.methods import Clock, Method, Phase

__all__ = ["Trainer"]

# The loss is fetched from the device, checked and shown at most this often.
TICK_SECONDS = 0.5
# Several processes agree this often on whether to stop or to save.
AGREE_STEPS = 8


class Trainer:
    """Runs a method to its end; a run can be resumed at any step.

    Args:
        config: The resolved config.
        data: Data and labels.
        method: The method, set up.
        processes: The processes that share the work.
        folder: The run's folder.
        observers: Called as the run goes on; for the main process only.
        stop: Set when the run is asked to stop.
    """

    def __init__(
        self,
        config: Config,
        data: RunData,
        method: Method,
        processes: Processes,
        folder: RunDir,
        observers: Sequence[Observer],
        stop: Stop,
    ):
        self._config = config
        self._data = data
        self._method = method
        self._processes = processes
        self._folder = folder
        self._observers = observers
        self._stop = stop
        probes = build_probes(config, method, data.noise)
        self._stepper = Stepper(config, method, processes, probes)
        self._recorder = Recorder(
            data.noise,
            data.bundle.num_classes,
            config.train.epochs,
            probabilities=config.data.fold == ALL,
        )
        self._checkpoints = Checkpoints(folder.checkpoints)
        self._evaluate = Evaluator(
            logits=method.predict_logits,
            nets=method.nets,
            bundle=data.bundle,
            processes=processes,
            batch_size=config.eval.batch_size,
            workers=config.data.workers,
        )
        self._selection = Selection(config.train.select, method.nets)
        self._shared = SharedState(method, processes, len(data.noise))
        self._transition = TransitionEstimate(method, config.train.epochs)
        self._chance = ChanceWatch(_advice(config, method))
        self._progress = Progress()
        self._sums = Sums(processes.device)
        # The last epoch's evaluations, so that they are not repeated at the end of the run.
        self._evaluations: dict[str, Evaluation] = {}
        self._so_far = SamplesSoFar(folder, data, config.log.thumbnails)
        # After how many epochs the training set was evaluated, until samples.npz says so.
        self._unwritten: int | None = None
        self._loss, self._checked_step = math.nan, 0
        self._epoch_start = self._last_save = time.monotonic()
        self._last_tick = -math.inf

    def run(self) -> TrainingResult:
        """Train to the end of the run."""
        self._shared.start()
        self._epoch_start = self._last_save = time.monotonic()
        epochs = self._config.train.epochs
        while self._progress.epoch < epochs:
            self._run_epoch()
            (stopped,) = self._processes.any(bool(self._stop))
            if stopped and self._progress.epoch < epochs:
                if not self._is_checkpoint:
                    self._save_epoch()
                raise self._interrupted()
        return self._result()

    @property
    def _is_checkpoint(self) -> bool:
        """Whether a checkpoint is due after the epochs that are done."""
        every = self._config.log.checkpoint_epochs
        return every > 0 and self._progress.epoch % every == 0

    def _save_epoch(self) -> None:
        self._save()
        if self._processes.main:
            self._folder.write_history(self._progress.history)

    def _run_epoch(self) -> None:
        progress, method = self._progress, self._method
        epoch = progress.epoch
        method.start_epoch(epoch)
        names = list(method.phases(epoch))
        while progress.phase_number < len(names):
            if progress.phase is None:
                if progress.phase_number == 0:
                    self._transition.estimate(epoch)
                progress.phase = method.begin(names[progress.phase_number], epoch)
                progress.step = 0
            self._run_phase(progress.phase)
            self._shared.sync()
            progress.phase, progress.step = None, 0
            progress.phase_number += 1
        extra = method.end_epoch(epoch)
        self._stepper.check_finite()
        row = self._metrics(extra)
        progress.history.append(row)
        if self._config.train.rollback and self._is_tested and not self._is_last:
            self._selection.load_best()
        progress.epoch, progress.phase_number = epoch + 1, 0
        self._sums.clear()
        if self._is_checkpoint:
            self._save_epoch()
        elif progress.epoch == self._config.train.epochs and self._processes.main:
            self._folder.write_history(progress.history)
        if self._so_far.due:
            self._write_so_far()
        tracked = {k: v for k, v in row.items() if v is not None and k != "epoch"}
        self._processes.log(tracked, progress.total_steps)
        for observer in self._observers:
            observer.on_epoch(row)

    def _run_phase(self, phase: Phase) -> None:
        progress, method = self._progress, self._method
        feeds = Feeds(
            phase,
            self._data,
            self._config,
            self._processes,
            epoch=progress.epoch,
            number=progress.phase_number,
            least_rows=method.least_rows,
        )
        self._stepper.begin(phase)
        self._checked_step = progress.step
        for batch in feeds.batches(progress.step):
            try:
                self._run_step(phase, feeds, batch)
            except Exception:
                # A step on weights that are not finite may fail in a way of its own.
                self._check_loss(phase)
                raise
            if time.monotonic() - self._last_tick >= TICK_SECONDS:
                self._check_loss(phase)
            for observer in self._observers:
                observer.on_step(
                    epoch=progress.epoch,
                    phase=phase.name,
                    step=progress.step,
                    steps=len(feeds),
                    loss=self._loss,
                )
            if progress.step < len(feeds):
                self._stop_or_save(phase)
        self._check_loss(phase)
        first = method.networks[0]
        if first in phase.learners:
            progress.retention = retention(method.nets[first])

    def _run_step(self, phase: Phase, feeds: Feeds, batch: Mapping[str, Any]) -> None:
        progress, device = self._progress, self._processes.device
        clock = Clock(progress.epoch, progress.step, len(feeds))
        micro = [
            {name: move(part, device) for name, part in parts.items()}
            for parts in split_batch(batch, self._config.train.accumulate)
        ]
        results = self._stepper.step(phase, micro, clock, feeds.step_size(progress.step))
        first = next(iter(phase.feeds))
        for parts, result in zip(micro, results, strict=True):
            size = len(parts[first].index)
            self._sums.add("train/loss", result.loss, size)
            for name, value in result.logs.items():
                self._sums.add(f"train/{name}", value, size)
        progress.step += 1
        progress.total_steps += 1

    def _check_loss(self, phase: Phase) -> None:
        """Fetch the epoch's mean loss so far and refuse to continue if it is not finite."""
        self._loss = self._sums.mean("train/loss")
        if not math.isfinite(self._loss):
            raise LossError(
                f"the loss became {self._loss} in epoch {self._progress.epoch}, between steps "
                f"{self._checked_step} and {self._progress.step} of phase {phase.name!r} (learning "
                f"rate {self._stepper.rate:g}); the last good checkpoint is kept. Try a lower "
                "optim.lr, optim.clip, or fp32"
            )
        self._checked_step = self._progress.step
        self._last_tick = time.monotonic()

    def _stop_or_save(self, phase: Phase) -> None:
        """Between two steps: write a checkpoint if one is due, and stop if asked to."""
        log, steps = self._config.log, self._progress.total_steps
        due = log.checkpoint_steps is not None and steps % log.checkpoint_steps == 0
        stopped = False
        if self._processes.count == 1 or steps % AGREE_STEPS == 0:
            age = time.monotonic() - self._last_save
            late = log.checkpoint_seconds is not None and age >= log.checkpoint_seconds
            stopped, late = self._processes.any(bool(self._stop), late)
            due = due or late
        if due or stopped:
            self._check_loss(phase)
            self._stepper.check_finite()
            self._shared.sync()
            self._save()
        if stopped:
            raise self._interrupted()

    def _write_so_far(self) -> None:
        """Write what is known of the samples after the last evaluation of the training set."""
        if self._unwritten is not None and self._processes.main:
            self._so_far.write(
                self._unwritten,
                self._evaluations["train"],
                self._recorder.trust(self._method.trust()),
                self._recorder.dynamics,
            )
        self._unwritten = None

    def _interrupted(self) -> Interrupted:
        self._write_so_far()
        return Interrupted(self._folder.path, self._stop.number or 15)

    @property
    def _is_last(self) -> bool:
        return self._progress.epoch == self._config.train.epochs - 1

    @property
    def _is_tested(self) -> bool:
        """Whether the running epoch ends with a test."""
        return self._is_last or (self._progress.epoch + 1) % self._config.eval.every == 0

    def _metrics(self, extra: Mapping[str, float]) -> dict[str, Any]:
        """Evaluate and record at the end of an epoch; return its line of ``metrics.jsonl``."""
        progress = self._progress
        row: dict[str, Any] = {
            "epoch": progress.epoch,
            "step": progress.total_steps,
            "seconds": 0.0,
            "lr": self._stepper.rate,
            **joint_means(self._processes.collect(self._sums.state_dict())),
            **{name: float(value) for name, value in extra.items()},
        }
        evaluated = {}
        if self._is_tested:
            row |= self._test()
            evaluated["test"] = self._evaluations["test"]
        if progress.retention is not None:
            row["head/retention"] = progress.retention
        every = record_interval(self._config, len(self._data.train))
        if self._is_last or (every and (progress.epoch + 1) % every == 0):
            evaluated["training"] = self._evaluate_train()
            row |= self._recorder.record_samples(evaluated["training"])
            self._unwritten = None if self._is_last else progress.epoch + 1
        if self._processes.main and self._config.data.fold is None and not self._is_last:
            self._chance.check(progress.epoch, evaluated)
        first = self._method.nets[self._method.networks[0]]
        if (factor := logit_factor(first)) is not None:
            row["head/factor"] = factor
        self._recorder.record_head(first, progress.epoch, progress.retention)
        now = time.monotonic()
        row["seconds"] = round(now - self._epoch_start, 3)
        progress.seconds += now - self._epoch_start
        self._epoch_start = now
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in row.items()
        }

    def _test(self) -> dict[str, Any]:
        """Evaluate the model on test and validation sets."""
        classes = self._data.bundle.num_classes
        tested, row = self._evaluate.test(self._data.named_tests, top5=self._config.eval.top5)
        self._evaluations |= tested
        if "calibration" in self._config.log.record:
            for prefix, evaluation in tested.items():
                row |= evaluation.calibration(prefix)
        for prefix, (split, labels) in self._data.validations.items():
            held_out = self._evaluate(split, labels)
            row |= held_out.metrics(prefix, classes)
            if prefix == self._selection.by:
                self._selection.update(held_out, self._progress.epoch)
        return row

    def _evaluate_train(self) -> Evaluation:
        evaluation = self._evaluations["train"] = self._evaluate(
            self._data.train, self._data.given, probs=self._config.data.fold == ALL
        )
        return evaluation

    def _result(self) -> TrainingResult:
        data, method = self._data, self._method
        train = self._evaluations.get("train") or self._evaluate_train()
        test = self._evaluations.get("test") or self._evaluate(data.named_tests["test"])
        trust = self._recorder.trust(method.trust())
        kept = method.kept_labels()
        # From here on the networks hold the weights that validation chose.
        selected = self._test_selected() if self._selection.active else None
        return TrainingResult(
            model=method.deployed(),
            history=self._progress.history,
            seconds=self._progress.seconds,
            train=train,
            test=test,
            trust=trust,
            kept=None if kept is None else kept.cpu().numpy(),
            dynamics=self._recorder.dynamics,
            head=self._recorder.head_arrays(),
            selected=selected,
        )

    def _test_selected(self) -> dict[str, Any]:
        """Load the chosen weights and test them.

        Several networks may come from different epochs, so that no line of the history has this
        test.
        """
        selection = self._selection
        selection.load_best()
        tested, numbers = self._evaluate.test(self._data.named_tests, top5=self._config.eval.top5)
        return {
            "by": selection.by,
            "epochs": dict(selection.epochs),
            f"{selection.by}/accuracy": dict(selection.accuracies),
            **numbers,
            "per_class_accuracy": tested["test"].per_class(self._data.bundle.num_classes),
        }

    def _save(self) -> None:
        """Write a checkpoint."""
        mine = {
            "random": rng_state(),
            "generator": self._method.task.generator.get_state(),
            "sums": self._sums.state_dict(),
        }
        by_process = self._processes.collect(mine)
        if self._processes.main:
            self._folder.check_there()
            state = {
                "config_hash": config_hash(self._config),
                "noise_fingerprint": self._data.noise.fingerprint,
                "by_process": by_process,
                "progress": self._progress.state_dict(),
                "networks": {name: net.state_dict() for name, net in self._method.nets.items()},
                **{name: part.state_dict() for name, part in self._parts().items()},
            }
            self._checkpoints.save(state, self._progress.total_steps)
        self._processes.wait()
        self._last_save = time.monotonic()

    def _parts(self) -> dict[str, Any]:
        """Return everything with a state besides the networks, by its name in a checkpoint."""
        return {
            "criterion": self._method.task.criterion,
            "method": self._method,
            "stepper": self._stepper,
            "recorder": self._recorder,
            "selection": self._selection,
        }

    def restore(self) -> int | None:
        """Restore the newest checkpoint.

        Returns:
            The epoch to continue with, or None if there is no checkpoint.

        Raises:
            UserError: If it belongs to another config or other labels.
        """
        state = self._checkpoints.load()
        if state is None:
            return None
        self._check_same_run(state)
        for name, net in self._method.nets.items():
            net.load_state_dict(state["networks"][name])
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self._progress = Progress.from_state(state["progress"])
        self._restore_process(state["by_process"])
        if self._processes.main:
            self._folder.write_history(self._progress.history)
        return self._progress.epoch

    def _check_same_run(self, state: Mapping[str, Any]) -> None:
        if state["config_hash"] != config_hash(self._config):
            raise UserError(
                f"the checkpoint in {self._folder.path} belongs to another config (hash "
                f"{state['config_hash']}); give another folder, or start over with fresh"
            )
        if state["noise_fingerprint"] != self._data.noise.fingerprint:
            raise UserError(
                f"{self._folder.path} was trained on other labels (noise fingerprint "
                f"{state['noise_fingerprint'][:12]}, now {self._data.noise.fingerprint[:12]}); "
                "bring the data back as it was, or start over with fresh"
            )

    def _restore_process(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Restore what each process has of its own; there may be more or fewer than before.

        Then the first process takes over all sums, and processes that are new keep the random
        numbers that they were started with.
        """
        rank, count = self._processes.rank, self._processes.count
        sums = [part["sums"] for part in parts]
        if count != len(parts):
            sums = [add_sums(sums), *({} for _ in range(1, count))]
            if self._processes.main:
                warnings.warn(
                    f"{self._folder.path} was trained by {len(parts)} processes and continues "
                    f"with {count}: steps have the same samples, but random views, mixing and "
                    "batch normalisation within a process differ",
                    EdgeMaskWarning,
                    stacklevel=2,
                )
        self._sums.load_state_dict(sums[rank])
        if rank < len(parts):
            load_rng_state(parts[rank]["random"])
            self._method.task.generator.set_state(parts[rank]["generator"])


def _advice(config: Config, method: Method) -> str:
    """Return what to try when a model learns nothing."""
    rate = f"another optim.lr (now {config.optim.lr:g})"
    other_loss = method.uses_criterion and method.loss is None and config.loss.name != "ce"
    return f"loss ce or {rate}" if other_loss else rate
