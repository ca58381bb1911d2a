"""`spacy_pel.MixedCorpus.v1`: annotated mentions with names of the KB among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from spacy.language import Language
from spacy.training import Example

from ..errors import PelError


def make_mixed_corpus(mentions: Callable, aliases: Callable, ratio: float = 1.0, first: int = 0) -> Callable:
    """A reader for `[corpora]`: see `MixedCorpus`."""
    return MixedCorpus(mentions, aliases, ratio, first)


class MixedCorpus:
    """Yields all that `mentions` does, and evenly among them `ratio` times as many Examples of `aliases`, as far as
    they go.

    Every call gives the readers a new order. spaCy calls a corpus once, and shuffles what it got; with `max_epochs =
    -1`, which streams, it calls it for every epoch, which then has other names.

    mentions, aliases: readers, such as `spacy_pel.MentionCorpus.v1` and `spacy_pel.AliasCorpus.v1`.
    first: so many Examples of `aliases` come before all others, in the first call only; with `max_epochs = -1`, where
        the order is kept, the KB is learnt before its mentions.
    RAISES: `PelError` for a ratio or number under 0.
    """

    def __init__(self, mentions: Callable, aliases: Callable, ratio: float = 1.0, first: int = 0) -> None:
        if min(ratio, first) < 0:
            raise PelError(
                f"[corpora] ratio = {ratio} and first = {first} of spacy_pel.MixedCorpus.v1: one is under 0."
            )
        self.mentions, self.aliases = mentions, aliases
        self.ratio, self.first = ratio, first

    def __call__(self, nlp: Language) -> Iterator[Example]:
        while before := self.first:
            for name in islice(self.aliases(nlp), before):
                self.first -= 1
                yield name
            if self.first == before:
                break  # there are none
        aliases = self.aliases(nlp) if self.ratio else iter(())
        taken = 0
        for number, mention in enumerate(self.mentions(nlp), 1):
            yield mention
            yield from islice(aliases, int(number * self.ratio) - taken)
            taken = int(number * self.ratio)
