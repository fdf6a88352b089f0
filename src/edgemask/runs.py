"""Run folders read back, whatever state they are in.

A run folder may be unfinished, damaged or untrusted: arrays are read without pickle,
YAML by the safe loader, and sizes are checked before memory is used. Every problem is one line: an
error where one file is requested, an entry of ``RunRecord.problems`` where everything is.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shlex
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from edgemask.errors import MissingExtraError, UserError, one_line

__all__ = [
    "AUDIT_SCHEMA",
    "SCHEMA",
    "Array",
    "AuditRecord",
    "RunRecord",
    "check_seal",
    "find_runs",
    "finite_number",
    "is_audit",
    "is_finished",
    "is_run",
    "load_arrays",
    "parse_yaml",
    "read_arrays",
    "read_audit",
    "read_config",
    "read_history",
    "read_run",
    "read_samples",
    "read_summary",
    "seal",
    "shell_argument",
]

SCHEMA = 2
"""The schema version of the run folders that this version writes; it reads all up to this one."""

AUDIT_SCHEMA = 1
"""The schema version of the audit folders that this version writes."""

Array: TypeAlias = npt.NDArray[Any]
_T = TypeVar("_T")
_Args = ParamSpec("_Args")
_FILES = ("config.yaml", "metrics.jsonl", "summary.json")
_MAX_TEXT_BYTES = 1 << 28
_MAX_ARRAY_BYTES = 1 << 31
_MAX_YAML_VALUES = 100_000
_SEAL = b"sha256 "
_MAX_DIGITS = 100
_MAX_CLASSES = 20_000
_MAX_EPOCHS = 10_000_000
_MAX_NUMBER = 1e100
_INTEGER_COLUMNS = {"index", "given", "predicted", "clean"}
_FLOAT_COLUMNS = {"trust", "confidence", "mean_loss"}
_NEEDED_COLUMNS = {"index", "given", "predicted", "trust"}
# Columns of an audit's samples.npz and the kinds of numpy type that they may have.
_AUDIT_COLUMNS = {
    "id": "U",
    "given": "iu",
    "suggested": "iu",
    "trust": "f",
    "doubt": "f",
    "listed": "b",
    "rank": "iu",
    "reason": "iu",
}
_VERDICT = {
    "kind": str,
    "lower": float,
    "upper": (float, type(None)),
    "disagreement": float,
    "sentence": str,
    "explanation": str,
    "models": int,
    "checked": int,
    "wrong": int,
}


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The contents of a run folder; what is missing is empty."""

    path: Path
    schema: int = 1
    """Schema version of the folder."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The resolved config."""
    config_text: str = ""
    """The text of ``config.yaml``."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """``summary.json``, which only a finished run has."""
    history: tuple[Mapping[str, float | None], ...] = ()
    """The metrics of each finished epoch, in order."""
    noise: Mapping[str, Any] = field(default_factory=dict)
    """``noise.npz``: ``noisy`` and ``clean`` labels, kind, protocol, rate, seed, num_classes."""
    samples: Mapping[str, Array] = field(default_factory=dict)
    """Columns of ``samples.npz``, all of one length."""
    head: Mapping[str, Array] = field(default_factory=dict)
    """Scores, histograms and retention over time from ``head.npz``."""
    thumbnails: Mapping[str, Array] = field(default_factory=dict)
    """``index`` and ``images`` of the samples of lowest trust."""
    problems: tuple[str, ...] = ()
    """What is missing or could not be read, one sentence each."""

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return self.summary.get("status") == "finished"

    @property
    def name(self) -> str:
        """The run's own name, or that of its folder."""
        return str(self.config.get("name") or self.path.name)

    @property
    def seed(self) -> int | None:
        """The seed of the training."""
        train = self.config.get("train")
        seed = self.summary.get("seed", train.get("seed") if isinstance(train, Mapping) else None)
        return seed if isinstance(seed, int) else None

    @cached_property
    def num_classes(self) -> int:
        """The number of classes, as far as any file tells."""
        names = self.summary.get("class_names")
        counts = [len(names) if isinstance(names, list) else 0]
        if isinstance(self.noise.get("num_classes"), int):
            counts.append(self.noise["num_classes"])
        if "scores" in self.head:
            counts.append(self.head["scores"].shape[1])
        labels = [self.samples[key] for key in ("given", "predicted") if key in self.samples]
        counts += [int(column.max()) + 1 for column in labels if len(column)]
        return max(counts)

    def class_name(self, label: int) -> str:
        """Return the name of a class, its number where it has none; -1 is outside all classes."""
        if label < 0:
            return "none of the classes"
        names = self.summary.get("class_names")
        return str(names[label] if isinstance(names, list) and label < len(names) else label)


