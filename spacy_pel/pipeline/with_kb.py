"""The KB of a linker: which it is, the vectors that its encoder has there, and changes of its entities."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.tokens import Doc
from thinc.api import Model

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.kinds import ENTITY, VECTORS
from ..mentions.gold import annotated_of
from ..tuning.tuned import Tuned
from .arguments import ids_given, path_given
from .notices import warn_of_dropped_threshold, warn_of_tuning
from .settings import LinkSettings

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase
    from .mentions_as_names import LearntNames

MENTIONS = "mentions"  # among the fingerprints by kind of vectors: of the tower that reads mentions


class WithKB:
    """A component with a KB, or without one yet.

    Attributes:
        kb: The KB, or None.
        model: The bi-encoder, whose vectors the KB has.
        settings: How it links, and by which vectors.
        tuned: What was tuned for these.
        session: The training that is going on, or None; a change of the KB ends it.
    """

    name: str
    kb: "KnowledgeBase | None"
    model: Model
    settings: LinkSettings
    tuned: Tuned
    session: Any
    _kb_lost: str | None  # why there is no KB
    _fingerprints: dict[str, str]  # by kind, computed when they are asked for

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the entity tower and its input settings: what vectors of entities must have been made with."""
        return self._fingerprint(ENTITY)

    @property
    def fingerprints(self) -> dict[str, str]:
        """For each kind of vectors that the linker searches, "entity" or "names", that of the tower that reads it."""
        return {kind: self._fingerprint(kind) for kind in VECTORS[self.settings.vectors]}

    def _fingerprint(self, kind: str) -> str:
        from ..models.storage import fingerprint

        if kind not in self._fingerprints:
            self._fingerprints[kind] = fingerprint(self.model, kind)
        return self._fingerprints[kind]

    @property
    def mention_fingerprint(self) -> str:
        """That of the tower that reads mentions: with `fingerprints` it tells what the vectors make of a mention."""
        from ..models.storage import mention_fingerprint

        if MENTIONS not in self._fingerprints:
            self._fingerprints[MENTIONS] = mention_fingerprint(self.model)
        return self._fingerprints[MENTIONS]

    @property
    def why_no_kb(self) -> str:
        """Why there is no KB, where there is none."""
        return self._kb_lost or f"{self.name} has no KB"

    def require_kb(self) -> "KnowledgeBase":
        """The KB.

        Raises:
            PelError: Without one.
        """
        if self.kb is None:
            raise PelError(
                f"{self.why_no_kb}: run `python -m spacy pel index PIPELINE KB OUT`, name a "
                f"kb_loader in [initialize.components.{self.name}], or call linker.set_kb(...) in Python."
            )
        return self.kb

    def set_kb(self, kb: "KnowledgeBase | str | Path") -> None:
        """Link to this KB from now on. One without vectors of this encoder needs `index()` first."""
        from ..kb.knowledge_base import KnowledgeBase

        self.kb = kb if isinstance(kb, KnowledgeBase) else KnowledgeBase(path_given(kb))
        warn_of_tuning(self)

    def lose_kb(self, reason: str | None = None) -> None:
        """Have no KB from now on. reason: said where one is needed."""
        self.kb, self._kb_lost = None, reason

    def index(self, *, index_type: str = "auto", progress: bool = True, encode: Callable | None = None) -> None:
        """Encode the KB and write the vectors that the setting `vectors` names into its folder, in place of those of
        this encoder. It ends a training. For `index_type` see `NewIndex`, for `encode` `index_kb`."""
        from .indexing import index_kb

        index_kb(self.model, self.require_kb(), self.fingerprints, index_type, progress, encode)
        self.session = None
        if self.tuned.nil_threshold is not None:
            warn_of_dropped_threshold(self.name)
            self.tuned = self.tuned.without_nil()

    def add_entities(self, entities: Iterable[Entity]) -> None:
        """Add new entities to the KB, on the disk too: only they are encoded. See `KnowledgeBase.add`.

        Raises:
            PelError: As for `KnowledgeBase.add`; without a KB, or if its vectors are of another encoder.
        """
        self._put(self.require_kb().add, entities)

    def update_entities(self, entities: Iterable[Entity]) -> None:
        """Put `entities` in the place of those of the KB with the same ids, as `add_entities` does.

        Raises:
            PelError: As for `KnowledgeBase.update`; without a KB, or if its vectors are of another encoder.
        """
        self._put(self.require_kb().update, entities)

    def learn_names(self, docs: Iterable[Doc]) -> "LearntNames":
        """Give entities the texts of their annotated mentions as further names, in the KB on the disk too, and encode
        these entities anew, all or none. Nothing is trained. What is tuned on the same mentions afterwards, or trained
        with that KB, would make too much of an exact match: train before, and tune on other Docs.

        Args:
            docs: Docs with gold mentions, as `gold_mentions` reads them.

        Returns:
            How many names and entities: (0, 0) where nothing is new, or no mention means a single entity.

        Raises:
            PelError: Without a KB, or if its vectors are of another encoder; if no mention has an id that it has, or
                there are no Docs; if another process changes one of these entities, or the KB, meanwhile.
        """
        from .mentions_as_names import with_names_of

        kb = self.require_kb()
        before, after, learnt = with_names_of(annotated_of(docs, kb, self.settings.labels_discard), kb)
        if after:
            self._put(partial(kb.update, instead_of=before), after)
        return learnt

    def _put(self, change: Callable, entities: Iterable[Entity]) -> None:
        from .indexing import encoded

        change(*encoded(self.model, self.require_kb(), self.fingerprints, entities))
        self.session = None

    def remove_entities(self, ids: Iterable[str]) -> None:
        """Remove entities from the KB, on the disk too: they are never candidates again.

        Raises:
            PelError: As for `KnowledgeBase.remove`, or without a KB.
        """
        self.require_kb().remove(ids_given(ids))
        self.session = None
