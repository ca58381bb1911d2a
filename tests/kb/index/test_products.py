"""Candidates by products in bfloat16 beside all vectors in float32."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import unit_vectors

from spacy_pel.kb.index import products
from spacy_pel.kb.index import vectors as indexes
from spacy_pel.kb.index.products import GROUP, RoundedVectors, is_faster
from spacy_pel.kb.index.vectors import VectorIndex

K = 5


@pytest.fixture(scope="module")
def vectors():
    return unit_vectors(GROUP * 60 + 3, 48)  # the last group has places to spare


def brute_force(vectors, queries, k):
    scores = queries @ vectors.T
    return np.sort(scores, axis=1)[:, ::-1][:, :k]


def test_it_finds_what_float32_finds_and_scores_as_that(vectors):
    queries = unit_vectors(50, 48, seed=1)
    scores, numbers, unsure = RoundedVectors(vectors).search(queries, K)
    assert scores.shape == numbers.shape == (50, 8) and unsure.mean() < 0.3
    for own, found, query in zip(scores, numbers, queries, strict=True):
        there = found >= 0
        assert len(set(found[there].tolist())) == there.sum() and (own[~there] == -np.inf).all()
        assert own[there] == pytest.approx(vectors[found[there]] @ query, abs=1e-6)
    best = np.sort(scores, axis=1)[:, ::-1][:, :K]
    assert best[~unsure] == pytest.approx(brute_force(vectors, queries[~unsure], K), abs=1e-6)


def test_the_last_vectors_are_found_once_though_their_group_is_filled_up(vectors):
    queries = np.concatenate([vectors[:40], vectors[-3:]])
    _, numbers, _ = RoundedVectors(vectors).search(queries, K)
    for i, found in zip([*range(40), *range(len(vectors) - 3, len(vectors))], numbers.tolist(), strict=True):
        assert found.count(i) == 1


def test_a_query_is_unsure_where_more_are_equally_near_than_are_compared(vectors):
    many = np.repeat(vectors[:1], 20, axis=0) + unit_vectors(20, 48, seed=2) * 1e-5  # alike in bfloat16
    *_, unsure = RoundedVectors(np.concatenate([vectors, many])).search(np.stack([vectors[0], vectors[99]]), K)
    assert unsure.tolist() == [True, False]


def test_an_index_answers_alike_with_and_without(vectors, monkeypatch):
    many = np.concatenate([vectors, np.repeat(vectors[:1], 20, axis=0) + unit_vectors(20, 48, seed=2) * 1e-5])
    index, queries = VectorIndex.build(many), np.concatenate([vectors[:1], unit_vectors(30, 48, seed=3)])
    monkeypatch.setattr(indexes, "is_faster", lambda *sizes: False)
    scores, numbers = index.search(queries, K)
    monkeypatch.setattr(products, "PRODUCTS", 1)  # several blocks
    monkeypatch.setattr(indexes, "is_faster", lambda *sizes: True)
    found_scores, found = index.search(queries, K, threads=1)
    assert found_scores == pytest.approx(scores, abs=1e-6)
    assert found[1:].tolist() == numbers[1:].tolist()  # the 20 of the first differ by less than float32 tells


def test_it_is_for_many_vectors_and_queries_where_the_processor_has_bfloat16(monkeypatch):
    for has_bf16 in (True, False):
        monkeypatch.setattr(products, "_has_bf16", lambda has_bf16=has_bf16: has_bf16)
        assert is_faster(72_793, 1_000, 64) == has_bf16
    monkeypatch.setattr(products, "_has_bf16", lambda: True)
    assert not is_faster(72_793, 1, 64) and not is_faster(1_000, 1_000, 64) and not is_faster(72_793, 1_000, 2_000)
