"""What `pel_linker` does with its KB: take one, index it, change it, and refuse one of another encoder.

Imported by every `spacy.blank`, like the linker: torch, transformers and faiss load when a method wants them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinc.api import Model

from ..errors import PelError

if TYPE_CHECKING:
    import numpy as np

    from ..kb.entity import Entity
    from ..kb.knowledge_base import KnowledgeBase
    from ..search.weights import Weights
    from ..training.session import Trainer

CHANGED = 0.1  # of the entities a threshold was tuned with: with so many more or fewer it is another KB


def trace(kb: KnowledgeBase, weights: Weights | None = None) -> dict[str, Any]:
    """What tells the KB, and the scores, that a threshold is tuned with from others."""
    lexical = None if weights is None else weights._asdict()
    return {"build": kb.meta["build"], "path": str(kb.path), "entities": len(kb), "lexical": lexical}


def _is_another(tuned_with: dict[str, Any], kb: KnowledgeBase) -> bool:
    entities = tuned_with["entities"]
    return tuned_with["build"] != kb.meta["build"] or abs(len(kb) - entities) > CHANGED * entities


def _named(trace: dict[str, Any]) -> str:
    return f"the KB {trace['path']} ({trace['entities']:,} entities, build {trace['build']:.8})"


class WithKB:
    """The part of `PelLinker` that is about its KB."""

    name: str
    model: Model
    cfg: dict[str, Any]
    kb: KnowledgeBase | None
    n_probe: int | None
    search_threads: int | None
    _kb_lost: str | None  # why there is none
    _trainer: Trainer | None
    _fingerprint: str | None

    @property
    def lexical_weights(self) -> Weights | None:
        """What names count beside vectors, if they do."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the entity tower and its input settings: what a KB's vectors must have been made with."""
        from ..models.bi_encoder import fingerprint

        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.model)
        return self._fingerprint

    def set_kb(self, kb: KnowledgeBase | str | Path) -> None:
        """Link to this KB from now on. One with no vectors, or with those of another encoder, needs `index()` first."""
        from ..kb.knowledge_base import KnowledgeBase

        self.kb = kb if isinstance(kb, KnowledgeBase) else KnowledgeBase(Path(kb))
        self._kb_lost = self._trainer = None
        self._check_tuning()

    def _check_tuning(self) -> None:
        """Warn of a NIL threshold that was tuned with another KB, or for other scores."""
        kb = self._require_kb()
        here = trace(kb, self.lexical_weights)
        tuned_with = here | self.cfg.get("tuned_with", {})  # older pipelines tell less
        if _is_another(tuned_with, kb):
            warnings.warn(
                f"The NIL threshold of {self.name} was tuned with {_named(tuned_with)}, and it now has "
                f"{_named(here)}: run `spacy pel tune-nil` again.",
                stacklevel=3,
            )
        if tuned_with["lexical"] != here["lexical"]:
            warnings.warn(
                f"The NIL threshold of {self.name} was tuned for scores with lexical = {tuned_with['lexical']}, and "
                f"they are now with {here['lexical']}: run `spacy pel tune-nil` again.",
                stacklevel=3,
            )

    def index(self, *, index_type: str = "auto", progress: bool = True) -> None:
        """Encode the KB with the entity tower and write the vectors into the KB's folder, in place of those of the same
        encoder.

        index_type: see `KnowledgeBase.index`.
        """
        from ..models.bi_encoder import stream_entities, vector_size

        kb = self._require_kb()
        kb.index(
            stream_entities(self.model, kb.entities(), len(kb), progress=progress),
            dim=vector_size(self.model),
            metric=self.model.attrs["settings"]["similarity"],
            fingerprint=self.fingerprint,
            index_type=index_type,
        )
        self._trainer = None

    def add_entities(self, entities: Iterable[Entity]) -> None:
        """Add new entities to the KB, on the disk too: only they are encoded, nothing is trained. See
        `KnowledgeBase.add`, also for what it raises."""
        self._require_kb().add(*self._encoded(entities))
        self._trainer = None

    def update_entities(self, entities: Iterable[Entity]) -> None:
        """Put `entities` in the place of those of the KB with the same ids, as `add_entities` does."""
        self._require_kb().update(*self._encoded(entities))
        self._trainer = None

    def remove_entities(self, ids: Iterable[str]) -> None:
        """Remove entities from the KB, on the disk too: they are never candidates again."""
        self._require_kb().remove(ids)
        self._trainer = None

    def _encoded(self, entities: Iterable[Entity]) -> tuple[list[Entity], np.ndarray | None, str | None]:
        """New `entities` with their vectors, if the KB has any, and the fingerprint of the encoder."""
        from ..models.bi_encoder import encode_entities, row_builder

        kb = self._require_kb()
        named = [kb.with_type_names(entity) for entity in entities]
        if not kb.indexes:
            return named, None, None
        self._check_fingerprint(kb)
        return named, encode_entities(self.model, row_builder(self.model).entities(named)), self.fingerprint

    def _require_kb(self) -> KnowledgeBase:
        if self.kb is None:
            raise PelError(
                f"{self._kb_lost or f'{self.name} has no KB'}: run `python -m spacy pel index PIPELINE KB OUT`, name a "
                f"kb_loader in [initialize.components.{self.name}], or call linker.set_kb(...) in Python."
            )
        return self.kb

    def _check_fingerprint(self, kb: KnowledgeBase) -> None:
        if self.fingerprint not in kb.indexes:
            theirs = ", ".join(f"{one:.12}" for one in kb.indexes)
            raise PelError(
                f"The KB {kb.path} was indexed with another encoder (its fingerprint is {theirs}, that of "
                f"this linker {self.fingerprint:.12}): run `python -m spacy pel index PIPELINE {kb.path} OUT`, or "
                "linker.index() in Python."
            )
