"""A search whose best are encoded again, against a plain loop."""

from __future__ import annotations

import numpy as np
from tiny import unit_vectors

from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.search.rescored import Rescored

OLD, NEW = unit_vectors(30, 8), unit_vectors(30, 8, seed=1)
QUERIES = unit_vectors(5, 8, seed=2)


def rescored(depth, old=OLD, new=NEW):
    encoded = []
    index = Rescored(
        VectorIndex.stream([old], 8),
        depth,
        lambda queries, numbers: encoded.append(numbers.tolist()) or queries @ new[numbers].T,
    )
    return index, encoded


def test_the_best_of_the_old_are_in_the_order_of_the_new():
    index, encoded = rescored(depth=7)
    scores, found = index.search(QUERIES, 3)
    pools = np.argsort(-QUERIES @ OLD.T, axis=1)[:, :7]
    assert encoded == [sorted(set(pools.ravel().tolist()))]  # each once
    for query, pool, own_scores, own in zip(QUERIES, pools, scores, found, strict=True):
        expected = sorted(pool.tolist(), key=lambda number: -NEW[number] @ query)[:3]
        assert own.tolist() == expected
        np.testing.assert_allclose(own_scores, NEW[expected] @ query, atol=1e-6)


def test_over_the_whole_index_it_is_an_exact_search():
    index, _ = rescored(depth=30)
    exact = VectorIndex.stream([NEW], 8).search(QUERIES, 4)
    for ours, theirs in zip(index.search(QUERIES, 4), exact, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_where_there_are_none():
    """As in a sample of the KB that has no entity of the type."""
    index, encoded = rescored(depth=5, old=OLD[:0])
    scores, found = index.search(QUERIES, 4)
    assert (found == -1).all() and np.isneginf(scores).all() and scores.shape == found.shape == (5, 4) and not encoded


def test_where_there_are_fewer_than_are_wanted():
    index, encoded = rescored(depth=5, old=OLD[:3])
    scores, found = index.search(QUERIES, 4)
    assert encoded == [[0, 1, 2]]
    assert (np.sort(found, axis=1) == [-1, 0, 1, 2]).all()
    assert (found[:, 3] == -1).all() and np.isneginf(scores[:, 3]).all() and np.isfinite(scores[:, :3]).all()
