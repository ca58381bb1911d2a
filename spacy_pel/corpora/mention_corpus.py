"""`spacy_pel.MentionCorpus.v1`: a training corpus of which every Example is one linked mention in its window."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..checks import check_count, check_flag
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..mentions.gold import GOLD_GROUP, GoldMention, gold_mentions, with_successors
from .docbin import read_docs

SECTION = "[corpora] spacy_pel.MentionCorpus.v1"


@dataclass
class MentionCorpus:
    """A reader for `[corpora]`: one Example for each gold mention that has an id. Unannotated and NIL mentions teach
    the encoders nothing.

    Its Docs are the mention and up to `window` tokens on either side; a mention is never cut, however long. The
    predicted Doc has the words only, the reference the mention too, in `doc.spans["gold_mentions"]` and `doc.ents`.

    Attributes:
        path: A `.spacy` file, or a folder of them. It is read when the corpus is called.
        window: The most tokens on either side of a mention.
        seed: Every call gives a new order, the same in every run, so streaming (`max_epochs = -1`) sees new orders too.
            Streaming makes Examples as they are asked for; spaCy otherwise holds them all, about 50 kB each.
        limit: Take this many mentions, the same random ones in every call. 0 takes all.
        distinct: Of the mentions of a document that have the same text (case aside) and id, take one, another in each
            call: half of those of an abstract repeat one.
        kb: A KB folder. It is read when the corpus is called, and mentions that it has no entity for are left out:
            they give no loss, and would only fill batches. None takes them too.

    Raises:
        PelError: A number is under 0, or distinct is not true or false.
    """

    path: Path
    window: int = 128
    seed: int = 0
    limit: int = 0
    distinct: bool = False
    kb: Path | None = None
    calls: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        for key in ("window", "seed", "limit"):
            check_count(SECTION, key, getattr(self, key))
        check_flag(SECTION, "distinct", self.distinct)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the Examples.

        Raises:
            PelError: The file is missing or no DocBin, or has no mention with an id, or with none of the KB.
        """
        mentions = [
            mention
            for doc in read_docs(Path(self.path), nlp.vocab)
            for mention in gold_mentions(doc)
            if mention.is_linked
        ]
        if not mentions:
            raise PelError(f"{self.path} has no mention with an id: there is nothing to train on")
        spans = [mention.span for mention in (mentions if self.kb is None else self._known(mentions, Path(self.kb)))]
        if self.limit:
            spans = self._limited(spans)
        Random(self.seed + self.calls).shuffle(spans)
        self.calls += 1
        if self.distinct:
            spans = list({_meant(span): span for span in spans}.values())
        for span in spans:
            yield self._make_example(span)

    def _limited(self, spans: list[Span]) -> list[Span]:
        """Those that the limit leaves, with all that say the same where one of these is taken."""
        groups: dict[Hashable, list[Span]] = {}
        for i, span in enumerate(spans):
            groups.setdefault(_meant(span) if self.distinct else i, []).append(span)
        if self.limit >= len(groups):
            return spans
        return [span for group in Random(self.seed).sample(list(groups.values()), self.limit) for span in group]

    def _known(self, mentions: Sequence[GoldMention], path: Path) -> list[GoldMention]:
        """Those of `mentions` that the KB at `path` has an entity for."""
        kb = KnowledgeBase(path)
        mentions = with_successors(mentions, kb)
        ids = kb.rows({id_ for mention in mentions for id_ in mention.ids}).keys()
        known = [mention for mention in mentions if not ids.isdisjoint(mention.ids)]
        if not known:
            raise PelError(
                f"{self.path} has no mention with an id of the KB {path} (there: {mentions[0].ids[0]!r}, ...; in the "
                f"KB: {next(iter(kb))!r}, ...): both must use the same ids (`convert --strip-prefix` removes a prefix)"
            )
        return known

    def _make_example(self, span: Span) -> Example:
        doc = span.doc
        first, last = max(span.start - self.window, 0), min(span.end + self.window, len(doc))
        words = [token.text for token in doc[first:last]]
        spaces = [bool(token.whitespace_) for token in doc[first:last]]
        predicted, reference = (Doc(doc.vocab, words=words, spaces=spaces) for _ in range(2))
        mention = Span(reference, span.start - first, span.end - first, label=span.label, kb_id=span.kb_id)
        reference.spans[GOLD_GROUP] = [mention]
        reference.ents = [mention]
        return Example(predicted, reference)


def _meant(span: Span) -> tuple[int, str, int]:
    """What is equal of mentions that say the same: document, text and id."""
    return id(span.doc), span.text.casefold(), span.kb_id
