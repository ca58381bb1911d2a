"""How alike names are, as sets of character 3-grams, and which entities of a KB have the names most like a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...errors import PelError
from ..damage import damage_named
from ..numbering import EntityRows
from .grams import name_grams, squared_idf
from .normal_form import normalized
from .tables import TINY


class NameRecords(Protocol):
    """What a `NameIndex` reads of the records of a KB."""

    @property
    def path(self) -> Path: ...

    def latest_meta(self) -> dict[str, Any]: ...

    def rows_named(self, form: str) -> EntityRows: ...

    def names(self, rows: Iterable[int]) -> dict[int, list[str]]: ...

    def name_arrays(self) -> dict[str, bytes]: ...

    def postings(self, grams: Iterable[int]) -> dict[int, np.ndarray]: ...


class NameIndex:
    """The names of a KB. Entities that the index was built without (those added since, and all of a KB with over
    `MOST_NAMES` names) are compared by their records, and no search finds them."""

    def __init__(self, records: NameRecords) -> None:
        self._records = records
        self._meta: dict[str, int] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def match(self, text: str) -> NameMatch:
        """`text` beside the names of the KB.

        Raises:
            PelError: The KB is one of format 2, whose names have no index.
        """
        grams = np.unique(name_grams([normalized(text)]).grams)
        while True:
            loaded = self._load()
            try:
                with damage_named(self._records.path):
                    return self._match(text, grams)
            except PelError:
                if self._records.latest_meta().get("names") == loaded:
                    raise  # no other process has written the index again meanwhile

    def compare(self, grams: np.ndarray, norm: float, rows: EntityRows) -> np.ndarray:
        """The similarity (n,) float32 of a text with these 3-grams to the entities at `rows` (n,), by their records."""
        names = self._records.names(rows.tolist())
        own = [names.get(row, [""]) for row in rows.tolist()]
        similarity = self.compare_names(grams, norm, [name for one in own for name in one])
        best = np.zeros(len(rows), dtype=np.float32)
        np.maximum.at(best, np.repeat(np.arange(len(rows)), list(map(len, own))), similarity)
        return best

    def compare_names(self, grams: np.ndarray, norm: float, names: Sequence[str]) -> np.ndarray:
        """The similarity (n,) float32 of a text with these 3-grams to n normalised names."""
        their, name = name_grams(names)
        weights = self._weights(their)
        norms = np.sqrt(np.bincount(name, weights, minlength=len(names)))
        common = np.bincount(name, weights * np.isin(their, grams), minlength=len(names))
        return (common / np.maximum(norms, TINY) / norm).astype(np.float32)

    def _match(self, text: str, grams: np.ndarray) -> NameMatch:
        weights = self._weights(grams)
        norm = max(float(np.sqrt(weights.sum())), TINY)
        similarity = self._alike(grams, weights) / norm
        return NameMatch(text, self, grams, norm, similarity, self._records.rows_named(text))

    def _alike(self, grams: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The products of a text with the best names of the indexed entities, (n,) float32, by their row."""
        if not self._meta["rows"]:
            return np.zeros(0, dtype=np.float32)
        places, known = _places(grams, self._arrays["grams"])
        found = self._records.postings(places[known].tolist())
        postings = [found[place] for place in places[known].tolist()]
        names = np.concatenate([np.zeros(0, dtype=np.int32), *postings])
        if not ((names >= 0) & (names < self._meta["names"])).all():
            raise ValueError("its index of names lists names that are not there")
        products = np.bincount(names, np.repeat(weights[known], list(map(len, postings))), self._meta["names"])
        return np.maximum.reduceat(products.astype(np.float32) / self._arrays["norms"], self._arrays["first"])

    def _weights(self, grams: np.ndarray) -> np.ndarray:
        places, known = _places(grams, self._arrays["grams"])
        return squared_idf(np.where(known, self._arrays["counts"][places], 0), self._meta["names"])

    def _load(self) -> dict[str, int]:
        """Read the arrays, anew where the index has been written again. Returns its `meta`."""
        latest = self._records.latest_meta().get("names")
        if latest is None:
            raise PelError(
                f"{self._records.path}: its names are not indexed, since an older spacy-pel built it; run `python -m "
                f"spacy pel kb compact {self._records.path.parent}`, or set [components.pel_linker] lexical = null."
            )
        if latest != self._meta:
            types = {"grams": "<i8", "counts": "<i4", "first": "<i4", "norms": "<f4"}
            found = self._records.name_arrays()
            with damage_named(self._records.path):
                self._arrays = {key: np.frombuffer(blob, types[key]) for key, blob in found.items()}
            self._meta = latest
        return latest


class NameMatch:
    """A text beside the names of a KB.

    How alike it is to an entity is the cosine of two sets of 3-grams, weighted by idf: its own, and those of the
    entity's best name; from 0 to 1. An exact match is an entity with a name that equals the text once both are
    normalised.

    Attributes:
        text: As it was given.
    """

    def __init__(
        self, text: str, index: NameIndex, grams: np.ndarray, norm: float, indexed: np.ndarray, exact: EntityRows
    ) -> None:
        """What `NameIndex.match` gives.

        Args:
            text: As it was given.
            index: That the text was matched with.
            grams: (g,) the 3-grams of the text.
            norm: Of the text.
            indexed: (n,) how alike the indexed entities are, by their rows.
            exact: The rows of the exact matches.
        """
        self.text = text
        self._index, self._grams, self._norm = index, grams, norm
        self._indexed, self._exact = indexed, exact

    def best(self, k: int, within: EntityRows | None = None) -> EntityRows:
        """The `k` indexed entities that are most alike, and all exact matches.

        Args:
            k: How many to find.
            within: The rows to search in, ascending; None: all.

        Returns:
            Their rows, ascending. Rows of entities that have been removed since may be among them.
        """
        rows = None if within is None else within[within < len(self._indexed)]
        alike = self._indexed if rows is None else self._indexed[rows]
        most = np.argpartition(-alike, k)[:k] if k < len(alike) else np.arange(len(alike))
        most = most[alike[most] > 0]
        found = np.union1d(most if rows is None else rows[most], self._exact)
        return EntityRows(found if within is None else np.intersect1d(found, within))

    def scores(self, rows: EntityRows) -> np.ndarray:
        """How alike entities are to the text, and whether they match it exactly.

        Args:
            rows: (n,).

        Returns:
            (n, 2) float32. An exact match is 1, shared among the entities that have that name: what it says by itself
            of which is meant.
        """
        similarity = np.empty(len(rows), dtype=np.float32)
        indexed = rows < len(self._indexed)
        similarity[indexed] = self._indexed[rows[indexed]]
        if not indexed.all():
            similarity[~indexed] = self._index.compare(self._grams, self._norm, EntityRows(rows[~indexed]))
        exact = np.isin(rows, self._exact) / np.float32(max(len(self._exact), 1))
        return np.stack([similarity, exact], axis=1)

    def similarities(self, names: Sequence[str]) -> np.ndarray:
        """How alike n normalised names, in the KB or not, are to the text: (n,) float32."""
        return self._index.compare_names(self._grams, self._norm, names)


def _places(wanted: np.ndarray, vocabulary: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each of `wanted` is in `vocabulary`, which is sorted, and whether it is there."""
    places = np.minimum(np.searchsorted(vocabulary, wanted), len(vocabulary) - 1)
    return places, vocabulary[places] == wanted
