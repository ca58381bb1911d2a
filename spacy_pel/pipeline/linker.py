"""The `pel_linker` component: mentions in, KB ids, a NIL flag and scored candidates out.

Every `spacy.blank` imports it, so it imports spaCy only; torch, transformers and faiss load with a linker.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..errors import PelError
from ..kb.codes import checked_codes_of
from ..kb.entity import NIL
from ..kb.kinds import ENTITY
from ..mentions.extensions import set_extensions
from ..mentions.gold import check_gold_ids
from ..mentions.links import Link, RankedIds, mentions_of, warn_without_mentions, write_links
from ..mentions.noted import NotedDocs
from ..search.weights import NameWeights
from ..tuning.tuned import Tuned, decide
from .arguments import check_attribute, check_ranked
from .default_weights import default_weights
from .learning import EXAMPLES_CHECKED, Learning, check_first_examples, gold_to_learn
from .notices import warn_of_missing, warn_of_training, warn_of_tuning
from .settings import OF_SCISPACY, SETTINGS, LinkSettings
from .upstream import Upstream
from .with_kb import WithKB
from .with_settings import WithSettings

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..kb.knowledge_base import KnowledgeBase
    from ..search.explanation import Explanation
    from ..search.find import Reading
    from ..search.search import Found, Search
    from ..training.losses import Loss
    from ..training.objective import Objective
    from ..training.session import TrainingSession
    from .tuning import TunedNames, TunedNil


class PelLinker(WithSettings, WithKB, Learning, Upstream, TrainablePipe):
    """Links the entities of a Doc to a KB with a bi-encoder.

    It sets, for every `ent` of `doc.ents`, `ent.kb_id_` (an id or "NIL"), `ent._.is_nil`, `ent._.kb_ents` (pairs of id
    and score, best first), `ent._.kb_prob` (the probability that the first is right; None before `tune-nil`),
    `ent._.kb_read` (the text that was read: its own, its long form or its other name; None without a candidate) and
    `ent._.kb_xrefs`. A score is a cosine, under cross-entropy a dot product, or where names count, a weighted mean.

    Every setting of `LinkSettings` is an attribute too: `linker.top_k = 16` holds from then on.

    Attributes:
        kb: The KB, or None.
        objective: What training minimises.
        settings: How it links.
        tuned: What was tuned on mentions, or on names of the KB.
        session: The training that is going on, or None.
        scorer: What `score` calls, or None.
        noted: The Docs that it has linked, and where it kept ids that were there.
    """

    model: Model
    setting_names = SETTINGS
    setting_of = OF_SCISPACY

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "pel_linker",
        *,
        objective: "Objective",
        settings: LinkSettings | None = None,
        scorer: Callable | None = None,
    ) -> None:
        super().__init__(vocab, model, name)
        self.kb: KnowledgeBase | None = None
        self.objective = objective
        self.settings = settings or LinkSettings()
        self.tuned = Tuned()
        self.session: TrainingSession | None = None
        self._loss: Loss | None = None  # that of the objective, with the origin that a session has fitted
        self.scorer = scorer
        self._kb_lost, self._fingerprints = None, {}
        self.noted = NotedDocs()
        set_extensions(self)

    def __setattr__(self, name: str, value: Any) -> None:
        field = self.setting_of.get(name, name)
        if field not in self.setting_names:
            check_attribute(name, value)
        if name == "settings":
            value.check_threshold(_similarity(self.model))
        super().__setattr__(name, value)
        if name == "model":
            self.session, self._loss, self._fingerprints = None, None, {}
        elif name == "kb":
            self.session = self._kb_lost = None
        elif name == "session":
            self._changed = False  # whether it has changed the weights
        elif name == "objective":
            self.session = self._loss = None
        if field in ("settings", "lexical", "vectors", "top_k"):
            warn_of_tuning(self)

    def _check_change(self, field: str, settings: LinkSettings) -> None:
        settings.check_threshold(_similarity(self.model))
        if field == "vectors" and settings.vectors != ENTITY:
            from ..models.encoder import has_encoder
            from ..models.encoding import check_reads_names

            if has_encoder(self.model):
                check_reads_names(self.model)

    # --- linking ---

    def predict(self, docs: Iterable[Doc]) -> list[list[Link] | None]:
        """Link the mentions of `docs`.

        Returns:
            For every Doc its links; None while the linker is `outdated`.

        Raises:
            PelError: Without a KB that is indexed with this encoder.
        """
        docs = list(docs)
        mentions = [self.mentions(doc) for doc in docs]
        if self.outdated:
            if any(mentions):
                warn_of_training(self.name)
            return [None] * len(docs)
        if not self.trains_behind():
            warn_without_mentions(docs, self.name, self.settings.spans_key)
        wanted = self.candidates_wanted(self.settings.max_candidates)
        links = iter(self.linked([span for spans in mentions for span in spans], wanted))
        return [[next(links) for _ in spans] for spans in mentions]

    def mentions(self, doc: Doc) -> list[Span]:
        """The mentions of `doc` that it links: its entities, or the spans of the group `spans_key`."""
        return mentions_of(doc, self.settings.spans_key)

    def linked(self, spans: Sequence[Span], k: int) -> list[Link]:
        """What `spans` are linked to, with `k` candidates each; NIL without any where their label is discarded."""
        discarded = self.settings.labels_discard
        links = iter(self.links(self.find([span for span in spans if span.label_ not in discarded], k)))
        return [Link(NIL, []) if span.label_ in discarded else next(links) for span in spans]

    def set_annotations(self, docs: Iterable[Doc], scores: list[list[Link] | None]) -> None:
        """Write what `predict` found to the Docs."""
        overwrite = self.settings.overwrite
        for doc, links in zip(docs, scores, strict=True):
            if links is not None:
                self.noted.note(doc, [] if overwrite else [span for span in self.mentions(doc) if span.kb_id])
                write_links(doc, links, self.settings.spans_key, overwrite=overwrite)

    @property
    def threshold(self) -> float | None:
        """The NIL threshold in force: the tuned one, or that of the settings."""
        setting = self.settings.nil_threshold
        return self.tuned.nil_threshold if setting == "tuned" else setting

    @threshold.setter
    def threshold(self, value: float) -> None:
        raise PelError(f"threshold is the one in force; set nil_threshold = {value!r}, in units of the scores here.")

    @property
    def name_weights(self) -> NameWeights | None:
        """What names count beside the similarity, tuned, by default or by the settings; None: vectors alone count."""
        setting = self.settings.lexical
        if setting == "tuned":
            return self.tuned.name_weights or default_weights(self)
        return NameWeights(**setting) if setting else None

    def rank(self, spans: Sequence[Span], k: int, *, search: Optional["Search"] = None) -> list[RankedIds]:
        """The `k` best entities of every span, of any Docs, as (id, score), best first; none of a span without any word
        piece. Where `k` is more than `top_k`, others of a deeper search stand behind the best of `top_k`.
        search: another than that of the KB.

        Raises:
            PelError: Without a KB that is indexed with this encoder, and where names count, for a KB of format 2.
        """
        return [found.ranked for found in self.find(spans, k, search=search)]

    def find(
        self, spans: Sequence[Span], k: int, *, search: Optional["Search"] = None, unfiltered: bool = False
    ) -> list["Found"]:
        """`rank`, with what each score is made of and what was read of the text. What follows the best of `top_k`, and
        would decide otherwise, was found by a deeper search. unfiltered: whether any entity counts, whatever the
        settings allow."""
        from ..search.find import find
        from .indexing import search_of

        check_ranked(spans, k)
        if not spans:
            return []
        settings, kb = self.settings, self.require_kb()
        allowed_for = (lambda label: None) if unfiltered else settings.allowed_for
        reading = self.reading._replace(keep=k, allowed_for=allowed_for)
        if search is not None:
            return find(self.model, kb, search, spans, reading._replace(depth=max(k, settings.top_k)))
        warn_of_missing(self.name, kb, self.fingerprints.values())
        search = search_of(self.model, kb, self.fingerprints, self.name_weights, settings)
        return find(self.model, kb, search, spans, reading)

    @property
    def reading(self) -> "Reading":
        """How mentions are read by the settings of now."""
        from ..search.find import Reading

        settings = self.settings
        linked_in = self.mentions if settings.resolve_abbreviations else None
        how = settings.allowed_for, settings.resolve_abbreviations, linked_in, self.vocab.lang
        return Reading(settings.top_k, None, *how)

    def links(self, found: "Sequence[Found]") -> list[Link]:
        """What mentions are linked to under the threshold in force, where this was found for them."""
        return decide(found, self.tuned, self.threshold, by_score=self.settings.nil_threshold != "tuned")

    def explain(self, span: Span, k: int = 5) -> "Explanation":
        """Why `span` is linked so: its `k` best candidates, the threshold, the probability, what the filters left out.

        Raises:
            PelError: Without a KB that is indexed with this encoder.
        """
        from .explaining import explained

        return explained(self, span, k)

    def codes(self, id: str, vocabulary: str) -> list[str]:
        """The codes of the entity `id` in a vocabulary that `xrefs` name, such as "ICD10CM"; of "NIL" none.

        Raises:
            PelError: The KB has no such entity, or no code of that vocabulary.
        """
        return checked_codes_of(self.require_kb(), id, vocabulary)

    # --- tuning ---

    def tune_names(self, docs: Iterable[Doc] | None = None, **options: Any) -> "TunedNames":
        """Fit what names count beside the similarity to the gold mentions of `docs`, or to names of the KB, and keep it
        in `tuned`. A NIL threshold that was tuned for other scores is dropped. See `spacy_pel.pipeline.tuning`.

        Raises:
            PelError: Where no mention has its entity among its candidates.
        """
        from .tuning import tune_names

        self.require_kb()
        return tune_names(self, docs, **options)

    def tune_nil(self, docs: Iterable[Doc] | None = None, **options: Any) -> "TunedNil":
        """Fit the NIL threshold and the calibration to the gold mentions of `docs`, or to the names of the KB, and keep
        them in `tuned`. target: what the NIL class has to reach, such as "precision=0.9"; None for its best F1.

        Raises:
            PelError: Unless there are both NIL mentions and mentions in the KB, and for a target out of reach.
        """
        from .tuning import tune_nil

        self.require_kb()
        return tune_nil(self, docs, **options)

    # --- training ---

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        encoder_loader: Callable | None = None,
        kb_loader: Callable | None = None,
    ) -> None:
        """Load the pretrained encoder and the KB, and check that training mentions have entities in it.

        Args:
            get_examples: Gives the training examples.
            nlp: The pipeline, with the transformer pipe that `spacy_pel.TransformerListener.v1` listens to.
            encoder_loader: `spacy_pel.HFEncoder.v1`; None keeps the weights that are there.
            kb_loader: `spacy_pel.KBFromDisk.v1`; None keeps the KB that is set.

        Raises:
            PelError: If the encoder or the KB is missing, or if none of the first gold ids is in the KB or there is
                none.
        """
        from ..models.pretrained import set_encoder
        from .initializing import load_encoder, load_kb

        check_first_examples(get_examples, "PelLinker.initialize")
        encoder = load_encoder(self.model, self.name, encoder_loader)
        kb = load_kb(self.kb, self.name, kb_loader)
        references = (eg.reference for eg in islice(get_examples(), EXAMPLES_CHECKED))
        mentions = gold_to_learn(references, self.name, nlp, self.settings.spans_key)
        check_gold_ids(mentions, kb)
        if encoder is not None:
            set_encoder(self.model, encoder, nlp)
        self.set_model(self.model)
        self.tuned = Tuned()
        self.set_kb(kb)

    def set_model(self, model: Model) -> None:
        """Link with this bi-encoder from now on.

        Raises:
            PelError: The NIL threshold of the settings can be no score of it.
        """
        self.settings.check_threshold(_similarity(model))
        self.model = model

    def begin_training(self) -> "TrainingSession":
        """The session that updates the model: the one that goes on, or a new one. It ends when the KB is indexed,
        changed or set, or the model or the objective is set; from its first update until then the linker links nothing.

        Raises:
            PelError: Without a KB, or if the loss is not made for the similarity of the model.
        """
        if self.session is None or self.session.live.is_outdated:
            import numpy

            from ..models.bi_encoder import row_builder
            from ..training.session import TrainingSession

            row_builder(self.model)  # which says what to do without an encoder
            self.objective.check_similarity(self.model, self.name)
            seed = numpy.random.randint(2**31)  # from the global seed, that `[training] seed` sets
            self.session = TrainingSession(self.model, self.require_kb(), self.objective, seed, self._loss)
        return self.session

    @property
    def outdated(self) -> bool:
        """Whether a training goes on, and the KB has no vectors of the weights of now."""
        if self.session is None:
            return False
        return self._changed or not set(self.fingerprints.values()) <= set(self.require_kb().indexes)

    def _learn(self, examples: Sequence[Example]) -> float:
        how = self.settings.use_gold_ents, self.settings.spans_key, self.settings.allowed_for
        return self.begin_training().learn(examples, *how)

    def _has_learnt(self) -> None:
        self._fingerprints = {}
        self.tuned = Tuned()
        session = self.begin_training()
        session.updated()
        self._loss = session.loss
        self._changed = True

    def refresh_negatives(self, sample: int = 0) -> None:
        """Encode the KB again, so that hard negatives, if there are any, are those of the present weights; with a
        `sample` so many entities of it, drawn anew, and hard negatives are the best of these."""
        self.begin_training().refresh_negatives(sample)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """The scores of `scorer` over gold mentions: nel_recall_at_1, nel_recall_at_64, nel_nil_f1."""
        return {} if self.scorer is None else self.scorer(examples, linker=self, **kwargs)

    # --- saving ---

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the bi-encoder, what was tuned, and the KB, or where it is, to a folder."""
        from .saving import write_linker

        write_linker(self, Path(path), exclude, with_kb=self.settings.save_kb)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "Self":
        """Read a linker that `to_disk` wrote, whatever its architecture.

        Raises:
            PelError: Naming what is broken, or if its KB was indexed with another encoder.
        """
        from .saving import read_linker

        read_linker(self, Path(path), exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The folder of `to_disk` as one byte string; of a KB over 200 MB only the path."""
        from .saving import linker_to_bytes

        return linker_to_bytes(self, exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "Self":
        """Read what `to_bytes` wrote, and keep what it was told to leave out. A KB in it lives in a temporary folder as
        long as the `KnowledgeBase` does."""
        from .saving import linker_from_bytes

        linker_from_bytes(self, data, exclude)
        return self

    def __reduce__(self) -> tuple:
        from .saving import kept_handler, pickled

        return *pickled(self), (self.session is not None, kept_handler(self), self._loss)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Self":
        from .saving import copied

        return copied(self, memo)

    def __setstate__(self, state: tuple) -> None:
        in_training, error_handler, self._loss = state
        self.set_error_handler(error_handler)
        if in_training:
            self.begin_training()


def _similarity(model: Model) -> str:
    """ "cosine" or "dot": what the scores of a bi-encoder are."""
    return model.attrs["settings"]["similarity"]
