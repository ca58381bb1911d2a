"""The entities of a KB as a model that is being trained encodes them now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from time import perf_counter
from typing import Any, Generic, TypeVar, cast

import numpy as np
from spacy.util import logger
from thinc.api import Model
from tqdm import tqdm

from ..errors import PelError
from ..kb.allowed import Allowed
from ..kb.index.entity_index import EntityIndex
from ..kb.index.owners import Owners
from ..kb.index.vectors import VectorIndex
from ..kb.kept import KeptByArray
from ..kb.knowledge_base import KnowledgeBase
from ..kb.numbering import EntityPlaces, EntityRows, is_among
from ..kb.several import Vectors, flat
from ..models.bi_encoder import row_builder, score_of, vector_size
from ..models.encoding import all_similarities, encode_entity_rows, has_several_vectors, vectors_per_entity
from ..models.inputs import ENTITIES_AT_ONCE
from ..models.token_rows import TokenRows
from .scored_index import AnyIndex, scored
from .search import VectorSearch

MAX_AGE = 1  # updates by which the vectors may lag when they are searched
Numbers = TypeVar("Numbers", EntityPlaces, EntityRows)
# Between the lines of `spacy train`: on a terminal only, and gone when it is full
BAR: dict[str, Any] = {"unit": "ent", "unit_scale": True, "leave": False, "disable": None}


class LivePart:
    """Entities of a `LiveIndex`, numbered from 0 without gaps, under the vectors of its last refresh.

    Args:
        live: The index.
        places: Where they are in it (n,), ascending; None: all of it.
    """

    def __init__(self, live: LiveIndex, places: EntityPlaces | None) -> None:
        self._live, self._places = live, places

    def __len__(self) -> int:
        return len(self._live) if self._places is None else len(self._places)

    def within(self, places: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Those of each of `places` whose entities are of this part."""
        if self._places is None:
            return places
        own = (np.asarray(one, dtype=np.int64) for one in places)
        return [one[is_among(one, self._places)].tolist() for one in own]

    def numbers_of(self, places: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """The numbers of the entities at each of `places`; of those that are not of this part none."""
        own = self.within(places)
        return own if self._places is None else [np.searchsorted(self._places, one).tolist() for one in own]

    def places_of(self, numbers: np.ndarray) -> np.ndarray:
        """The places of the entities with these `numbers`, of the same shape; -1 stays as it is."""
        return numbers if self._places is None else np.where(numbers < 0, numbers, self._places[numbers])

    def search(self, queries: Vectors, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The scores (m, k) and numbers (m, k) of the `k` entities that are best for each of m `queries`, of those that
        the latest refresh encoded; -1 where there are fewer."""
        scores, found = self._live.find(queries, k, within=self._places)
        if self._places is None:
            return scores, found
        return scores, np.where(found < 0, found, np.searchsorted(self._places, found))

    def scores(self, queries: Vectors, numbers: np.ndarray) -> np.ndarray:
        """The scores (m, n) of m `queries` with the entities with these `numbers` (n,), as these are encoded now."""
        return self._live.scores(queries, EntityPlaces(self.places_of(numbers)))


class _Renumbered(Generic[Numbers]):
    """An index of entities that have other numbers elsewhere.

    Args:
        index: Of n entities, numbered from 0.
        others: Their other numbers (n,), ascending.
    """

    def __init__(self, index: AnyIndex, others: Numbers) -> None:
        self._index = index
        self._others: Numbers = others
        self._within = KeptByArray(lambda within: EntityRows(is_among(others, within).nonzero()[0]))

    def search(self, queries: Vectors, k: int, within: Numbers | None = None) -> tuple[np.ndarray, Numbers]:
        """What the index finds, by the other numbers, in which `within` is too."""
        numbers = None if within is None else self._within(within)
        scores, found = self._index.search(queries, k, within=numbers)
        return scores, cast(Numbers, np.where(found < 0, found, self._others[found]))


class LiveIndex:
    """The entities of `kb` as token rows, made once, and their vectors as `model` encoded them at the last refresh.

    Places number the entities that the KB has had from the beginning from 0 without gaps; `rows[i]` is the row of the
    entity at place `i`. What is added to the KB later, as by another process, has none.

    Attributes:
        rows: (n,), the rows of the entities.
        index: Of those that the latest refresh encoded; None before the first.
        age: The updates since the latest refresh.
    """

    def __init__(self, model: Model, kb: KnowledgeBase) -> None:
        self._model, self._kb = model, kb
        self.rows = kb.live_rows
        self._numbering = kb.meta.get("numbering")
        self._token_rows: TokenRows | None = None
        self.index: AnyIndex | None = None
        self._sample: _Renumbered[EntityPlaces] | None = None  # it, by places; None: of all entities, which need none
        self._vectors: EntityIndex | None = None  # of all entities, what `index` searches
        self.age = 0
        self._spare: EntityIndex | None = None  # of all entities under the weights of now, for scores
        self._allowed: dict[Allowed, tuple[EntityRows, EntityPlaces]] = {}  # what the KB allows, and where that is here

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_outdated(self) -> bool:
        """Whether the KB has numbered its entities anew since the beginning, or has lost one of which the token rows
        have not been read."""
        if self._kb.meta.get("numbering") != self._numbering:
            return True
        return self._token_rows is None and not np.array_equal(self._kb.live_rows[: len(self)], self.rows)

    @property
    def token_rows(self) -> TokenRows:
        """The token rows of all entities, by place.

        Raises:
            PelError: An entity was removed or updated before they were read.
        """
        if self._token_rows is None:
            entities = tqdm(islice(self._kb.entities(), len(self)), total=len(self), desc="Reading entities", **BAR)
            rows = row_builder(self._model).entities(entities)
            if self.is_outdated:
                raise PelError(f"{self._kb.path}: has changed since the training began; begin the training again.")
            self._token_rows = rows
        return self._token_rows

    def places_of(self, rows: EntityRows) -> EntityPlaces:
        """The places of the entities at `rows`, of the same shape, which have some (see `known`)."""
        return EntityPlaces(np.searchsorted(self.rows, rows))

    def known(self, rows: EntityRows) -> EntityRows:
        """Those of `rows` (n,) whose entities have places."""
        return EntityRows(rows[is_among(rows, self.rows)])

    def places_by_id(self, ids: Iterable[str]) -> dict[str, int]:
        """The places of those of `ids` whose entities have some."""
        rows = self._kb.rows(ids)
        numbers = EntityRows(np.fromiter(rows.values(), np.int64, len(rows)))
        places, there = self.places_of(numbers).tolist(), is_among(numbers, self.rows).tolist()
        return {id_: place for id_, place, known in zip(rows, places, there, strict=True) if known}

    def rows_of(self, places: EntityPlaces) -> EntityRows:
        """The rows in the KB of the entities at `places`, of the same shape."""
        return EntityRows(self.rows[places])

    def part(self, allowed: Allowed | None) -> LivePart:
        """The entities that have what is asked for; None: all.

        Raises:
            PelError: As for `KnowledgeBase.rows_allowed`.
        """
        if allowed is None:
            return LivePart(self, None)
        rows = self._kb.rows_allowed(allowed)
        if allowed not in self._allowed or self._allowed[allowed][0] is not rows:  # others once the KB has changed
            self._allowed[allowed] = rows, self.places_of(self.known(rows))
        return LivePart(self, self._allowed[allowed][1])

    def scores(self, queries: Vectors, places: EntityPlaces) -> np.ndarray:
        """The scores (m, n) of m `queries` with the entities at `places` (n,), as these are encoded now."""
        return all_similarities(self._model, queries, self.vectors(places))

    def vectors(self, places: EntityPlaces) -> Vectors:
        """The vectors of the entities at `places` (n,) under the weights of now: those of the latest refresh, where
        these are."""
        if self._vectors is None or self.age:
            return encode_entity_rows(self._model, self.token_rows.take(places))
        found = self._vectors.vectors_of(EntityRows(places))
        return found if has_several_vectors(self._model) else found.vectors

    def updated(self) -> None:
        """Note that the weights of the entity tower have changed."""
        self.age += 1
        self.drop_spare()

    def drop_spare(self) -> None:
        """Free the index that scores have needed beside that of the latest refresh, which would have taken it."""
        self._spare = None

    def refresh(self, sample: EntityPlaces | None = None) -> AnyIndex:
        """Encode the entities at the places `sample` (n,), ascending, with the entity tower as it is now; None: all,
        unless they are encoded already and the tower is as it was."""
        if sample is None and self._is_whole and not self.age:
            return cast(AnyIndex, self.index)
        self.index = self._sample = self._vectors = None  # its memory is free before the new one grows
        if sample is None:
            self._vectors, self._spare = self._whole_now(), None
            self.index = self._scored(self._vectors)
        else:
            self.index = self._scored(self._encoded_in_time(self.token_rows.take(sample)))
            self._sample = _Renumbered(self.index, sample)
        self.age = 0
        return self.index

    def _whole_now(self) -> EntityIndex:
        """An index of all entities under the weights of now: that of the latest scores, if they still are those."""
        return self._encoded_in_time(self.token_rows) if self._spare is None else self._spare

    def _encoded_in_time(self, rows: TokenRows) -> EntityIndex:
        """`_encoded`, on GPUs where the model is, with a line in the log of how long it took."""
        start = perf_counter()
        index = self._encoded(rows, gpus=self._model.ops.device_type == "gpu")
        logger.info("Encoded %s entities of the KB in %.0f s", f"{len(rows):,}", perf_counter() - start)
        return index

    @property
    def _is_whole(self) -> bool:
        return self.index is not None and self._sample is None

    def find(self, queries: Vectors, k: int, *, within: EntityPlaces | None = None) -> tuple[np.ndarray, EntityPlaces]:
        """The scores (m, k) and places (m, k) of the `k` entities that are best for each of m `queries`, of those that
        the latest refresh encoded and, if given, those at the places `within`; -1 where there are fewer."""
        index = self.refresh() if self.index is None else self.index
        if self._sample is not None:
            return self._sample.search(queries, k, within)
        scores, found = index.search(queries, k, within=None if within is None else EntityRows(within))
        return scores, EntityPlaces(found)

    def search(self) -> VectorSearch:
        """A search over the whole KB.

        The KB is encoded again unless all its vectors are at most `MAX_AGE` updates old: the scores that `spacy train`
        shows at the first step of an epoch then cost no pass over the KB beside that of the negatives. Negatives stay
        those of the latest refresh; one before the next update takes what was encoded here.
        """
        if self._is_whole and self.age <= MAX_AGE:
            index = cast(AnyIndex, self.index)
        else:
            self._spare = self._whole_now()
            index = self._scored(self._spare)
        return VectorSearch(_Renumbered(index, self.rows).search)

    def search_over(self, rows: EntityRows) -> VectorSearch:
        """A search over the entities at these `rows` (n,) alone, ascending, which are encoded now. Those that the KB
        has been given since the training began are not found."""
        rows = self.known(rows)
        start = perf_counter()
        index = self._scored(self._encoded(self.token_rows.take(self.places_of(rows))))
        logger.info("Encoded %s entities for the scores in %.0f s", f"{len(rows):,}", perf_counter() - start)
        return VectorSearch(_Renumbered(index, rows).search)

    def _scored(self, index: EntityIndex) -> AnyIndex:
        return scored(index, score_of(self._model))

    def _encoded(self, rows: TokenRows, *, gpus: bool = False) -> EntityIndex:
        """An index of n entities, numbered from 0, as they are encoded now."""
        model, counts = self._model, vectors_per_entity(self._model, rows)
        total = int(counts.sum())
        vectors = VectorIndex.stream(self._blocks(rows), vector_size(model), count=total, gpus=gpus)
        owners = Owners(EntityRows(np.repeat(np.arange(len(rows)), counts)))
        return EntityIndex.in_memory(vectors, owners, len(rows), model.attrs["settings"]["similarity"])

    def _blocks(self, rows: TokenRows) -> Iterator[np.ndarray]:
        with tqdm(total=len(rows), desc="Encoding entities", **BAR) as bar:
            for start in range(0, len(rows), ENTITIES_AT_ONCE):
                block = np.arange(start, min(start + ENTITIES_AT_ONCE, len(rows)))
                yield flat(encode_entity_rows(self._model, rows.take(block)))
                bar.update(len(block))
