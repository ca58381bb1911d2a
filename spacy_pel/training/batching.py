"""`spacy_pel.batch_by_mentions.v1`: batches that hold a bounded number of gold mentions."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from spacy.training import Example

from ..errors import PelError
from ..mentions.gold import gold_mentions


def make_batch_by_mentions(size: int, discard_oversize: bool = False) -> Callable:
    """A batcher for `[training.batcher]`: see `batch_by_mentions`."""
    if size < 1:
        raise PelError(f"[training.batcher] size = {size}: a batch must hold at least one mention")
    return partial(batch_by_mentions, size=size, discard_oversize=discard_oversize)


def batch_by_mentions(
    examples: Iterable[Example], *, size: int, discard_oversize: bool = False
) -> Iterator[list[Example]]:
    """Group Examples, in their order, into batches with at most `size` gold mentions in all.

    An Example with more mentions than that is a batch of its own, or is left out with `discard_oversize`. One without
    mentions counts as one, so that a batch is bounded whatever the corpus holds.
    """
    batch: list[Example] = []
    n_in_batch = 0
    for example in examples:
        n_mentions = max(1, len(gold_mentions(example.reference)))
        if discard_oversize and n_mentions > size:
            continue
        if batch and n_in_batch + n_mentions > size:
            yield batch
            batch, n_in_batch = [], 0
        batch.append(example)
        n_in_batch += n_mentions
    if batch:
        yield batch
