"""Batches with a bounded number of gold mentions."""

import pickle

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import registry

from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import GOLD_GROUP
from spacy_pel.training.batching import BatchByMentions

NLP = spacy.blank("en")


def make_example(n_mentions):
    reference = Doc(NLP.vocab, words=["w"] * 20)
    reference.spans[GOLD_GROUP] = [Span(reference, i, i + 1, label="X", kb_id="D1") for i in range(n_mentions)]
    return Example(Doc(NLP.vocab, words=["w"] * 20), reference)


def sizes(batches):
    return [[len(example.reference.spans[GOLD_GROUP]) for example in batch] for batch in batches]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1] * 7, [[1, 1, 1, 1], [1, 1, 1]]),
        ([2, 2, 1, 3, 4], [[2, 2], [1, 3], [4]]),
        ([1, 9, 1], [[1], [9], [1]]),
        ([0] * 5, [[0, 0, 0, 0], [0]]),
        ([], []),
    ],
)
def test_batches(counts, expected):
    assert sizes(BatchByMentions(4)(map(make_example, counts))) == expected


def test_oversize_examples_can_be_left_out():
    assert sizes(BatchByMentions(4, discard_oversize=True)(map(make_example, [1, 5, 4]))) == [[1], [4]]


def test_where_all_examples_are_left_out_it_says_so():
    """spaCy would wait for a batch for ever."""
    with pytest.raises(PelError, match=r"\[training.batcher\]: size = 4; make it larger: all 2 Examples have more"):
        list(BatchByMentions(4, discard_oversize=True)(map(make_example, [5, 6])))


def test_the_registered_batcher_pickles_and_refuses_an_empty_batch():
    make = registry.batchers.get("spacy_pel.batch_by_mentions.v1")
    batcher = pickle.loads(pickle.dumps(make(size=2)))
    assert sizes(batcher(map(make_example, [1, 1, 1]))) == [[1, 1], [1]]
    with pytest.raises(PelError, match="size = 0"):
        make(size=0)
