"""`spacy_pel.MentionCorpus.v1`: a training corpus of which every Example is one linked mention in its window."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import PelError
from ..mentions.gold import GOLD_GROUP, gold_mentions
from .docbin import read_docs


def make_mention_corpus(path: Path, window: int = 128, seed: int = 0, limit: int = 0) -> Callable:
    """A reader for `[corpora]`: see `MentionCorpus`."""
    return MentionCorpus(path, window=window, seed=seed, limit=limit)


class MentionCorpus:
    """Yields one Example a gold mention that has an id; unannotated and NIL mentions teach the encoders nothing.

    Its Docs are the mention and up to `window` tokens on either side; a mention is never cut, however long. The
    predicted Doc has the words only, the reference the mention too, in `doc.spans["gold_mentions"]` and `doc.ents`.

    path: a `.spacy` file, or a folder of them. It is read when the corpus is called.
    seed: every call gives a new order, the same in every run, so streaming (`max_epochs = -1`) sees new orders too.
        Streaming makes Examples as they are asked for; spaCy otherwise holds them all, about 50 kB each.
    limit: take this many mentions, the same random ones in every call; 0 takes all.
    RAISES: `PelError` where the file is missing or no DocBin, or has no mention with an id.
    """

    def __init__(self, path: Path, *, window: int = 128, seed: int = 0, limit: int = 0) -> None:
        self.path = Path(path)
        self.window = window
        self.seed = seed
        self.limit = limit
        self.calls = 0

    def __call__(self, nlp: Language) -> Iterator[Example]:
        docs = read_docs(self.path, nlp.vocab)
        spans = [mention.span for doc in docs for mention in gold_mentions(doc) if mention.is_linked]
        if not spans:
            raise PelError(f"{self.path} has no mention with an id: there is nothing to train on")
        if 0 < self.limit < len(spans):
            spans = Random(self.seed).sample(spans, self.limit)
        Random(self.seed + self.calls).shuffle(spans)
        self.calls += 1
        for span in spans:
            yield self._make_example(span)

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
