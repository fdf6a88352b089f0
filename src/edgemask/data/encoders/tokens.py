"""Texts as token ids of a transformers tokenizer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemask.errors import DataError, MissingExtraError

__all__ = ["TokenEncoder", "fit_tokens"]


@dataclass(frozen=True)
class TokenEncoder:
    """Encodes texts as token ids, all padded to one length.

    Args:
        tokenizer: Name on the hub or local folder of the tokenizer.
        length: Tokens per text; longer texts are cut.
        padding: The id that fills up shorter texts.
        fingerprint: Of the tokenizer's vocabulary; another one is refused.
        text_columns: The columns that hold the text, where it came in a table.
        id_column: The column that names rows, where there was one.
        label_column: The column of labels, where there was one.
    """

    tokenizer: str
    length: int
    padding: int
    fingerprint: str
    text_columns: tuple[str, ...] = ()
    id_column: str | None = None
    label_column: str | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the token ids of each text, ``(N, length)``."""
        tokenizer = _load(self.tokenizer)
        if _fingerprint(tokenizer) != self.fingerprint:
            raise DataError(
                f"the tokenizer {self.tokenizer!r} is not the one that the model was trained with"
            )
        found = np.full((len(texts), self.length), self.padding, dtype=np.int64)
        if len(texts):
            for row, ids in zip(found, _ids(tokenizer, texts, self.length), strict=True):
                row[: len(ids)] = ids
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the encoder as plain values."""
        return {"kind": "tokens", **vars(self), "text_columns": list(self.text_columns)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TokenEncoder:
        """Return the encoder of :meth:`to_json`."""
        fields = {key: value for key, value in values.items() if key != "kind"}
        return cls(**{**fields, "text_columns": tuple(values["text_columns"])})

    def describe(self) -> str:
        """Return the features in a few words."""
        return f"text as {self.length} tokens of {self.tokenizer}"


def fit_tokens(
    texts: Sequence[str], tokenizer: str, *, max_length: int = 128, **columns: Any
) -> TokenEncoder:
    """Return an encoder as long as the longest training text, and at most ``max_length``."""
    loaded = _load(tokenizer)
    lengths = [len(ids) for ids in _ids(loaded, texts, max_length)]
    padding = loaded.pad_token_id
    if padding is None:  # decoders often have none; the closing token serves, as is the custom
        padding = loaded.eos_token_id or 0
    return TokenEncoder(
        tokenizer, max(lengths, default=1), int(padding), _fingerprint(loaded), **columns
    )


def _ids(tokenizer: Any, texts: Sequence[str], length: int) -> Any:
    return tokenizer(list(texts), truncation=True, max_length=length)["input_ids"]


@lru_cache(maxsize=2)
def _load(name: str) -> Any:
    try:
        from transformers import AutoTokenizer
    except Exception as error:
        raise MissingExtraError(
            "transformers", "hf", "to split texts into tokens", error
        ) from error
    try:
        return AutoTokenizer.from_pretrained(name)
    except Exception as error:
        raise DataError(
            f"there is no tokenizer in {name!r} ({type(error).__name__}: {error}); give the folder "
            "of a transformers model with its tokenizer, or leave model out for TF-IDF features"
        ) from error


def _fingerprint(tokenizer: Any) -> str:
    vocabulary = sorted(tokenizer.get_vocab().items())
    return hashlib.sha256(repr(vocabulary).encode()).hexdigest()[:16]
