"""The `pel_linker` component: mentions in, KB ids, a NIL flag and scored candidates out.

This module is imported by every `spacy.blank`, so it imports spaCy only; torch, transformers and faiss load when a
linker is built.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Optional

import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from .corpora.gold import NIL, check_gold_ids, gold_mentions, training_mentions
from .errors import PelError, warn_without_ner
from .extensions import set_extensions
from .files import pack_folder, unpack_folder
from .with_kb import WithKB

if TYPE_CHECKING:
    from .kb.knowledge_base import KnowledgeBase
    from .training.objective import Objective
    from .training.trainer import Trainer, Update

DEFAULT_CONFIG = {
    "model": {"@architectures": "spacy_pel.BiEncoder.v1"},
    "loss": {"@misc": "spacy_pel.ProxyLoss.v1"},
    "adversarial": {"@misc": "spacy_pel.FGSM.v1"},
    "negatives": {"@misc": "spacy_pel.MixedNegatives.v1"},
    "layout": "shared",
    "top_k": 64,
    "max_candidates": 5,
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
    *("objective", "top_k", "max_candidates", "nil_threshold"),
    *("labels_discard", "types", "types_by_label", "n_probe", "search_threads"),
    *("overwrite", "use_gold_ents", "save_kb", "scorer"),
)
KB_IN_BYTES = 200_000_000
EXAMPLES_CHECKED = 1000

Threshold = Literal["tuned"] | float | None
Candidates = list[tuple[str, float]]


class Link(NamedTuple):
    """What one mention is linked to: `kb_id` is an id or "NIL", `candidates` the best `(id, score)`, best first."""

    kb_id: str
    candidates: Candidates


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
    top_k: int,
    max_candidates: int,
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
    top_k: candidates searched for a mention. max_candidates: candidates kept on the span.
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
    from .training.candidates import check_layout
    from .training.objective import Objective

    objective = Objective(loss, adversarial, negatives, check_layout(layout))
    objective.check_similarity(model, name)
    return PelLinker(
        nlp.vocab,
        model,
        name,
        objective=objective,
        top_k=top_k,
        max_candidates=max_candidates,
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


class PelLinker(WithKB, TrainablePipe):
    """Links the entities of a Doc to a KB with a bi-encoder.

    Sets, for every `ent` of `doc.ents`: `ent.kb_id_` (an id or "NIL"), `ent._.is_nil` (bool) and `ent._.kb_ents`
    (`[(id, score), ...]`, best first; score: cosine, or dot product under cross-entropy).
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
        self.objective = objective
        self.top_k = max(top_k, max_candidates)
        self.max_candidates = max_candidates
        self.nil_threshold = nil_threshold
        self.labels_discard = list(labels_discard)
        self.types = list(types)
        self.types_by_label = dict(types_by_label or {})
        self.n_probe, self.search_threads = n_probe, search_threads
        self.overwrite = overwrite
        self.use_gold_ents = use_gold_ents
        self.save_kb = save_kb
        self.scorer = scorer
        self.kb: KnowledgeBase | None = None
        self._kb_lost = self._trainer = self._fingerprint = None
        set_extensions()

    # --- linking ---

    @property
    def threshold(self) -> float | None:
        """The NIL threshold in force: the tuned one, or the one of the config."""
        return self.cfg.get("nil_threshold") if self.nil_threshold == "tuned" else self.nil_threshold

    def predict(self, docs: Iterable[Doc]) -> list[list[Link]]:
        """Link the entities of `docs`: for every Doc one `Link` an entity. RAISES: PelError without an indexed KB."""
        docs = list(docs)
        if self._trainer is None:
            warn_without_ner(docs, self.name)
        wanted = [ent for doc in docs for ent in doc.ents if ent.label_ not in self.labels_discard]
        ranked = iter(self.rank(wanted, self.top_k, keep=self.max_candidates))
        return [
            [self._link(next(ranked)) if ent.label_ not in self.labels_discard else Link(NIL, []) for ent in doc.ents]
            for doc in docs
        ]

    def _link(self, candidates: Candidates) -> Link:
        is_nil = not candidates or (self.threshold is not None and candidates[0][1] < self.threshold)
        return Link(NIL if is_nil else candidates[0][0], candidates)

    def rank(
        self, spans: Sequence[Span], k: int, *, keep: int | None = None, search: Callable | None = None
    ) -> list[Candidates]:
        """The `k` best entities of every span, of any Docs, as `(id, score)`, best first; only the first `keep` are
        returned. A span without any word piece has none.

        search: instead of the KB's, as `search_over` gives it. RAISES: PelError without a KB and its index.
        """
        from .candidates import find_candidates

        if not spans:
            return []
        search, kb = search or self._searchable(), self._require_kb()
        types = [self._types_for(span.label_) for span in spans]
        return find_candidates(self.model, kb, search, spans, k, keep=keep, types=types)

    def _types_for(self, label: str) -> frozenset[str] | None:
        """The types that the entity of a mention with that label may have; None: any."""
        allowed = [frozenset(types) for types in (self.types, self.types_by_label.get(label)) if types]
        return frozenset.intersection(*allowed) if allowed else None

    def _searchable(self) -> Callable:
        """The search in force: while the linker is being trained, over the KB as the entity tower encodes it now."""
        kb = self._require_kb()
        if self._trainer is not None:
            return self._trainer.search
        if kb.has_vectors:
            self._check_fingerprint(kb)
        return kb.search  # it says what to run where there are no vectors

    def set_annotations(self, docs: Iterable[Doc], scores: list[list[Link]]) -> None:
        """Write what `predict` found to the Docs."""
        for doc, links in zip(docs, scores, strict=True):
            for ent, link in zip(doc.ents, links, strict=True):
                if ent.kb_id and not self.overwrite:
                    continue
                for token in ent:
                    token.ent_kb_id_ = link.kb_id
                ent._.kb_ents = link.candidates

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
        from .models.bi_encoder import set_encoder

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
        self.cfg.pop("nil_threshold", None)
        examples = islice(get_examples(), EXAMPLES_CHECKED)
        check_gold_ids((mention for eg in examples for mention in gold_mentions(eg.reference)), self._require_kb())

    def _missing(self, key: str, registered: str) -> PelError:
        return PelError(
            f"[initialize.components.{self.name}] has no {key}: add [initialize.components.{self.name}.{key}] with "
            f'@misc = "{registered}".'
        )

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of Examples; `losses` gets the mean loss of the mentions that have an entity in the KB.
        `drop` is ignored: a transformer's dropout is set by its `encoder_loader`."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "PelLinker.update")
        mentions = [mention for example in examples for mention in training_mentions(example, self.use_gold_ents)]
        losses[self.name] += self._training().accumulate(mentions)
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def _training(self) -> "Trainer":
        if self._trainer is None:
            import numpy

            from .training.trainer import Trainer

            self.objective.check_similarity(self.model, self.name)
            seed = numpy.random.randint(2**31)  # from the global seed, that `[training] seed` sets
            self._trainer = Trainer(self.model, self._require_kb(), self.objective, seed)
        return self._trainer

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the weights with the gradients of the mean loss over all mentions since the last time, clipped as
        `spacy_pel.AdamW.v1` says, if that is the optimizer; nothing changes where no mention gave a loss."""
        max_norm = getattr(sgd, "max_gradient_norm", None)
        if self._trainer is None or not self._trainer.finish_gradients(max_norm):
            return
        super().finish_update(sgd)
        self._fingerprint = None
        self.cfg.pop("nil_threshold", None)  # it was tuned for other weights
        self._trainer.updated()

    @property
    def latest_update(self) -> "Update | None":
        """The mean loss and the norm of the gradient of the latest update; None before the first, and after a batch of
        which no mention gave a loss."""
        return None if self._trainer is None else self._trainer.latest

    @property
    def is_training(self) -> bool:
        """Whether it has been updated and not indexed since: the vectors of its KB are those of other weights."""
        return self._trainer is not None

    def search_over(self, rows: Any) -> Callable:
        """A search over these rows (n,) of the KB alone, ascending, which are encoded now."""
        return self._training().search_over(rows)

    def refresh_negatives(self) -> None:
        """Encode the KB again, so that hard negatives, if there are any, are those of the present weights."""
        if self.objective.negatives.n_hard:
            self._training().refresh()

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """The scores of `scorer` over gold mentions: nel_recall_at_1, nel_recall_at_64."""
        return {} if self.scorer is None else self.scorer(examples, linker=self, **kwargs)

    # --- reading and writing ---

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the bi-encoder, the learnt state (`cfg`) and the KB, or where it is, to a folder."""
        self._write(Path(path), exclude, with_kb=self.save_kb)

    def _write(self, path: Path, exclude: Iterable[str], with_kb: bool) -> None:
        from .kb.saved import write_kb, write_reference
        from .models.bi_encoder import save

        def write_the_kb(path: Path) -> None:
            if self.kb is not None and with_kb:
                write_kb(self.kb, path.parent, self.fingerprint)
            elif self.kb is not None:
                write_reference(self.kb, path.parent)

        writers = {
            "vocab": lambda p: self.vocab.to_disk(p, exclude=("strings", "vectors")),
            "cfg": lambda p: srsly.write_json(p, self.cfg),
            "model": lambda p: save(self.model, p),
            "kb": write_the_kb,
        }
        util.to_disk(path, writers, exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "PelLinker":
        """Read a linker that `to_disk` wrote, whatever its architecture. RAISES: PelError naming what is broken, or if
        its KB was indexed with another encoder."""
        readers = {
            "vocab": lambda p: self.vocab.from_disk(p, exclude=("strings", "vectors")),
            "cfg": lambda p: setattr(self, "cfg", srsly.read_json(p)),
            "model": self._read_model,
            "kb": self._read_kb,
        }
        if not any((Path(path) / part).exists() for part in ("cfg", "model")):
            raise PelError(
                f"{path}: no {self.name} was saved here; of a pipeline name the folder of the component, "
                f"{Path(path) / self.name}, or read the whole with spacy.load."
            )
        util.from_disk(Path(path), readers, exclude)
        return self

    def _read_model(self, path: Path) -> None:
        from .models.bi_encoder import load

        self.model = load(path, self.model.attrs["settings"]["precision"])
        self._fingerprint = self._trainer = None

    def _read_kb(self, path: Path) -> None:
        from .kb.knowledge_base import KnowledgeBase
        from .kb.saved import find_kb

        place, own = find_kb(path.parent)
        self.kb = self._kb_lost = self._trainer = None
        if place is None:
            return
        if not place.exists():
            self._kb_lost = f"The KB of {self.name} is not at {place} any more"
            return
        kb = KnowledgeBase(place)
        if own and kb.has_vectors:
            self._check_fingerprint(kb)
        self.set_kb(kb)

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The folder of `to_disk` as one byte string; of a KB over 200 MB only the path."""
        small = self.kb is not None and self.kb.size_bytes <= KB_IN_BYTES
        with tempfile.TemporaryDirectory() as folder:
            self._write(Path(folder), exclude, with_kb=self.save_kb and small)
            return pack_folder(Path(folder))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "PelLinker":
        """Read what `to_bytes` wrote. A KB in it lives in a temporary folder as long as the linker does."""
        folder = tempfile.TemporaryDirectory(prefix="spacy-pel-")
        unpack_folder(data, Path(folder.name))
        self.from_disk(folder.name, exclude=exclude)
        if self.kb is not None and Path(folder.name).resolve() in self.kb.path.resolve().parents:
            self._folder = folder
        else:
            folder.cleanup()
        return self

    def __reduce__(self) -> tuple:
        settings = {key: getattr(self, key) for key in SETTINGS}
        return _unpickle, (self.vocab, self.name, settings, self.to_bytes(exclude=("vocab", "kb")), self.kb)


def _unpickle(vocab: Vocab, name: str, settings: dict, data: bytes, kb: Optional["KnowledgeBase"]) -> PelLinker:
    from .models.bi_encoder import make_bi_encoder

    linker = PelLinker(vocab, make_bi_encoder(), name, **settings).from_bytes(data, exclude=("vocab", "kb"))
    if kb is not None:
        linker.set_kb(kb)
    return linker