@dataclass(frozen=True, kw_only=True)
class AuditRecord:
    """The contents of an audit folder."""

    path: Path
    facts: Mapping[str, Any]
    """``audit.json``: the verdict, class names and everything else that is no array."""
    samples: Mapping[str, Array]
    """Columns of ``samples.npz``, all of one length: id, given, suggested, trust, doubt, listed,
    rank (from 1), reason (a number)."""
    thumbnails: Mapping[str, Array] = field(default_factory=dict)
    """``index`` (the position of a sample) and ``images``, where the samples are pictures."""
    items: tuple[Mapping[str, Any], ...] = ()
    """What to show of samples: ``index`` and one of ``text``, ``row``, ``path``."""
    problems: tuple[str, ...] = ()
    """What could not be read, one sentence each."""

    @property
    def rate(self) -> dict[str, Any]:
        """What is said of the share of wrong labels, as the fields of a verdict."""
        return {key: self.facts["rate"][key] for key in _VERDICT}

    @property
    def class_names(self) -> list[str]:
        """One name per class number."""
        return [str(name) for name in self.facts["class_names"]]

    @property
    def transition_matrix(self) -> npt.NDArray[np.float64]:
        """Estimated probability that a sample of class i (row) is labelled j (column)."""
        return np.asarray(self.facts["transition_matrix"], dtype=np.float64)

    @property
    def reason(self) -> list[str]:
        """The reason of each sample, in words."""
        reasons = [str(text) for text in self.facts["reasons"]]
        return [reasons[code] for code in self.samples["reason"].tolist()]

    @property
    def check(self) -> npt.NDArray[np.int64]:
        """Positions of samples drawn at random to be checked by hand, in their order."""
        return np.array(self.facts.get("check", ()), dtype=np.int64)

    @property
    def decisions(self) -> list[dict[str, str]]:
        """What was decided about samples before the audit, as rows of a corrections file."""
        return list(self.facts.get("decisions", ()))

    @property
    def order(self) -> npt.NDArray[np.int64]:
        """Positions of all samples, the most suspicious first."""
        return np.argsort(self.samples["rank"], kind="stable").astype(np.int64)


def is_audit(folder: Path) -> bool:
    """Return whether a folder holds an audit."""
    return (folder / "audit.json").is_file()


