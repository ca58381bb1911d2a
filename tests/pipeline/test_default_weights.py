"""What names count before anything was tuned, beside cosines and beside dot products."""

from types import SimpleNamespace

import numpy as np
import pytest
from tiny import make_kb

from spacy_pel.kb.index import state
from spacy_pel.kb.index.vectors import ExactIndex
from spacy_pel.models.scoring.dual import Dual
from spacy_pel.models.scoring.multi_vector import MultiVector, SumOfMax
from spacy_pel.models.scoring.poly import GeneralPoly, PolyEncoder
from spacy_pel.pipeline.default_weights import default_weights
from spacy_pel.search.weights import DEFAULT

LENGTHS = np.arange(1.0, 13.0, dtype="float32")  # of the vectors of the twelve entities


@pytest.fixture
def kb(tmp_path):
    kb = make_kb(tmp_path / "kb")
    kb.index([LENGTHS[:, None] * np.eye(12, dtype="float32")], dim=12, metric="dot", fingerprint="a")
    return kb


def linker(kb, similarity="dot", fingerprint="a", score=None):
    attrs = {"score": score or Dual(), "settings": {"similarity": similarity}}
    return SimpleNamespace(kb=kb, fingerprints={"entity": fingerprint}, model=SimpleNamespace(attrs=attrs))


def test_beside_dot_products_they_grow_with_the_vectors(kb):
    mean = float((LENGTHS**2).mean())
    assert default_weights(linker(kb)) == pytest.approx((DEFAULT.ngram * mean, DEFAULT.exact * mean, None))
    assert default_weights(linker(kb, "cosine")) == default_weights(linker(kb, fingerprint="b")) == DEFAULT
    assert default_weights(linker(None)) is None


@pytest.mark.parametrize(
    "score, terms", [(MultiVector(8), 1), (PolyEncoder(16), 1), (GeneralPoly(16, 4), 4), (SumOfMax(), 1)], ids=repr
)
def test_beside_sums_of_products_they_grow_with_the_terms(kb, score, terms):
    one, all_ = (default_weights(linker(kb, score=own)) for own in (Dual(), score))
    assert (all_.ngram, all_.exact) == pytest.approx((terms * one.ngram, terms * one.exact))


def test_a_sample_is_read_once(kb, monkeypatch):
    read, own = [], ExactIndex.vectors
    monkeypatch.setattr(state, "SAMPLE", 5)
    monkeypatch.setattr(ExactIndex, "vectors", lambda self, numbers: read.append(len(numbers)) or own(self, numbers))
    for _ in range(3):
        assert kb.entity_index("a") is kb.indexes["a"]
        assert default_weights(linker(kb)).ngram == pytest.approx(DEFAULT.ngram * float((LENGTHS[:5] ** 2).mean()))
    assert read == [5]
    kb.index([np.eye(12, dtype="float32")], dim=12, metric="dot", fingerprint="a")  # other vectors
    assert default_weights(linker(kb)) == DEFAULT
