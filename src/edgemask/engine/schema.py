"""The border: YAML files, nested mappings and ``a.b=c`` become a checked :class:`Config`."""

from __future__ import annotations

import copy
import functools
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from edgemask.engine.config import Config, to_dict
from edgemask.errors import MissingExtraError, UserError

__all__ = ["assign", "build", "check_options", "dump_yaml", "json_schema", "load_yaml", "merge"]


@functools.cache
def _adapter() -> Any:
    try:
        from pydantic import TypeAdapter
    except ImportError as error:
        raise MissingExtraError("pydantic", "app", "to check a config", error) from error
    return TypeAdapter(Config)


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "app", "to read a config", error) from error
    return yaml


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Join nested mappings; where two speak, the later one is heard.

    Example:
        >>> merge({"train": {"epochs": 3, "seed": 0}}, {"train": {"epochs": 5}})
        {'train': {'epochs': 5, 'seed': 0}}
    """
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
                result[key] = merge(result[key], value)
            else:
                result[key] = copy.deepcopy(value)
    return result


def assign(values: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Apply ``a.b=c`` lines, their right side read as YAML.

    Example:
        >>> assign({}, ["optim.lr=0.1", "head.name=sem"])
        {'optim': {'lr': 0.1}, 'head': {'name': 'sem'}}
    """
    result = merge(values)
    for line in assignments:
        path, equals, text = line.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise UserError(f"--set takes key=value such as optim.lr=0.1, got {line!r}")
        node = result
        for key in keys[:-1]:
            child = node.setdefault(key, {})
            if not isinstance(child, dict):
                raise UserError(f"--set {line}: {key!r} holds a value, it has no {keys[-1]!r}")
            node = child
        node[keys[-1]] = parse_value(text)
    return result


def parse_value(text: str) -> Any:
    """Read one YAML value, numbers like ``1e-3`` included."""
    yaml = _yaml()
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{text!r} is not a value that YAML can read: {error}") from error
    return _number(value)


def _number(value: Any) -> Any:
    """Turn strings that YAML 1.1 fails to see as numbers (``1e-3``) into numbers, in depth."""
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_number(item) for item in value]
    if isinstance(value, str) and value[:1] in "+-.0123456789" and "e" in value.lower():
        try:
            return float(value)
        except ValueError:
            return value
    return value


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file that holds a (part of a) config."""
    yaml = _yaml()
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the config file {path}: {error}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path} must hold a mapping such as 'train: {{epochs: 20}}'")
    numbers: dict[str, Any] = _number(values)
    return numbers


def dump_yaml(config: Config) -> str:
    """Return the config as YAML."""
    text: str = _yaml().safe_dump(to_dict(config), sort_keys=False, allow_unicode=True)
    return text


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a config file, with the meaning of every key."""
    schema: dict[str, Any] = _adapter().json_schema()
    return schema


def build(*layers: Mapping[str, Any]) -> Config:
    """Join layers of settings and check them: types, ranges, unknown keys, names and options.

    Raises:
        UserError: Names the full path of each wrong key, what was expected and the nearest match.

    Example:
        >>> build({"train": {"epochs": 3}}, {"head": {"name": "sem"}}).train.epochs
        3
    """
    from pydantic import ValidationError

    values = merge(*layers)
    try:
        config: Config = _adapter().validate_python(values)
    except ValidationError as error:
        lines = [_explain(item) for item in error.errors(include_url=False)]
        raise UserError("wrong config: " + "\n".join(lines)) from None
    _check_ranges(config)
    return config


def _explain(item: Mapping[str, Any]) -> str:
    """Turn one of pydantic's errors into a line that helps."""
    path = ".".join(str(key) for key in item["loc"] if not str(key).startswith(("list[", "dict[")))
    if item["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        node: Any = to_dict(Config())
        for key in item["loc"][:-1]:
            node = node.get(key, {}) if isinstance(node, dict) else {}
        return f"{path}: no such key{_nearest(str(item['loc'][-1]), node)}"
    if item["type"] == "literal_error":
        return f"{path}: {item['input']!r} is not one of {item['ctx']['expected']}"
    return f"{path}: {item['msg'].lower()}, got {item['input']!r}"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{hint} Known: {', '.join(names)}" if names else hint


_RANGES: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("train.epochs", lambda v: v >= 1, "at least 1"),
    ("train.batch_size", lambda v: v >= 1, "at least 1"),
    ("train.accumulate", lambda v: v >= 1, "at least 1"),
    ("train.record_every", lambda v: v is None or v >= 0, "0 or above"),
    ("train.threads", lambda v: v is None or v >= 1, "at least 1"),
    ("data.validation", lambda v: 0 <= v < 1, "in [0, 1)"),
    ("data.limit", lambda v: v is None or v >= 1, "at least 1"),
    ("data.test_limit", lambda v: v is None or v >= 1, "at least 1"),
    ("data.workers", lambda v: v >= 0, "0 or above"),
    ("model.width", lambda v: v > 0, "above 0"),
    ("optim.lr", lambda v: v >= 0, "0 or above"),
    ("optim.momentum", lambda v: 0 <= v < 1, "in [0, 1)"),
    ("optim.beta1", lambda v: 0 <= v < 1, "in [0, 1)"),
    ("optim.beta2", lambda v: 0 <= v < 1, "in [0, 1)"),
    ("optim.weight_decay", lambda v: v >= 0, "0 or above"),
    ("optim.l1", lambda v: v >= 0, "0 or above"),
    ("optim.clip", lambda v: v is None or v > 0, "above 0"),
    ("optim.schedule.warmup", lambda v: v >= 0, "0 or above"),
    ("eval.batch_size", lambda v: v >= 1, "at least 1"),
    ("eval.every", lambda v: v >= 1, "at least 1"),
    ("log.checkpoint_steps", lambda v: v is None or v >= 1, "at least 1"),
    ("log.checkpoint_seconds", lambda v: v is None or v >= 0, "0 or above"),
    ("log.thumbnails", lambda v: v >= 0, "0 or above"),
)


def _check_ranges(config: Config) -> None:
    for path, right, expected in _RANGES:
        value: Any = config
        for key in path.split("."):
            value = getattr(value, key)
        if (isinstance(value, float) and not math.isfinite(value)) or not right(value):
            raise UserError(f"wrong config: {path}: must be {expected}, got {value!r}")


def check_options(
    factory: Callable[..., Any],
    options: Mapping[str, Any],
    path: str,
    *,
    given: Iterable[str] = (),
) -> dict[str, Any]:
    """Check options against a signature and add its defaults, so that none stays hidden.

    Args:
        factory: The class or function that takes them as keywords.
        options: What the config says.
        path: Where the options stand in the config, for the message.
        given: Arguments that the engine fills in; not options.

    Raises:
        UserError: For a key that the factory does not take, or one that it needs and lacks.
    """
    skip = {"self", *given}
    known = {
        name: parameter
        for name, parameter in inspect.signature(factory).parameters.items()
        if name not in skip
        and parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    }
    for key in options:
        if key not in known:
            raise UserError(f"wrong config: {path}.{key}: no such key{_nearest(key, known)}")
    missing = [
        name
        for name, parameter in known.items()
        if parameter.default is parameter.empty and name not in options
    ]
    if missing:
        raise UserError(f"wrong config: {path}.{missing[0]}: needed and not given")
    defaults = {
        name: _plain(parameter.default)
        for name, parameter in known.items()
        if parameter.default is not parameter.empty
    }
    return {**defaults, **options}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