def read_audit(path: str | Path) -> AuditRecord:
    """Read an audit folder.

    Raises:
        UserError: If the folder is no audit, or a file is damaged or of a later version.
    """
    folder = Path(path)
    if not is_audit(folder):
        raise UserError(f"the folder {str(path)!r} holds no audit: there is no audit.json in it")
    try:
        facts = json.loads(_read_text(folder / "audit.json"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"audit.json is not valid JSON ({one_line(error)}).") from error
    if not isinstance(facts, dict):
        raise UserError(f"audit.json holds a {type(facts).__name__} instead of an object.")
    schema = facts.get("schema")
    if not isinstance(schema, int) or not 1 <= schema <= AUDIT_SCHEMA:
        raise UserError(
            f"audit.json has schema version {str(schema)[:20]!r}, and this version of EdgeMask "
            f"reads 1 to {AUDIT_SCHEMA}; update EdgeMask."
        )
    samples = read_arrays(folder / "samples.npz")
    if not _facts_fit(facts) or not _audit_fits(facts, samples) or not _draw_fits(facts, samples):
        raise UserError("audit.json and samples.npz lack values, or do not fit together.")
    problems: list[str] = []
    return AuditRecord(
        path=folder,
        facts=facts,
        samples=samples,
        thumbnails=_attempt(problems, _read_thumbnails, folder / "thumbnails.npz") or {},
        items=tuple(_read_items(folder / "items.jsonl", len(samples["id"]), problems)),
        problems=tuple(problems),
    )


def _facts_fit(facts: Mapping[str, Any]) -> bool:
    """Return whether the verdict, names and matrix of an audit are there and of the right types."""
    rate, names, reasons = facts.get("rate"), facts.get("class_names"), facts.get("reasons")
    if not isinstance(rate, dict) or not isinstance(names, list) or not isinstance(reasons, list):
        return False
    numbers = {key: float(v) if isinstance(v, int) else v for key, v in rate.items()}
    for key, kinds in _VERDICT.items():
        value = rate.get(key) if kinds is int else numbers.get(key)
        if key not in rate or not isinstance(value, kinds):  # type: ignore[arg-type]
            return False
    try:
        matrix = np.asarray(facts.get("transition_matrix"), dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return matrix.shape == (len(names), len(names))


def _draw_fits(facts: Mapping[str, Any], samples: Mapping[str, Array]) -> bool:
    """Return whether the random draw names samples, each once, and decisions are rows of text."""
    check, decisions = facts.get("check", []), facts.get("decisions", [])
    if not isinstance(check, list) or not isinstance(decisions, list):
        return False
    return (
        all(type(place) is int and 0 <= place < len(samples["id"]) for place in check)
        and len(set(check)) == len(check)
        and all(
            isinstance(row, dict)
            and row.keys() >= {"id", "action"}
            and all(isinstance(value, str) for value in row.values())
            for row in decisions
        )
    )


def _audit_fits(facts: Mapping[str, Any], samples: Mapping[str, Array]) -> bool:
    """Return whether the columns of an audit have one length and values that make sense."""
    if not samples.keys() >= _AUDIT_COLUMNS.keys():
        return False
    count = len(np.atleast_1d(samples["id"]))
    if any(
        samples[key].shape != (count,) or samples[key].dtype.kind not in kinds
        for key, kinds in _AUDIT_COLUMNS.items()
    ):
        return False
    if not count:
        return False
    below = {"given": "class_names", "suggested": "class_names", "reason": "reasons"}
    return (
        all(
            int(samples[key].min()) >= 0 and int(samples[key].max()) < len(facts[names])
            for key, names in below.items()
        )
        and bool(np.isfinite(samples["trust"]).all())
        and bool((np.sort(samples["rank"]) == np.arange(1, count + 1)).all())
    )


def _read_items(path: Path, count: int, problems: list[str]) -> Iterable[dict[str, Any]]:
    """Yield what is to be shown of samples; lines that are damaged are left out."""
    text = (_attempt(problems, _read_text, path) or "") if path.is_file() else ""
    damaged = 0
    for line in filter(str.strip, text.splitlines()):
        try:
            item = json.loads(line)
            good = isinstance(item["index"], int) and 0 <= item["index"] < count
        except (KeyError, RecursionError, TypeError, ValueError):
            good = False
        if good:
            yield item
        else:
            damaged += 1
    if damaged:
        problems.append(f"{damaged} line(s) of items.jsonl could not be read and are left out.")


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, finished or not."""
    return any((folder / name).is_file() for name in _FILES)


def is_finished(folder: Path) -> bool:
    """Return whether a folder holds a finished run; a damaged summary counts as unfinished."""
    try:
        return read_summary(folder).get("status") == "finished"
    except UserError:
        return False


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Return the run folders among the given folders, and below those that are no run themselves.

    A folder that is given twice is returned once.

    Raises:
        UserError: If a folder does not exist, or neither is a run nor holds one.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            what = "is a file" if path.is_file() else "does not exist"
            raise UserError(
                f"the run {str(path)!r} {what}; expected a folder that a run has written"
            )
        inside = [path] if is_run(path) else _runs_below(path)
        if not inside:
            raise UserError(
                f"the folder {str(path)!r} is no run and holds none: a run folder has one of "
                f"{', '.join(_FILES)}"
            )
        for run in inside:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def _runs_below(folder: Path, depth: int = 4) -> list[Path]:
    """Return the run folders below a folder, in order of their names; links are not followed."""
    runs: list[Path] = []
    for child in sorted(folder.iterdir()):
        if child.is_symlink() or not child.is_dir():
            continue
        if is_run(child):
            runs.append(child)
        elif depth > 1:
            runs += _runs_below(child, depth - 1)
    return runs


def shell_argument(path: Path) -> str:
    """Return a path for a command line: quoted, and never read as an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)


def read_run(path: str | Path) -> RunRecord:
    """Read a run folder, finished or not.

    Raises:
        UserError: If the folder does not exist or is no run.
    """
    folder = Path(path)
    if not is_run(folder):
        find_runs([folder])  # raises for all but a folder that holds runs
        raise UserError(
            f"the folder {str(path)!r} is no run itself, but holds runs; name one of them"
        )
    problems: list[str] = []
    text = _attempt(problems, _read_text, folder / "config.yaml")
    stored = None if text is None else _attempt(problems, _parse_config, text)
    schema, config = stored or (1, {})
    summary: dict[str, Any] = {}
    if (folder / "summary.json").is_file():
        summary = _attempt(problems, read_summary, folder) or {}
    else:
        problems.append("There is no summary.json: the run is unfinished.")
    history = tuple(read_history(folder, problems))
    samples: dict[str, Array] = {}
    if (folder / "samples.npz").is_file():
        samples = _attempt(problems, read_samples, folder) or {}
    else:
        later = "" if summary else " It is written at the end of a run."
        problems.append(f"There is no samples.npz: the trust in each label is not known.{later}")
    scored = any(row.get("head/retention") is not None for row in history)
    head = _attempt(problems, _read_head, folder / "head.npz", expected=scored) or {}
    thumbnails = _attempt(problems, _read_thumbnails, folder / "thumbnails.npz") or {}
    return RunRecord(
        path=folder,
        schema=schema,
        config=config,
        config_text=text or "",
        summary=summary,
        history=history,
        noise=_read_noise(folder / "noise.npz", problems),
        samples=samples,
        head=head,
        thumbnails=thumbnails,
        problems=tuple(problems),
    )


def _attempt(
    problems: list[str], read: Callable[_Args, _T], *args: _Args.args, **kwargs: _Args.kwargs
) -> _T | None:
    """Return what a reader returns; if it raises, ``None``, and its message is a problem."""
    try:
        return read(*args, **kwargs)
    except UserError as error:
        problems.append(str(error))
        return None


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_TEXT_BYTES:
            raise UserError(f"{path.name} is too large to be read.")
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        raise UserError(f"There is no {path.name}.") from None
    except OSError as error:
        raise UserError(f"{path.name} cannot be read: {error.strerror}.") from error


def parse_yaml(text: str, name: str) -> Any:
    """Return the value of a YAML text.

    Args:
        text: The text.
        name: What to call it in an error.

    Raises:
        UserError: If it is not YAML, or if aliases make it endless or huge.
    """
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "app", "to read a config", error) from error
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        # Before anything is built: merges of aliases double what they build each time.
        if _yaml_values(node, {}) <= _MAX_YAML_VALUES:
            return None if node is None else loader.construct_document(node)
    except Exception as error:  # PyYAML raises all sorts for broken dates, numbers and depths
        raise UserError(f"{name} is not valid YAML ({one_line(error)}).") from error
    raise UserError(f"{name} holds more than {_MAX_YAML_VALUES} values, or a value within itself.")


