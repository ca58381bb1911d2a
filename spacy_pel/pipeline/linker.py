"""The `pel_linker` component: mentions in, KB ids, a NIL flag and scored candidates out.

This module is imported by every `spacy.blank`, so it imports spaCy only; torch, transformers and faiss load when a
linker is built.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Optional

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model

from ..errors import PelError
from ..kb.entity import NIL
from ..mentions.abbreviations import LongForms, long_forms
from ..mentions.gold import check_gold_ids, gold_mentions
from ..mentions.links import (
    Candidates,
    Link,
    mentions_of,
    set_extensions,
    top_score,
    warn_without_mentions,
    write_links,
)
from ..search.weights import Weights, check_lexical
from ..tuning.calibration import Calibration
from .saving import OnDisk
from .scispacy import ScispacySettings
from .with_training import WithTraining

if TYPE_CHECKING:
    from ..kb.knowledge_base import KnowledgeBase
    from ..search.explanation import Explanation
    from ..training.objective import Objective

DEFAULT_CONFIG = {
    "model": {"@architectures": "spacy_pel.BiEncoder.v1"},
    "loss": {"@misc": "spacy_pel.ProxyLoss.v1"},
    "adversarial": {"@misc": "spacy_pel.FGSM.v1"},
    "negatives": {"@misc": "spacy_pel.MixedNegatives.v1"},
    "layout": "shared",
    "mask_names": 0.0,
    "top_k": 64,
    "max_candidates": 5,
    "spans_key": None,
    "resolve_abbreviations": True,
    "lexical": "tuned",
    "nil_threshold": "tuned",
    "labels_discard": [],
    "types": [],
    "types_by_label": {},
    "n_probe": None,
    "search_threads": None,
    "overwrite": True,
    "use_gold_ents": True,
    "save_kb": True,
    "scorer": {"@scorers": "spacy_pel.link_scorer.v1"},
}
SETTINGS = (
    *("objective", "top_k", "max_candidates", "spans_key", "resolve_abbreviations", "lexical"),
    *("nil_threshold", "labels_discard", "types", "types_by_label", "n_probe", "search_threads"),
    *("overwrite", "use_gold_ents", "save_kb", "scorer"),
)
TUNED_FOR_NIL = ("nil_threshold", "calibration", "tuned_with")  # of `cfg`
EXAMPLES_CHECKED = 1000

Threshold = Literal["tuned"] | float | None
Lexical = Literal["tuned"] | dict[str, float] | None


@Language.factory(
    "pel_linker",
    requires=["doc.ents", "token.ent_iob", "token.ent_type"],
    assigns=["token.ent_kb_id", "span._.kb_ents"],
    default_config=DEFAULT_CONFIG,
    default_score_weights={"nel_recall_at_1": 1.0, "nel_recall_at_64": 0.0},
)
def make_linker(
    nlp: Language,
    name: str,
    model: Model,
    loss: Any,
    adversarial: Any | None,
    negatives: Any,
    layout: str,
    mask_names: float,
    top_k: int,
    max_candidates: int,
    spans_key: str | None,
    resolve_abbreviations: bool,
    lexical: Lexical,
    nil_threshold: Threshold,
    labels_discard: list[str],
    types: list[str],
    types_by_label: dict[str, list[str]],
    n_probe: int | None,
    search_threads: int | None,
    overwrite: bool,
    use_gold_ents: bool,
    save_kb: bool,
    scorer: Callable | None,
) -> "PelLinker":
    """Build a `pel_linker`.

    model: a bi-encoder, `spacy_pel.BiEncoder.v1`.
    loss: `spacy_pel.ProxyLoss.v1`, `spacy_pel.CrossEntropyLoss.v1` or `spacy_pel.NCELoss.v1`.
    adversarial: `spacy_pel.FGSM.v1`, or null for none.
    negatives: `spacy_pel.RandomNegatives.v1`, `spacy_pel.HardNegatives.v1` or `spacy_pel.MixedNegatives.v1`.
    layout: "shared" (the batch's candidates serve all its mentions) or "per_mention" (each mention has its own).
    mask_names: the share of the mentions whose own entity is read, while training, without the name that they have.
    top_k: candidates searched for a mention. max_candidates: candidates kept on the span.
    spans_key: link the spans of this group of `doc.spans`; null: the entities, `doc.ents`.
    resolve_abbreviations: of a mention that the text defines as an abbreviation, "long form (LF)", link the long form
        too, where it stands, and keep what scores higher. scispaCy's `abbreviation_detector` tells, where it has found
        any in the Doc.
    lexical: how much the names of an entity count beside the similarity, {"ngram": weight, "exact": weight}. "tuned":
        as `spacy pel tune-lexical` stored it (before that: nothing); null: nothing, the method of the paper.
    nil_threshold: a mention whose best score is lower is NIL. "tuned": what `spacy pel tune-nil` stored (before that:
        never NIL); a float in units of the score; null: never NIL.
    labels_discard: entity labels whose mentions are NIL without a search.
    types: the KB types that links may have; empty: any. types_by_label: the same for single entity labels.
    n_probe: cells searched in a compressed index; null: as many as it was built with. search_threads: threads of a
        search; null: all that faiss takes.
    overwrite: replace KB ids that are there.
    use_gold_ents: train on the mentions of the reference; false: on those predicted entities that match one of them.
    save_kb: write the KB with the pipeline; false: only where it is.
    scorer: `spacy_pel.link_scorer.v1`.
    """
    from ..training.layouts import check_layout
    from ..training.objective import Objective

    objective = Objective(loss, adversarial, negatives, check_layout(layout), mask_names)
    objective.check_similarity(model, name)
    return PelLinker(
        nlp.vocab,
        model,
        name,
        objective=objective,
        top_k=top_k,
        max_candidates=max_candidates,
        spans_key=spans_key,
        resolve_abbreviations=resolve_abbreviations,
        lexical=lexical,
        nil_threshold=nil_threshold,
        labels_discard=labels_discard,
        types=types,
        types_by_label=types_by_label,
        n_probe=n_probe,
        search_threads=search_threads,
        overwrite=overwrite,
        use_gold_ents=use_gold_ents,
        save_kb=save_kb,
        scorer=scorer,
    )


class PelLinker(OnDisk, WithTraining, ScispacySettings, TrainablePipe):
    """Links the entities of a Doc to a KB with a bi-encoder.

    Sets, for every `ent` of `doc.ents`: `ent.kb_id_` (an id or "NIL"), `ent._.is_nil` (bool) and `ent._.kb_ents`
    (`[(id, score), ...]`, best first; score: cosine, or dot product under cross-entropy, or where names count the
    weighted mean of that and of both features of names), and `ent._.kb_prob` (the probability that the first of them is
    right; None before `spacy pel tune-nil`).
    """

    model: Model

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "pel_linker",
        *,
        objective: "Objective",
        top_k: int = 64,
        max_candidates: int = 5,
        spans_key: str | None = None,
        resolve_abbreviations: bool = True,
        lexical: Lexical = "tuned",
        nil_threshold: Threshold = "tuned",
        labels_discard: Sequence[str] = (),
        types: Sequence[str] = (),
        types_by_label: Mapping[str, Sequence[str]] | None = None,
        n_probe: int | None = None,
        search_threads: int | None = None,
        overwrite: bool = True,
        use_gold_ents: bool = True,
        save_kb: bool = True,
        scorer: Callable | None = None,
    ) -> None:
        super().__init__(vocab, model, name)
        if min(top_k, max_candidates, n_probe or 1, search_threads or 1) < 1:
            raise PelError(
                f"[components.{name}]: top_k, max_candidates, n_probe and search_threads must be at least 1."
            )
        self.kb: KnowledgeBase | None = None
        self._kb_lost = self._trainer = self._fingerprint = None
        self.objective = objective
        self.top_k = max(top_k, max_candidates)
        self.max_candidates = max_candidates
        self.spans_key = spans_key
        self.resolve_abbreviations = resolve_abbreviations
        self.lexical = lexical
        self.nil_threshold = nil_threshold
        self.labels_discard = list(labels_discard)
        self.types = list(types)
        self.types_by_label = dict(types_by_label or {})
        self.n_probe, self.search_threads = n_probe, search_threads
        self.overwrite = overwrite
        self.use_gold_ents = use_gold_ents
        self.save_kb = save_kb
        self.scorer = scorer
        set_extensions()

    # --- linking ---

    @property
    def nil_threshold(self) -> Threshold:
        """The setting: "tuned", a score, or None for never NIL."""
        return self._nil_threshold

    @nil_threshold.setter
    def nil_threshold(self, value: Threshold) -> None:
        most = 1.0 if self.objective.loss.similarity == "cosine" else float("inf")
        is_score = isinstance(value, Real) and not isinstance(value, bool) and -most <= value <= most
        if not (value in ("tuned", None) or is_score):
            raise PelError(
                f"[components.{self.name}]: nil_threshold = {value!r} is no score, and a cosine lies between -1 and 1; "
                'make it one, "tuned", or null for never NIL.'
            )
        self._nil_threshold = value

    @property
    def threshold(self) -> float | None:
        """The NIL threshold in force: the tuned one, or the one of the config."""
        return self.cfg.get("nil_threshold") if self.nil_threshold == "tuned" else self.nil_threshold

    @threshold.setter
    def threshold(self, value: float) -> None:
        raise PelError(f"threshold is the one in force; set nil_threshold = {value!r}, in units of the scores here.")

    @property
    def calibration(self) -> Calibration | None:
        """What makes probabilities of scores, as `spacy pel tune-nil` stored it."""
        return Calibration(*self.cfg["calibration"]) if "calibration" in self.cfg else None

    @property
    def lexical(self) -> Lexical:
        """The setting: "tuned", weights, or None for none."""
        return self._lexical

    @lexical.setter
    def lexical(self, value: Lexical) -> None:
        check_lexical(value, self.name)
        self._lexical = value
        if self.kb is not None:
            self._check_tuning()

    @property
    def lexical_weights(self) -> Weights | None:
        """The weights in force, the tuned ones or those of the config; None: vectors alone are searched, as always
        while the linker is being trained."""
        if self.is_training:
            return None
        weights = self.cfg.get("lexical") if self.lexical == "tuned" else self.lexical
        return Weights(**weights) if weights else None

    def forget_tuning(self) -> None:
        """Forget what was tuned for other weights."""
        self.cfg.pop("lexical", None)
        self.forget_nil()

    def forget_nil(self) -> float | None:
        """Forget what was tuned for other scores, or with another KB. RETURNS: the threshold that was among it."""
        threshold = self.cfg.get("nil_threshold")
        for key in TUNED_FOR_NIL:
            self.cfg.pop(key, None)
        return threshold

    def predict(self, docs: Iterable[Doc]) -> list[list[Link]]:
        """Link the mentions of `docs`: for every Doc one `Link` each. RAISES: PelError without an indexed KB."""
        docs = list(docs)
        if self._trainer is None:
            warn_without_mentions(docs, self.name, self.spans_key)
        mentions = [mentions_of(doc, self.spans_key) for doc in docs]
        wanted = [span for spans in mentions for span in spans if span.label_ not in self.labels_discard]
        ranked = iter(self.rank(wanted, self.max_candidates))
        return [
            [self.link(next(ranked)) if span.label_ not in self.labels_discard else Link(NIL, []) for span in spans]
            for spans in mentions
        ]

    def link(self, candidates: Candidates) -> Link:
        """What a mention with these candidates, best first, is linked to under the threshold in force."""
        if not candidates:
            return Link(NIL, [])
        is_nil = self.threshold is not None and candidates[0][1] < self.threshold
        calibration = self.calibration
        probability = None if calibration is None else calibration.probability(candidates[0][1])
        return Link(NIL if is_nil else candidates[0][0], candidates, probability)

    def explain(self, span: Span, k: int = 5) -> "Explanation":
        """Why `span` is linked as it is: its `k` best candidates with names and scores, the threshold, the probability,
        and what the types that are allowed left out. RAISES: PelError without a KB and its index."""
        from ..search.explanation import explain

        return explain(self, span, k)

    def rank(self, spans: Sequence[Span], k: int, **settings: Any) -> list[Candidates]:
        """The `k` best entities of every span, of any Docs, as `(id, score)`, best first. A span without any word piece
        has none. settings: see `rank_forms`, also for what it raises."""
        return [candidates for candidates, _ in self.rank_forms(spans, k, **settings)]

    def rank_forms(
        self,
        spans: Sequence[Span],
        k: int,
        *,
        search: Callable | None = None,
        all_types: bool = False,
    ) -> list[tuple[Candidates, Span]]:
        """`rank`, and for every span the one that was read: itself, or its long form where that scores higher. Whatever
        `k` is, the best are those of `top_k` candidates or more, as for a Doc.

        search: instead of the KB's, as `search_over` gives it.
        all_types: of any types, whatever the config allows.
        RAISES: PelError without a KB and its index, and where names count, for a KB that an older spacy-pel built.
        """
        from ..search.candidates import find_candidates

        if not spans:
            return []
        lexical = self.lexical_weights if search is None else None
        search, kb = search or self._searchable(), self._require_kb()
        long = self.long_forms_of(spans)
        types = [None if all_types else self.types_for(spans[i].label_) for i in (*range(len(spans)), *long)]
        every = [*spans, *long.values()]
        index = None if lexical is None else kb.entity_index(self.fingerprint)
        k_searched = max(k, self.top_k)
        found = find_candidates(
            self.model, kb, search, every, k_searched, keep=k, types=types, lexical=lexical, index=index
        )
        forms = list(zip(found, spans, strict=False))
        for i, form in zip(long, zip(found[len(spans) :], long.values(), strict=True), strict=True):
            forms[i] = max(forms[i], form, key=lambda one: top_score(one[0]))
        return forms

    def long_forms_of(self, spans: Sequence[Span]) -> dict[int, Span]:
        """The long forms of those `spans` that are abbreviations, by their place in it."""
        if not self.resolve_abbreviations:
            return {}
        known: dict[Doc, LongForms] = {}
        for span in spans:
            if span.doc not in known:
                known[span.doc] = long_forms(span.doc)
        return {
            i: long for i, span in enumerate(spans) if (long := known[span.doc].get((span.start, span.end))) is not None
        }

    def types_for(self, label: str) -> frozenset[str] | None:
        """The types that the entity of a mention with that label may have; None: any."""
        allowed = [frozenset(types) for types in (self.types, self.types_by_label.get(label)) if types]
        return frozenset.intersection(*allowed) if allowed else None

    def _searchable(self) -> Callable:
        """The search in force: while the linker is being trained, over the KB as the entity tower encodes it now."""
        if self._trainer is not None:
            return self._trainer.search
        index = self.searchable_kb().entity_index(self.fingerprint)
        return partial(index.search, n_probe=self.n_probe, threads=self.search_threads)

    def searchable_kb(self) -> "KnowledgeBase":
        """The KB. RAISES: PelError without one, and for the vectors of another encoder; its search says what to run
        where it has none."""
        kb = self._require_kb()
        if kb.indexes:
            self._check_fingerprint(kb)
        return kb

    def set_annotations(self, docs: Iterable[Doc], scores: list[list[Link]]) -> None:
        """Write what `predict` found to the Docs."""
        for doc, links in zip(docs, scores, strict=True):
            write_links(doc, links, self.spans_key, overwrite=self.overwrite)

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

        encoder_loader: `spacy_pel.HFEncoder.v1`; None keeps the weights that are there.
        kb_loader: `spacy_pel.KBFromDisk.v1`; None keeps the KB that is set.
        RAISES: PelError if one of the two is missing, or if none of the first gold ids is in the KB.
        """
        from ..models.bi_encoder import set_encoder

        validate_get_examples(get_examples, "PelLinker.initialize")
        if encoder_loader is not None:
            set_encoder(self.model, encoder_loader())
        elif self.model.attrs["row_builder"] is None:
            raise self._missing("encoder_loader", "spacy_pel.HFEncoder.v1")
        if kb_loader is not None:
            self.set_kb(kb_loader())
        elif self.kb is None:
            raise self._missing("kb_loader", "spacy_pel.KBFromDisk.v1")
        self._trainer = self._fingerprint = None
        self.forget_tuning()
        examples = islice(get_examples(), EXAMPLES_CHECKED)
        check_gold_ids((mention for eg in examples for mention in gold_mentions(eg.reference)), self._require_kb())

    def _missing(self, key: str, registered: str) -> PelError:
        return PelError(
            f"[initialize.components.{self.name}] has no {key}: add [initialize.components.{self.name}.{key}] with "
            f'@misc = "{registered}".'
        )

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """The scores of `scorer` over gold mentions: nel_recall_at_1, nel_recall_at_64, nel_nil_f1."""
        return {} if self.scorer is None else self.scorer(examples, linker=self, **kwargs)

    def __reduce__(self) -> tuple:
        settings = {key: getattr(self, key) for key in SETTINGS}
        return _unpickle, (self.vocab, self.name, settings, self.to_bytes(exclude=("vocab", "kb")), self.kb)


def _unpickle(vocab: Vocab, name: str, settings: dict, data: bytes, kb: Optional["KnowledgeBase"]) -> PelLinker:
    from ..models.bi_encoder import make_bi_encoder

    linker = PelLinker(vocab, make_bi_encoder(), name, **settings).from_bytes(data, exclude=("vocab", "kb"))
    if kb is not None:
        linker.set_kb(kb)
    return linker
