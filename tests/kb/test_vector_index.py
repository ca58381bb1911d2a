"""Exact search and the vector file."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.vector_index import VectorIndex


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(300, 16)).astype("float32")


@pytest.mark.parametrize("n_queries", [0, 1, 7, 64])  # below and above the BLAS threshold of 20
@pytest.mark.parametrize("k", [1, 5, 310])
def test_search_equals_brute_force(vectors, tmp_path, n_queries, k):
    queries = np.random.default_rng(2).normal(size=(n_queries, 16)).astype("float32")
    VectorIndex.write(tmp_path / "v.faiss", [vectors], count=300, dim=16)
    products = queries @ vectors.T
    expected = np.argsort(-products, axis=1, kind="stable")[:, :k]
    for index in (VectorIndex.build(vectors), VectorIndex.open(tmp_path / "v.faiss")):
        assert (len(index), index.dim) == (300, 16)
        scores, rows = index.search(queries, k)
        assert scores.shape == rows.shape == (n_queries, k)
        assert (scores.dtype, rows.dtype) == (np.float32, np.int64)
        assert (rows[:, :300] == expected).all()
        np.testing.assert_allclose(scores[:, :300], np.take_along_axis(products, expected, 1), rtol=1e-4, atol=1e-5)
        assert (rows[:, 300:] == -1).all() and (scores[:, 300:] == -np.inf).all()


def test_equal_scores_give_the_lower_row_first():
    vectors = np.repeat(np.eye(4, dtype="float32"), 6, axis=0)
    _, rows = VectorIndex.build(vectors).search(np.eye(4, dtype="float32"), 6)
    assert rows.tolist() == np.arange(24).reshape(4, 6).tolist()


def test_the_file_is_what_faiss_writes(vectors, tmp_path):
    VectorIndex.write(tmp_path / "ours.faiss", [vectors[:100], vectors[100:]], count=300, dim=16)
    index = faiss.IndexFlatIP(16)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "theirs.faiss"))
    assert (tmp_path / "ours.faiss").read_bytes() == (tmp_path / "theirs.faiss").read_bytes()


def test_write_returns_the_hash_and_takes_other_layouts(vectors, tmp_path):
    hashes = [
        VectorIndex.write(tmp_path / "v.faiss", blocks, count=300, dim=16)
        for blocks in ([vectors], [np.asfortranarray(vectors)], [vectors.astype("float64")])
    ]
    assert len(set(hashes)) == 1 and len(hashes[0]) == 64


def test_other_index_types_are_refused(vectors, tmp_path):
    index = faiss.IndexFlatL2(16)
    index.add(vectors)
    faiss.write_index(index, str(tmp_path / "v.faiss"))
    with pytest.raises(PelError, match="IndexFlatL2, not a flat index of inner products"):
        VectorIndex.open(tmp_path / "v.faiss")
