"""Settings as text: YAML files and ``a.b=c`` lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from edgemask.engine.config import Config, flatten, unflatten
from edgemask.errors import MissingExtraError, UserError, one_line
from edgemask.runs import SCHEMA, parse_yaml

__all__ = ["assign", "dump_yaml", "load_yaml", "parse_value"]


def parse_value(text: str) -> Any:
    """Read one YAML value, numbers like ``1e-3`` included."""
    return _with_numbers(parse_yaml(text, repr(text)))


def _with_numbers(value: Any) -> Any:
    """Turn strings that YAML 1.1 fails to see as numbers (``1e-3``) into numbers, in depth."""
    if isinstance(value, dict):
        return {key: _with_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item) for item in value]
    if isinstance(value, str) and value[:1] in "+-.0123456789" and "e" in value.lower():
        try:
            return float(value)
        except ValueError:
            return value
    return value


def assign(values: Mapping[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """Apply ``a.b=c`` lines, their right side read as YAML.

    Example:
        >>> assign({}, ["optim.lr=0.1", "head.name=sem"])
        {'optim': {'lr': 0.1}, 'head': {'name': 'sem'}}
    """
    result = flatten(values)
    for line in assignments:
        path, equals, text = line.partition("=")
        path = path.strip()
        if not equals or not all(path.split(".")):
            raise UserError(f"set takes key=value such as optim.lr=0.1, got {line!r}")
        result[path] = parse_value(text)
    return unflatten(result)


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file that holds a (part of a) config."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the config file {path}: {one_line(error)}") from error
    values = _with_numbers(parse_yaml(text, str(path)))
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path} must hold a mapping such as 'train: {{epochs: 20}}'")
    values.pop("schema", None)
    return values


def dump_yaml(config: Config) -> str:
    """Return the config as YAML, with the schema version on top."""
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "app", "to write a config", error) from error
    values = {"schema": SCHEMA, **config.model_dump()}
    text: str = yaml.safe_dump(values, sort_keys=False, allow_unicode=True)
    return text
