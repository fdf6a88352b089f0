"""Texts as TF-IDF vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from edgemask.errors import DataError, MissingExtraError

__all__ = ["Analyzer", "TfidfEncoder", "fit_tfidf"]

Analyzer = Literal["word", "char", "char_wb"]


@dataclass(frozen=True)
class TfidfEncoder:
    """Encodes texts by scikit-learn's ``TfidfVectorizer``: sublinear counts, rows of length 1.

    Args:
        terms: The words or n-grams, one feature each.
        idf: Their inverse document frequencies in the training data.
        analyzer: ``word``, ``char`` or ``char_wb``.
        ngrams: Shortest and longest n-gram.
        text_columns: The columns that hold the text, where it came in a table.
        id_column: The column that names rows, where there was one.
        label_column: The column of labels, where there was one.
    """

    terms: tuple[str, ...] = field(repr=False)
    idf: tuple[float, ...] = field(repr=False)
    analyzer: Analyzer = "word"
    ngrams: tuple[int, int] = (1, 1)
    text_columns: tuple[str, ...] = ()
    id_column: str | None = None
    label_column: str | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features."""
        return self.terms

    def encode(self, texts: Sequence[str]) -> Any:
        """Return the features of each text as a sparse matrix (CSR) of float32."""
        if not len(texts):
            from scipy.sparse import csr_matrix

            return csr_matrix((0, len(self.terms)), dtype=np.float32)
        vectorizer = _vectorizer(self.analyzer, self.ngrams, vocabulary=list(self.terms))
        vectorizer.idf_ = np.array(self.idf, dtype=np.float64)
        return vectorizer.transform(list(texts)).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """Return the encoder as plain values."""
        return {
            "kind": "tf-idf",
            "terms": list(self.terms),
            "idf": list(self.idf),
            "analyzer": self.analyzer,
            "ngrams": list(self.ngrams),
            "text_columns": list(self.text_columns),
            "id_column": self.id_column,
            "label_column": self.label_column,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> TfidfEncoder:
        """Return the encoder of :meth:`to_json`."""
        shortest, longest = values["ngrams"]
        return cls(
            tuple(values["terms"]),
            tuple(values["idf"]),
            values["analyzer"],
            (shortest, longest),
            tuple(values["text_columns"]),
            values["id_column"],
            values["label_column"],
        )

    def describe(self) -> str:
        """Return the features in a few words."""
        unit = "words" if self.analyzer == "word" else "character n-grams"
        return f"text as TF-IDF of {len(self.terms):,} {unit}"


def fit_tfidf(
    texts: Sequence[str],
    *,
    max_features: int = 5000,
    analyzer: Analyzer = "word",
    ngrams: Sequence[int] = (1, 1),
    name: str = "texts",
    **columns: Any,
) -> TfidfEncoder:
    """Fit an encoder to the texts of a training set.

    Args:
        texts: The texts.
        max_features: The most frequent terms that get a feature each.
        analyzer: What a term is: ``word``, ``char`` (any characters) or ``char_wb`` (within words).
        ngrams: Shortest and longest sequence of them.
        name: What to call the texts in messages.
        columns: ``text_columns``, ``id_column`` and ``label_column`` of the encoder.
    """
    shortest, longest = (int(length) for length in ngrams)
    if not 1 <= shortest <= longest:
        raise DataError(f"ngrams must be two lengths from 1, the longer one last, got {ngrams!r}")
    # A term of a single text cannot help with another one; in a few texts it may be all there is.
    options = {"max_features": max_features, "min_df": 2 if len(texts) >= 100 else 1}
    try:
        vectorizer = _vectorizer(analyzer, (shortest, longest), **options).fit(list(texts))
    except ValueError as error:
        raise DataError(
            f"{name}: no {analyzer} occurs in several of the texts ({error}); are these texts? "
            "For a language without spaces, use analyzer='char'"
        ) from error
    return TfidfEncoder(
        tuple(vectorizer.get_feature_names_out().tolist()),
        tuple(vectorizer.idf_.tolist()),
        analyzer,
        (shortest, longest),
        **columns,
    )


def _vectorizer(analyzer: Analyzer, ngrams: tuple[int, int], **options: Any) -> Any:
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "app", "for TF-IDF features", error) from error
    return TfidfVectorizer(
        analyzer=analyzer, ngram_range=ngrams, sublinear_tf=True, dtype=np.float64, **options
    )
