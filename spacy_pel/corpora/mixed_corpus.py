"""`spacy_pel.MixedCorpus.v1`: annotated mentions with names of the KB among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from spacy.language import Language
from spacy.training import Example

from ..checks import check_count, check_number

LARGEST_RATIO = 1e6  # with more no mention would ever come again


@dataclass
class MixedCorpus:
    """A reader for `[corpora]`: all that `mentions` yields, and evenly among them `ratio` times as many Examples of
    `aliases`, as far as they go.

    Every call gives the readers a new order. spaCy calls a corpus once, and shuffles what it got. With `max_epochs =
    -1`, which streams, it calls it for every epoch, and each has other names.

    Attributes:
        mentions: A reader, such as `spacy_pel.MentionCorpus.v1`.
        aliases: A reader, such as `spacy_pel.AliasCorpus.v1`.
        ratio: Examples of `aliases` for each of `mentions`.
        first: So many Examples of `aliases` come before all others, in the first call only. With `max_epochs = -1`,
            where the order is kept, the KB is learnt before its mentions.

    Raises:
        PelError: ratio or first is under 0.
    """

    mentions: Callable
    aliases: Callable
    ratio: float = 1.0
    first: int = 0
    _to_come_first: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("[corpora] spacy_pel.MixedCorpus.v1", "ratio", self.ratio, least=0, most=LARGEST_RATIO)
        check_count("[corpora] spacy_pel.MixedCorpus.v1", "first", self.first)
        self._to_come_first = self.first

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the Examples."""
        while before := self._to_come_first:
            for name in islice(self.aliases(nlp), before):
                self._to_come_first -= 1
                yield name
            if self._to_come_first == before:
                break  # there are none
        aliases = self.aliases(nlp) if self.ratio else iter(())
        taken = 0
        for number, mention in enumerate(self.mentions(nlp), 1):
            yield mention
            yield from islice(aliases, int(number * self.ratio) - taken)
            taken = int(number * self.ratio)
