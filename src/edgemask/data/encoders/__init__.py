"""Encoders: from rows of a table or texts to numbers, fitted on training data.

An encoder is plain data. Its :meth:`to_json` is stored with the model, so that predictions are made
on samples that are prepared exactly as the training data were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgemask.data.encoders.table import TableEncoder
from edgemask.data.encoders.text import TfidfEncoder
from edgemask.data.encoders.tokens import TokenEncoder
from edgemask.errors import DataError

__all__ = ["Encoder", "TableEncoder", "TfidfEncoder", "TokenEncoder", "read_encoder"]

Encoder = TableEncoder | TfidfEncoder | TokenEncoder

_KINDS: dict[str, type[Encoder]] = {
    "table": TableEncoder,
    "tf-idf": TfidfEncoder,
    "tokens": TokenEncoder,
}


def read_encoder(values: Mapping[str, Any]) -> Encoder:
    """Return the encoder that :meth:`to_json` has described."""
    try:
        return _KINDS[values["kind"]].from_json(values)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"the description of the preprocessing is damaged ({type(error).__name__}: {error})"
        ) from error
