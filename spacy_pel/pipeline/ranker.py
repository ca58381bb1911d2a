"""The `pel_ranker` component: what a linker has found for each mention, read together with it and ranked anew.

Every `spacy.blank` imports it, so it imports spaCy only; torch and transformers load with a ranker.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..checks import check_count, check_flag, check_number, plain, refused
from ..errors import PelError
from ..mentions.gold import check_gold_ids, mentions_to_learn, with_successors
from ..mentions.links import Link, links_of, mentions_of, write_links
from .learning import EXAMPLES_CHECKED, Learning, check_first_examples, gold_to_learn
from .notices import warn_of_no_links
from .settings import Threshold
from .with_settings import WithSettings, errors_name

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..search.explanation import Explanation
    from ..training.adversarial import FGSM
    from ..training.ranking import RankingSession
    from ..tuning.ranking import RankTuned
    from .choices import Choices
    from .linker import PelLinker
    from .ranker_tuning import TunedRanker

SECTION = "[components.pel_ranker]"


@dataclass(frozen=True)
class RankSettings:
    """The settings of a `pel_ranker`. Each is an attribute of the component too: `ranker.top_n = 8` holds from then on.

    Attributes:
        top_n: How many candidates of a mention are ranked anew; the others stay behind them.
        rerank_below: Only mentions whose probability of being linked right (`ent._.kb_prob`) is under it are ranked
            anew. "tuned": as `spacy pel tune-ranker` stored it, and all before; None: all.
        use_gold_ents: Whether training takes the mentions of the reference; False for those predicted entities that
            match one of them.

    Raises:
        PelError: For a value that a setting cannot have.
    """

    top_n: int = 16
    rerank_below: Threshold = "tuned"
    use_gold_ents: bool = True

    def __post_init__(self) -> None:
        check_count(SECTION, "top_n", self.top_n, least=2)
        if self.rerank_below != "tuned":
            check_number(SECTION, "rerank_below", self.rerank_below, least=0, optional=True, hint=', or "tuned"')
            object.__setattr__(self, "rerank_below", plain(self.rerank_below))
        check_flag(SECTION, "use_gold_ents", self.use_gold_ents)


@Language.factory(
    "pel_ranker",
    requires=["doc.ents", "token.ent_kb_id", "span._.kb_ents"],
    assigns=["token.ent_kb_id", "span._.kb_ents", "span._.is_nil", "span._.kb_prob"],
    default_config={
        "model": {"@architectures": "spacy_pel.CrossEncoder.v1"},
        "adversarial": {"@misc": "spacy_pel.FGSM.v1"},
        **asdict(RankSettings()),
        "scorer": {"@scorers": "spacy_pel.link_scorer.v1"},
    },
    default_score_weights={"nel_recall_at_1": 1.0, "nel_recall_at_64": 0.0},
)
def make_ranker(
    nlp: Language,
    name: str,
    model: Model,
    adversarial: Any | None,
    top_n: int,
    rerank_below: Threshold,
    use_gold_ents: bool,
    scorer: Callable | None,
) -> "PelRanker":
    """Build a `pel_ranker`.

    Args:
        nlp: The pipeline.
        name: Of the component.
        model: A cross-encoder, `spacy_pel.CrossEncoder.v1`.
        adversarial: `spacy_pel.FGSM.v1`, or null for none.
        scorer: `spacy_pel.link_scorer.v1`.

    The other arguments are the settings of `RankSettings`.

    Raises:
        PelError: A setting or a part cannot be what it is.
    """
    with errors_name(name, "pel_ranker"):
        if adversarial is not None and not hasattr(adversarial, "step"):
            raise refused(SECTION, "adversarial", adversarial, 'make it a section with "@misc": "spacy_pel.FGSM.v1"')
        if "rows" not in model.attrs.get("settings", {}):
            advice = 'make it a section with "@architectures": "spacy_pel.CrossEncoder.v1"'
            raise refused(SECTION, "model", model.name, advice)
        settings = RankSettings(top_n, rerank_below, use_gold_ents)
        return PelRanker(nlp.vocab, model, name, adversarial=adversarial, settings=settings, scorer=scorer)


class PelRanker(WithSettings, Learning, TrainablePipe):
    """Ranks the first candidates of the `pel_linker` before it anew, with a cross-encoder that reads a mention and an
    entity together, and links each mention to the best.

    It changes what the linker has set: `ent.kb_id_`, `ent._.kb_ents` (in another order, with the scores of the linker)
    and `ent._.kb_prob`. Before `tune-ranker` a mention that the linker calls NIL stays NIL, and none has a probability.

    Attributes:
        linker: The one before it, or None.
        adversarial: FGSM, or None.
        settings: How it ranks.
        tuned: What was tuned on mentions.
        session: The training that is going on, or None.
        scorer: What `score` calls, or None.
    """

    model: Model
    setting_names = tuple(field.name for field in fields(RankSettings))

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "pel_ranker",
        *,
        adversarial: "FGSM | None" = None,
        settings: RankSettings | None = None,
        scorer: Callable | None = None,
    ) -> None:
        from ..tuning.ranking import RankTuned

        super().__init__(vocab, model, name)
        self.linker: PelLinker | None = None
        self.adversarial = adversarial
        self.settings = settings or RankSettings()
        self.tuned: RankTuned = RankTuned()
        self.session: RankingSession | None = None
        self.scorer = scorer
        self._choices: Choices | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("model", "adversarial"):
            self.session = None

    def listen_to(self, linker: "PelLinker") -> None:
        """Rank what `linker` finds. spaCy arranges that for each linker before the ranker; the last one counts, be
        it in another pipeline that shares the ranker (`nlp.add_pipe(..., source=...)`)."""
        self.linker = linker

    def require_linker(self) -> "PelLinker":
        """The linker, with its KB.

        Raises:
            PelError: There is none, it has no KB, or it finds less than `top_n` candidates.
        """
        linker = self._linker_before()
        linker.require_kb()
        return linker

    def _linker_before(self) -> "PelLinker":
        """The linker, with or without a KB."""
        if self.linker is None:
            raise PelError(
                f"{self.name} ranks what a pel_linker before it finds, and none stands there: add one with "
                f'nlp.add_pipe("pel_linker", before="{self.name}"), or put it first in [nlp] pipeline.'
            )
        if self.settings.top_n > self.linker.settings.top_k:
            raise PelError(
                f"{SECTION}: top_n = {self.settings.top_n} is more than the top_k = {self.linker.settings.top_k} "
                f"candidates that {self.linker.name} searches; lower it, or raise top_k there."
            )
        return self.linker

    # --- ranking ---

    def predict(self, docs: Iterable[Doc]) -> list[list[Link]]:
        """Rank the candidates of the mentions of `docs`, but for those whose ids the linker has just kept, as it does
        with `overwrite = false`.

        Returns:
            For every Doc its links.

        Raises:
            PelError: Without a linker, or there are mentions and it has no KB, or the ranker no weights.
        """
        docs = list(docs)
        linker = self._linker_before()
        key, shown = linker.settings.spans_key, linker.settings.max_candidates
        spans = [mentions_of(doc, key) for doc in docs]
        if not any(spans):
            return [[] for _ in docs]
        linker.require_kb()
        links = [link for doc in docs for link in links_of(doc, key)]
        if not linker.outdated and not all(link.kb_id for link in links):
            warn_of_no_links(self.name, linker.name)
        wanted = {i: span for i, span in enumerate(chain(*spans)) if not linker.noted.has_kept(span)}
        before = [links[i] for i in wanted]
        if not linker.outdated and linker.listener_map.get(self.name) is not self:
            before = self._with_more(list(wanted.values()), before)
        for i, link in zip(wanted, self.rerank(list(wanted.values()), before), strict=True):
            links[i] = link._replace(candidates=link.candidates[:shown])
        found = iter(links)
        return [list(islice(found, len(own))) for own in spans]

    def _with_more(self, spans: Sequence[Span], before: Sequence[Link]) -> list[Link]:
        """What the linker says of mentions that it has linked without the ranker in view, with as many candidates as
        this wants: spaCy tells it of components that are enabled when the pipeline changes, and of no others. What
        another component has made of its candidates stays."""
        linker, wanted = self.require_linker(), self.settings.top_n
        few = [i for i, link in enumerate(before) if 0 < len(link.candidates) < wanted]
        links = list(before)
        for i, link in zip(few, linker.linked([spans[i] for i in few], wanted), strict=True):
            known = {id_ for id_, _ in before[i].candidates}
            if known == {id_ for id_, _ in link.candidates[: len(known)]}:
                links[i] = link
        return links

    def set_annotations(self, docs: Iterable[Doc], scores: list[list[Link]]) -> None:
        """Write what `predict` found to the Docs."""
        key = self._linker_before().settings.spans_key
        for doc, links in zip(docs, scores, strict=True):
            write_links(doc, links, key, overwrite=True)

    def rerank(self, spans: Sequence[Span], links: Sequence[Link]) -> list[Link]:
        """The links of n mentions with their first `top_n` candidates in the order of their new scores.

        Args:
            spans: The mentions.
            links: What the linker says of each.

        Raises:
            PelError: Without a linker and its KB, or without weights.
        """
        from .ranking import rerank

        return rerank(self, spans, links)

    @property
    def in_force(self) -> "RankTuned":
        """What was tuned; without a NIL threshold where `nil_threshold` of the linker is not "tuned", and so wins."""
        return self.tuned if self.require_linker().settings.nil_threshold == "tuned" else self.tuned.without_nil()

    @property
    def threshold(self) -> float | None:
        """The NIL threshold in force: the ranker's, where one was tuned, or that of the linker."""
        own = self.in_force.nil_threshold
        return self.require_linker().threshold if own is None else own

    def tune(self, docs: Iterable[Doc], **options: Any) -> "TunedRanker":
        """Fit to the gold mentions of `docs` what the scores of the linker count beside the ranker's, the probability
        that a link is right, the NIL threshold, and which mentions need not be ranked anew; and keep it in `tuned`. For
        `options` see `spacy_pel.pipeline.ranker_tuning.tune_ranker`.

        Raises:
            PelError: As for that function.
        """
        from .ranker_tuning import tune_ranker

        return tune_ranker(self, docs, **options)

    def explain(self, span: Span, k: int = 5) -> "Explanation":
        """Why `span` is linked as it is: its `k` best candidates in their new order, with the scores of the linker and
        of the ranker (`RankedEntity`), and what decides on NIL. Of a mention that is not ranked anew, what the linker
        says."""
        from .ranker_explaining import explained

        return explained(self, span, k)

    # --- training ---

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        encoder_loader: Callable | None = None,
        candidates: Path | None = None,
    ) -> None:
        """Load the encoder to begin with, and let the linker find the candidates of all training mentions.

        Args:
            get_examples: Gives the training examples.
            nlp: The pipeline, whose config says whether the corpus is streamed.
            encoder_loader: `spacy_pel.HFEncoder.v1`; None keeps the weights that are there, and begins with a copy of
                the linker's encoder of mentions where there are none.
            candidates: A file where the candidates are kept for the next training, also those that are found batch by
                batch, of a streamed corpus; None: they are not. With `spacy_pel.TransformerListener.v1` in the linker
                they are found batch by batch, since a `transformer` pipe has to read the Docs first.

        Raises:
            PelError: Without a linker and its KB, if none of the first gold ids is in the KB or there is none, or if
                `candidates` of such a linker are to be kept.
        """
        from ..models.cross_encoder import set_encoder
        from ..models.encoder import has_encoder
        from ..models.listener import listens
        from ..models.pretrained import encoder_of
        from ..tuning.ranking import RankTuned

        check_first_examples(get_examples, "PelRanker.initialize")
        linker, section = self.require_linker(), f"[initialize.components.{self.name}]"
        if candidates is not None and not str(candidates).strip("."):
            raise refused(section, "candidates", str(candidates), "name a file, or leave it out")
        lent = listens(linker.model)
        if lent and candidates is not None:
            path = str(candidates)
            advice = f"{linker.name} reads what a transformer pipe lends, and that may learn; leave it out"
            raise refused(section, "candidates", path, advice)
        encoder = None if encoder_loader is None else encoder_loader()
        if encoder is None and not has_encoder(self.model):
            encoder = encoder_of(linker.model)
        references = (eg.reference for eg in get_examples())
        annotated = gold_to_learn(references, self.name, nlp, linker.settings.spans_key)
        mentions = [mention for mention in annotated if mention.is_linked]
        check_gold_ids(mentions[:EXAMPLES_CHECKED], linker.require_kb())
        choices = self._begin(candidates)
        if self.settings.use_gold_ents and not lent:
            choices.kept.of(with_successors(mentions, linker.require_kb()), progress=True)
        if encoder is not None:
            set_encoder(self.model, encoder)
        self.session, self.tuned, self._choices = None, RankTuned(), choices

    def _begin(self, candidates: Path | None = None) -> "Choices":
        """Begin to keep what the linker finds."""
        import numpy

        from .candidates import KeptCandidates
        from .choices import Choices

        kept = KeptCandidates(self.require_linker(), self.settings.top_n, candidates and Path(candidates))
        return Choices(self.require_linker(), kept, self.settings.top_n, numpy.random.randint(2**31))

    def set_model(self, model: Model) -> None:
        """Rank with this cross-encoder from now on."""
        self.model = model

    def begin_training(self) -> "RankingSession":
        """The session that updates the model: the one that goes on, or a new one. It ends when the model or the
        `adversarial` is set."""
        from ..training.ranking import RankingSession

        if self._choices is None or not self._choices.hold(self.require_linker(), self.settings.top_n):
            self._choices = self._begin(self._choices.kept.path if self._choices is not None else None)
        self.session = self.session or RankingSession(self.model, self.adversarial)
        return self.session

    def _learn(self, examples: Sequence[Example]) -> float:
        from ..models.listener import listens

        linker = self.require_linker()
        linker.check_teaches(self.name)
        session = self.begin_training()
        key, gold = linker.settings.spans_key, self.settings.use_gold_ents
        mentions = mentions_to_learn(examples, gold, key, predicted=listens(linker.model))
        assert self._choices is not None
        return session.accumulate(self._choices.of(with_successors(mentions, linker.require_kb())))

    def _has_learnt(self) -> None:
        from ..models.cross_encoder import pair_tower
        from ..tuning.ranking import RankTuned

        pair_tower(self.model).weights_changed()
        self.tuned = RankTuned()

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """The scores of `scorer` over gold mentions: nel_recall_at_1, nel_recall_at_64, nel_nil_f1."""
        from ..evaluation.reranked import Reranked

        if self.scorer is None:
            return {}
        return self.scorer(examples, linker=Reranked(self.require_linker(), self), **kwargs)

    # --- saving ---

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write the cross-encoder and what was tuned to a folder."""
        from .ranker_saving import write_ranker

        write_ranker(self, Path(path), exclude)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "Self":
        """Read a ranker that `to_disk` wrote, whatever its architecture.

        Raises:
            PelError: Naming what is broken.
        """
        from .ranker_saving import read_ranker

        read_ranker(self, Path(path), exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The folder of `to_disk` as one byte string."""
        from .ranker_saving import ranker_to_bytes

        return ranker_to_bytes(self, exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "Self":
        """Read what `to_bytes` wrote, and keep what it was told to leave out."""
        from .ranker_saving import ranker_from_bytes

        ranker_from_bytes(self, data, exclude)
        return self

    def __reduce__(self) -> tuple:
        from .ranker_saving import pickled
        from .saving import kept_handler

        return *pickled(self), (self.linker, kept_handler(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> "Self":
        from .saving import copied

        return copied(self, memo)

    def __setstate__(self, state: tuple["PelLinker | None", Callable]) -> None:
        linker, error_handler = state
        self.set_error_handler(error_handler)
        if linker is not None:
            linker.find_listeners(self)
