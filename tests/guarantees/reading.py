"""One process that reads foreign files for the tests; a new one when it dies or hangs."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("reading_worker.py")
SECONDS = 10
"""A file has to be read or refused within this many seconds of the reader's processor time."""


class Reader:
    """Reads files in a process of its own."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, name: str, path: Path) -> dict[str, Any]:
        """Return how reading a file ended: read, refused, fault, died or hung."""
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps([name, str(path)]) + "\n")
        process.stdin.flush()
        line = self._line(process)
        if line:
            return json.loads(line)
        code = process.poll()
        self._errors.seek(0)
        said = self._errors.read()[-1000:]
        self._end()
        if code is None:
            return {"end": "hung", "message": f"no answer after {SECONDS} s"}
        return {"end": "died", "message": f"exit code {code}: {said}"}

    def _start(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        environment |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if ready != "ready\n":
            self._process.wait()
            self._errors.seek(0)
            raise RuntimeError(self._errors.read()[-3000:])
        return self._process

    def _line(self, process: subprocess.Popen[str]) -> str:
        """Wait for an answer while the process has used less than its processor time.

        A busy machine must not look like a hang: what blocks without computing is given longer.
        """
        assert process.stdout is not None
        start, waited = _processor_time(process.pid), 0
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not selector.select(timeout=1):
                waited += 1
                used = _processor_time(process.pid) - start
                if used > SECONDS or waited > 12 * SECONDS:
                    return ""
        line = process.stdout.readline()
        if not line:
            process.wait()
        return line

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._errors.close()
            self._process = None


def _processor_time(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # it is gone
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