def _yaml_values(node: Any, known: dict[int, float]) -> float:
    """Return how many values a YAML node has with its aliases written out."""
    if id(node) not in known:
        known[id(node)] = math.inf  # until it is known: a node within itself has no end
        value = getattr(node, "value", None)
        if isinstance(value, str) and node.tag.endswith(":int") and len(value) > _MAX_DIGITS:
            raise ValueError(f"a number of {len(value)} digits")
        children = value if isinstance(value, list) else []
        pairs = (child for item in children for child in (item if type(item) is tuple else [item]))
        known[id(node)] = 1 + sum(_yaml_values(child, known) for child in pairs)
    return known[id(node)]


def read_config(folder: Path) -> tuple[int, dict[str, Any]]:
    """Return the schema version of a run folder and the config that is stored in it.

    Raises:
        UserError: If ``config.yaml`` is missing, damaged or of a later schema version.
    """
    return _parse_config(_read_text(folder / "config.yaml"))


def _parse_config(text: str) -> tuple[int, dict[str, Any]]:
    value = parse_yaml(text, "config.yaml")
    if not isinstance(value, dict):
        raise UserError("config.yaml holds no mapping.")
    config = {str(key): item for key, item in value.items()}
    schema = config.pop("schema", 1)
    if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
        raise UserError(
            f"config.yaml has schema version {str(schema)[:20]!r}, and this version of EdgeMask "
            f"reads 1 to {SCHEMA}; update EdgeMask."
        )
    return schema, config


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the final numbers of a run.

    Raises:
        UserError: If ``summary.json`` is missing or damaged.
    """
    text = _read_text(folder / "summary.json")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"summary.json is not valid JSON ({one_line(error)}).") from error
    if not isinstance(value, dict):
        raise UserError(f"summary.json holds a {type(value).__name__} instead of an object.")
    return value


def read_history(folder: Path, problems: list[str] | None = None) -> list[dict[str, float | None]]:
    """Return the metrics of each finished epoch, in order; damaged lines are left out.

    Args:
        folder: The run folder.
        problems: Gets a sentence for each problem.
    """
    problems = [] if problems is None else problems
    text = _attempt(problems, _read_text, folder / "metrics.jsonl") or ""
    epochs: dict[int, dict[str, float | None]] = {}
    damaged = 0
    for line in filter(str.strip, text.splitlines()):
        try:
            row = json.loads(line)
            epoch = int(row["epoch"])
            values = {str(key): finite_number(value) for key, value in row.items()}
        except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            epoch = -1
        if 0 <= epoch < _MAX_EPOCHS:
            epochs[epoch] = values
        else:
            damaged += 1
    if damaged:
        problems.append(f"{damaged} line(s) of metrics.jsonl could not be read and are left out.")
    if not epochs:
        problems.append("No epoch has been finished yet.")
    return [epochs[epoch] for epoch in sorted(epochs)]


def finite_number(value: object) -> float | None:
    """Return a number as it is; ``None`` for anything else, and for one too large to draw."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < _MAX_NUMBER else None


