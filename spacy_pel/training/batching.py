"""`spacy_pel.batch_by_mentions.v1`: batches that hold a bounded number of gold mentions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spacy.training import Example

from ..checks import check_count, check_flag, refused
from ..mentions.gold import gold_mentions

SECTION = "[training.batcher]"


@dataclass(frozen=True)
class BatchByMentions:
    """A batcher for `[training.batcher]`: groups Examples, in their order, into batches with at most `size` gold
    mentions in all.

    An Example without mentions counts as one, so that a batch is bounded whatever the corpus holds.

    Attributes:
        size: The most mentions of a batch.
        discard_oversize: Leave out an Example with more mentions than that; else it is a batch of its own.

    Raises:
        PelError: size is under 1.
    """

    size: int
    discard_oversize: bool = False

    def __post_init__(self) -> None:
        check_count(SECTION, "size", self.size, least=1)
        check_flag(SECTION, "discard_oversize", self.discard_oversize)

    def __call__(self, examples: Iterable[Example]) -> Iterator[list[Example]]:
        """Yield the batches.

        Raises:
            PelError: All Examples are left out: spaCy would ask again for ever.
        """
        batch: list[Example] = []
        n_in_batch = n_discarded = n_kept = 0
        for example in examples:
            n_mentions = max(1, len(gold_mentions(example.reference)))
            if self.discard_oversize and n_mentions > self.size:
                n_discarded += 1
                continue
            n_kept += 1
            if batch and n_in_batch + n_mentions > self.size:
                yield batch
                batch, n_in_batch = [], 0
            batch.append(example)
            n_in_batch += n_mentions
        if batch:
            yield batch
        if n_discarded and not n_kept:
            advice = f"make it larger: all {n_discarded} Examples have more mentions, which discard_oversize leaves out"
            raise refused(SECTION, "size", self.size, advice)
