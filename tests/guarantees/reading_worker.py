"""Reads foreign files that it is given one by one, and reports how each attempt ended.

Not a test itself: a process of its own, which may die or hang of a file. A line of its input is the
name of a reader and a path; the answer is one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY = 1 << 30
"""Bytes that reading a small file may take beyond what the process has when it starts."""


def readers() -> dict[str, Callable[[Path], Any]]:
    """Return every reader of files that come from others, by name."""
    from edgemask import noise
    from edgemask._pickles import read_pickle, read_torch
    from edgemask.audit import read_corrections
    from edgemask.data import load
    from edgemask.data.images import read_image
    from edgemask.engine import load_run, load_yaml, resolve
    from edgemask.engine.audit_matrices import from_matrices
    from edgemask.engine.checkpoint import Checkpoints
    from edgemask.engine.deploy import read_weights
    from edgemask.losses.transition import read_transition
    from edgemask.methods.parts.clip import read_features
    from edgemask.models.weights import read_weights as read_pretrained
    from edgemask.noise import NoisyLabels
    from edgemask.report import write_audit_report, write_report

    given, names = [number % 2 for number in range(40)], [f"s{n}" for n in range(40)]

    def use_run(path: Path) -> None:
        """Use all that a run folder holds, as report, eval and resume would."""
        with tempfile.TemporaryDirectory() as folder:
            write_report([path], Path(folder))
        run = load_run(path)
        for read in (
            lambda: run.config, lambda: run.summary, lambda: run.samples, lambda: run.noise,
            lambda: run.history, lambda: read_weights(path / "model.safetensors"),
        ):  # fmt: skip
            _refused(read)
        Checkpoints(path / "checkpoints").load()

    def use_audit(path: Path) -> None:
        with tempfile.TemporaryDirectory() as folder:
            write_audit_report(path, folder)

    def judge(path: Path) -> None:
        """Audit labels by probabilities from elsewhere."""
        from_matrices("probabilities", path, given, ["a", "b"], chance_driven=False, ids=names)

    return {
        "corrections": read_corrections,
        "audit": use_audit,
        "probabilities": judge,
        "features": lambda path: read_features(str(path), 40, None, what="features"),
        "transition": lambda path: read_transition(str(path)),
        "matrix": lambda path: noise.from_matrix(given, str(path), seed=0),
        "table": lambda path: load(f"{'csv' if path.suffix == '.csv' else 'parquet'}:{path}"),
        "labels": lambda path: noise.from_file(None, path, 10),
        "manifest": NoisyLabels.load,
        "pickle": lambda path: read_pickle(path.read_bytes(), path),
        "torch": read_torch,
        "npz": lambda path: load(f"npz:{path}"),
        "csv": lambda path: load(f"csv:{path}", size=8),
        "folder": lambda path: load(f"imagefolder:{path}", size=8),
        "image": read_image,
        "weights": read_weights,
        "pretrained": read_pretrained,
        "config": lambda path: resolve(load_yaml(path)),
        "run": use_run,
    }


def _refused(read: Callable[[], Any]) -> None:
    from edgemask.errors import UserError

    try:
        read()
    except UserError as error:
        _check(error)


def _check(error: Exception) -> None:
    text = str(error)
    if text.startswith("wrong config: "):  # a line for each mistake
        text = text.partition("\n")[0]
    if not text or "\n" in text or len(text) > 3000:
        raise AssertionError(f"not a message of one line: {text[:500]!r}") from error


def main() -> None:
    """Answer until the input ends."""
    known = readers()
    warnings.simplefilter("ignore")
    from edgemask.errors import UserError

    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        name, path = json.loads(line)
        try:
            known[name](Path(path))
            answer = {"end": "read"}
        except UserError as error:
            try:
                _check(error)
                answer = {"end": "refused", "message": str(error)}
            except AssertionError as fault:
                answer = {"end": "fault", "message": str(fault)}
        except BaseException:  # noqa: BLE001
            answer = {"end": "fault", "message": traceback.format_exc()[-2000:]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