def _memory() -> int:
    """Return the bytes of memory that the machine has, where that can be known."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def seal(data: bytes) -> bytes:
    """Return an archive with its SHA-256 after its end, where readers of archives ignore it.

    The archive's own checksums leave out its table of contents.
    """
    return data + _SEAL + hashlib.sha256(data).hexdigest().encode()


def check_seal(data: bytes) -> bytes:
    """Return an archive without its seal; one that has none is returned as it is.

    Raises:
        ValueError: If the seal does not fit.
    """
    end = data.rfind(_SEAL, max(0, len(data) - len(_SEAL) - 64))
    if end < 0:
        return data
    if hashlib.sha256(data[:end]).hexdigest().encode() != data[end + len(_SEAL) :]:
        raise ValueError("its checksum does not fit")
    return data[:end]


def load_arrays(path: Path, *, limit: int | None = None) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file, or that of an ``.npy`` file under an empty name.

    The archive's own checksums are compared; pickled objects are refused.

    Args:
        path: The file, from whomever it may be.
        limit: How many bytes it may hold when unpacked; the memory of the machine by default.

    Raises:
        Exception: Of any kind, if the file is damaged or too large.
    """
    if limit is None:
        limit = _memory()
    size = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    if size > limit:
        raise MemoryError(f"it holds {size / 1e9:.0f} GB, and {limit / 1e9:.0f} GB can be used")
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(_SEAL) - 64))
        sealed = _SEAL in file.read()
    source = io.BytesIO(check_seal(path.read_bytes())) if sealed else path
    loaded = np.load(source, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        return {"": loaded}
    with loaded as file:
        arrays = {key: file[key] for key in file.files}
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{key} is no array")
    return arrays


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file.

    Raises:
        UserError: If the file is missing, damaged, holds objects, or would need too much memory.
    """
    if not path.is_file():
        raise UserError(f"There is no {path.name}.")
    try:
        arrays = load_arrays(path, limit=_MAX_ARRAY_BYTES)
        if "" in arrays:
            raise ValueError("it holds an array without a name")  # noqa: TRY301
    except Exception as error:  # zipfile, zlib and numpy raise all sorts for damaged files
        raise UserError(f"{path.name} cannot be read ({one_line(error)}).") from error
    return arrays


def read_samples(folder: Path) -> dict[str, Array]:
    """Return what is known of each training sample, as columns of one length.

    Raises:
        UserError: If ``samples.npz`` is missing, damaged, or its columns do not fit together.
    """
    samples = read_arrays(folder / "samples.npz")
    if not samples.keys() >= _NEEDED_COLUMNS or not _columns_fit(samples):
        raise UserError("samples.npz lacks columns, or they do not fit; it is left out.")
    return samples


def _columns_fit(samples: Mapping[str, Array]) -> bool:
    """Return whether the columns have one length, the right types and values that make sense."""
    shape = samples["index"].shape
    for key, value in samples.items():
        integer, real = key in _INTEGER_COLUMNS, key in _FLOAT_COLUMNS
        if (integer or real or value.ndim) and value.shape != shape:
            return False
        if (integer and not _is_integer(value)) or (real and value.dtype.kind != "f"):
            return False
    return (
        len(shape) == 1
        and bool((samples["index"] >= 0).all())
        and _are_labels(samples["given"], least=0)
        and _are_labels(samples["predicted"], least=0)
    )


def _is_integer(value: Array) -> bool:
    return np.can_cast(value.dtype, np.int64)


def _are_labels(value: Array | None, *, least: int) -> bool:
    """Return whether an array holds class numbers, and none that is absurd."""
    if value is None or value.ndim != 1 or not _is_integer(value):
        return False
    return not value.size or (least <= int(value.min()) and int(value.max()) < _MAX_CLASSES)


def _read_noise(path: Path, problems: list[str]) -> dict[str, Any]:
    """Return the labels and how they were made; a clean label of -1 is outside all classes."""
    arrays = _attempt(problems, read_arrays, path)
    if not arrays:
        return {}
    noise: dict[str, Any] = {}
    try:
        record = json.loads(str(arrays.get("meta", "{}")))
        for key in ("num_classes", "kind", "protocol", "rate", "seed"):
            if record.get(key) is not None:
                noise[key] = record[key]
        if not 0 < int(noise.get("num_classes", 1)) <= _MAX_CLASSES:
            del noise["num_classes"]
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        noise.pop("num_classes", None)
        problems.append("noise.npz: the record of how the labels were made cannot be read.")
    if _are_labels(arrays.get("noisy"), least=0):
        noise["noisy"] = arrays["noisy"]
    else:
        problems.append("noise.npz holds no usable noisy labels.")
    clean = arrays.get("clean")
    if clean is None:
        problems.append(
            "The clean labels are not known, so nothing is said about memorised labels or the true "
            "noise rate."
        )
    elif "noisy" in noise and _are_labels(clean, least=-1) and clean.shape == noise["noisy"].shape:
        noise["clean"] = clean
    else:
        problems.append("noise.npz: the clean labels do not fit the noisy ones and are left out.")
    return noise


def _read_head(path: Path, *, expected: bool) -> dict[str, Array]:
    """Return scores, histograms and retention over time; many heads have none of them."""
    if not path.is_file() and not expected:
        return {}
    head = read_arrays(path)
    head = {key: value for key, value in head.items() if value.dtype.kind in "iuf"}
    epochs = head.get("epochs", np.zeros(0))
    series = {
        key: head[key]
        for key, dimensions in (("scores", 3), ("histogram", 2), ("retention", 1))
        if key in head
        and head[key].ndim == dimensions
        and head[key].shape[:1] == epochs.shape
        and head[key].size
    }
    if not series or not _is_integer(epochs):
        raise UserError("head.npz holds no scores over time; it is left out.")
    if "histogram" in series:
        bins = series["histogram"].shape[1]
        edges = head.get("edges", np.zeros(0))
        fits = edges.shape == (bins + 1,) and bool(np.isfinite(edges).all())
        if not fits or not (np.diff(edges) > 0).all():
            edges = np.linspace(0, 1, bins + 1)
        series["edges"] = edges
    columns = head.get("columns", np.zeros(0))
    if "scores" in series and columns.shape == series["scores"].shape[2:] and _is_integer(columns):
        series["columns"] = columns
    return {"epochs": epochs, **series}


def _read_thumbnails(path: Path) -> dict[str, Array]:
    """Return the pictures of the samples of lowest trust; data without pictures have none."""
    if not path.is_file():
        return {}
    arrays = read_arrays(path)
    index, images = arrays.get("index"), arrays.get("images")
    if (
        index is None
        or images is None
        or not _is_integer(index)
        or images.ndim != 4
        or images.dtype != np.uint8
        or images.shape[3] not in {1, 3}
        or index.shape != images.shape[:1]
        or (images.size == 0 and len(images))
    ):
        raise UserError("thumbnails.npz is not of the expected shape; no pictures are shown.")
    return {"index": index, "images": images}
