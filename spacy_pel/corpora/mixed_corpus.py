"""`spacy_pel.MixedCorpus.v1`: annotated mentions with names of the KB among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from spacy.language import Language
from spacy.training import Example

from ..errors import PelError


def make_mixed_corpus(mentions: Callable, aliases: Callable, ratio: float = 1.0) -> Callable:
    """A reader for `[corpora]`: see `MixedCorpus`."""
    return MixedCorpus(mentions, aliases, ratio)


class MixedCorpus:
    """Yields all that `mentions` does, and evenly among them `ratio` times as many Examples of `aliases`, as far as
    they go.

    Every call gives the readers a new order. spaCy calls a corpus once, and shuffles what it got; with `max_epochs =
    -1`, which streams, it calls it for every epoch, which then has other names.

    mentions, aliases: readers, such as `spacy_pel.MentionCorpus.v1` and `spacy_pel.AliasCorpus.v1`.
    RAISES: `PelError` for a ratio under 0.
    """

    def __init__(self, mentions: Callable, aliases: Callable, ratio: float = 1.0) -> None:
        if ratio < 0:
            raise PelError(f"[corpora] ratio = {ratio} of spacy_pel.MixedCorpus.v1 is under 0.")
        self.mentions, self.aliases, self.ratio = mentions, aliases, ratio

    def __call__(self, nlp: Language) -> Iterator[Example]:
        aliases = self.aliases(nlp) if self.ratio else iter(())
        taken = 0
        for number, mention in enumerate(self.mentions(nlp), 1):
            yield mention
            yield from islice(aliases, int(number * self.ratio) - taken)
            taken = int(number * self.ratio)
