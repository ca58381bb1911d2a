"""How alike names are, as sets of character 3-grams, and which entities of a KB have the names most like a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import PelError
from ..damage import damage_named
from ..numbering import EntityRows, is_among, no_rows
from .file_names import FileMatch, FileNames
from .files import mapped_names
from .grams import TINY, Text, Vocabulary, name_grams
from .known_names import NamedRecords, rows_of_forms
from .normal_form import distinct_forms, normalized
from .plurals import singulars
from .tables import TYPES, Postings, TableMatch, TableNames


class NameRecords(NamedRecords, Postings, Protocol):
    """What a `NameIndex` reads of the records of a KB."""

    @property
    def path(self) -> Path: ...

    def latest_meta(self) -> dict[str, Any]: ...

    def name_arrays(self) -> dict[str, bytes]: ...


class Loaded(NamedTuple):
    """An index as `meta` describes it."""

    meta: dict[str, Any]
    vocabulary: Vocabulary
    names: TableNames | FileNames


class NameIndex:
    """The names of a KB. Entities that were added since its index was written are compared by their records, and only
    their exact names are found.

    Attributes:
        removed: The rows (r,) of entities that the index has and the KB has no more, which are not found.
    """

    def __init__(self, records: NameRecords) -> None:
        self.removed = no_rows()
        self._records = records
        self.path = records.path
        self._loaded: Loaded | None = None

    def match(self, text: str, lang: str = "") -> NameMatch:
        """`text` beside the names of the KB. A plural that is no name matches its singular exactly, if that is one.

        Args:
            text: As it stands somewhere.
            lang: The code of its language; without one it is no plural.

        Raises:
            PelError: The KB is one of format 2, whose names have no index, or the file of the index is missing or
                foreign.
        """
        return next(self.matches([text], lang))

    def matches(self, texts: Sequence[str], lang: str = "") -> Iterator[NameMatch]:
        """`match` for each of `texts`, whose exact matches are looked up together."""
        self._latest()
        exact = self._exact(texts, lang)
        return (self._match(text, exact[text]) for text in texts)

    def _match(self, text: str, exact: Sequence[EntityRows]) -> NameMatch:
        while True:
            meta = self._latest()
            try:
                with damage_named(self._records.path):
                    loaded = self._load(meta)
                    own = loaded.vocabulary.text(text)
                    return NameMatch(own, loaded.names.beside(own), loaded, self, exact)
            except PelError:
                if self._records.latest_meta().get("names") == meta:
                    raise  # no other process has written the index again meanwhile

    def compare(self, text: Text, vocabulary: Vocabulary, rows: EntityRows) -> np.ndarray:
        """The similarity (n,) float32 of a text to the entities at `rows` (n,), by their records."""
        written = self._records.written_names(rows.tolist())
        with damage_named(self.path):
            own = [distinct_forms("", written.get(row, ())) for row in rows.tolist()]  # "" only without a name
        similarity = _similarities(text, vocabulary, [name for one in own for name in one])
        best = np.zeros(len(rows), dtype=np.float32)
        np.maximum.at(best, np.repeat(np.arange(len(rows)), list(map(len, own))), similarity)
        return best

    def _exact(self, texts: Iterable[str], lang: str) -> dict[str, list[EntityRows]]:
        """For each of `texts` the rows of the entities that are named so, then of those that each singular of it names,
        ascending; none of a form that is no name."""
        forms = {text: [normalized(one) for one in (text, *singulars(text, lang))] for text in texts}
        rows = rows_of_forms(set(chain.from_iterable(forms.values())), self._records)
        named = {form: EntityRows(np.array(sorted(own), dtype=np.int64)) for form, own in rows.items()}
        return {text: [named[form] for form in own if form in named] for text, own in forms.items()}

    def _latest(self) -> dict[str, Any]:
        """The `meta` of the index as it is now."""
        latest = self._records.latest_meta().get("names")
        if latest is None:
            raise PelError(
                f"{self._records.path}: its names are not indexed, since an older spacy-pel built it; run `python -m "
                f"spacy pel kb compact {self._records.path.parent}`, or set [components.pel_linker] lexical = null."
            )
        return latest

    def _load(self, meta: dict[str, Any]) -> Loaded:
        """The index that `meta` describes, read anew where it is not the one that was read last."""
        if self._loaded is not None and self._loaded.meta == meta:
            return self._loaded
        arrays = {key: np.frombuffer(blob, TYPES[key]) for key, blob in self._records.name_arrays().items()}
        vocabulary = Vocabulary(arrays["grams"], arrays["counts"], meta["names"])
        names: TableNames | FileNames
        if "file" in meta:
            names = mapped_names(self._records.path.parent, meta["file"], len(vocabulary.grams))
        else:
            names = TableNames(self._records, arrays, meta["names"], meta["rows"])
        self._loaded = loaded = Loaded(meta, vocabulary, names)
        return loaded


class NameMatch:
    """A text beside the names of a KB.

    How alike it is to an entity is the cosine of two sets of 3-grams, weighted by idf: its own, and those of the
    entity's best name; from 0 to 1. An exact match is an entity with a name that equals the text, or the singular of a
    plural that is no name, once both are normalised. Where only some entities may be meant, the others have no names.
    """

    def __init__(
        self,
        own: Text,
        indexed: TableMatch | FileMatch,
        loaded: Loaded,
        index: NameIndex,
        exact: Sequence[EntityRows],
    ) -> None:
        """What `NameIndex.match` gives.

        Args:
            own: The text, as its 3-grams.
            indexed: The entities in the index, beside it.
            loaded: The index.
            index: That it was matched with.
            exact: The rows of the entities that the text names, then of those that each singular of it names.
        """
        self._own, self._indexed, self._loaded, self._index, self._exact = own, indexed, loaded, index, exact

    def best(self, k: int, within: EntityRows | None = None) -> EntityRows:
        """The `k` indexed entities that are most alike, and all exact matches.

        Args:
            k: How many to find.
            within: The rows to search in, ascending; None: all.

        Returns:
            Their rows, ascending. Rows of entities that another process has just removed may be among them.

        Raises:
            PelError: The index is damaged.
        """
        with damage_named(self._index.path):
            most_alike = self._indexed.best(k, within, self._index.removed)
            return EntityRows(np.union1d(most_alike, self._exact_within(within)))

    def scores(self, rows: EntityRows, within: EntityRows | None = None) -> np.ndarray:
        """How alike entities are to the text, and whether they match it exactly.

        Args:
            rows: (n,).
            within: The rows that may be meant, ascending; None: all.

        Returns:
            (n, 2) float32. An exact match is 1, shared among the entities `within` that have that name: what it says by
            itself of which is meant.

        Raises:
            PelError: The index is damaged.
        """
        similarity = np.empty(len(rows), dtype=np.float32)
        indexed = rows < self._loaded.names.n_rows
        with damage_named(self._index.path):
            similarity[indexed] = self._indexed.scores(EntityRows(rows[indexed]))
        if not indexed.all():
            vocabulary = self._loaded.vocabulary
            similarity[~indexed] = self._index.compare(self._own, vocabulary, EntityRows(rows[~indexed]))
        matches = self._exact_within(within)
        exact = np.isin(rows, matches) / np.float32(max(len(matches), 1))
        return np.stack([similarity, exact], axis=1)

    def similarities(self, names: Sequence[str]) -> np.ndarray:
        """How alike n normalised names, in the KB or not, are to the text: (n,) float32."""
        return _similarities(self._own, self._loaded.vocabulary, names)

    def _exact_within(self, within: EntityRows | None) -> EntityRows:
        """The exact matches (n,) that are among `within`."""
        found = (rows if within is None else EntityRows(rows[is_among(rows, within)]) for rows in self._exact)
        return next(filter(len, found), no_rows())


def _similarities(text: Text, vocabulary: Vocabulary, names: Sequence[str]) -> np.ndarray:
    their, name = name_grams(names)
    weights = vocabulary.weights(their)
    norms = np.sqrt(np.bincount(name, weights, minlength=len(names)))
    common = np.bincount(name, weights * np.isin(their, text.grams), minlength=len(names))
    return (common / np.maximum(norms, TINY) / text.norm).astype(np.float32)
