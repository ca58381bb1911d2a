"""Samplers: never a correct entity, none twice, seeded, hard ones the best wrong ones."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.index.vectors import VectorIndex
from spacy_pel.training.negatives import NONE, HardNegatives, MixedNegatives, RandomNegatives

N_ENTITIES = 200


@pytest.fixture
def vectors():
    vectors = np.random.default_rng(1).normal(size=(N_ENTITIES, 16)).astype("float32")
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def index(vectors):
    return VectorIndex.build(vectors)


CORRECT = [[3], [7, 8, 9], [0], [199, 5]]
SAMPLERS = [
    RandomNegatives(12),
    HardNegatives(12),
    HardNegatives(12, draw="sample", pool=50),
    MixedNegatives(12, p=50),
    MixedNegatives(12, p=25, draw="sample"),
]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_never_a_correct_entity_none_twice_and_seeded(sampler, vectors, index):
    queries = vectors[[own[0] for own in CORRECT]]  # each mention lies on its gold entity: the nearest of all
    first, again, other = (
        sampler.sample(np.random.default_rng(seed), CORRECT, N_ENTITIES, queries, index, 32.0).places
        for seed in (1, 1, 2)
    )
    assert first.shape == (4, 12)
    for own, row in zip(CORRECT, first):
        assert not set(own) & set(row) and len(set(row)) == 12 and row.min() >= 0 and row.max() < N_ENTITIES
    assert (first == again).all()
    assert (sampler.percent_hard == 100 and sampler.draw == "top") or (first != other).any()


def test_top_hard_negatives_are_the_best_wrong_entities(vectors, index):
    queries = np.random.default_rng(5).normal(size=(4, 16)).astype("float32")
    found = HardNegatives(5).sample(np.random.default_rng(0), CORRECT, N_ENTITIES, queries, index).places
    scores = queries @ vectors.T
    for i, own in enumerate(CORRECT):
        order = [row for row in np.argsort(-scores[i]) if row not in own]
        assert found[i].tolist() == order[:5]


def test_mixed_takes_its_share_of_hard_ones_first(vectors, index):
    queries = vectors[[own[0] for own in CORRECT]]
    hard = HardNegatives(6).sample(np.random.default_rng(0), CORRECT, N_ENTITIES, queries, index).places
    mixed = MixedNegatives(12, p=50).sample(np.random.default_rng(0), CORRECT, N_ENTITIES, queries, index).places
    assert (mixed[:, :6] == hard).all()


def test_sampled_hard_negatives_follow_the_softmax_of_the_training_logits():
    angles = np.array([0.0, 0.3, 0.6, 0.9, 1.2])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")
    index, query = VectorIndex.build(vectors), np.array([[1.0, 0.0]], dtype="float32")
    sampler, rng, scale = HardNegatives(1, draw="sample", pool=5), np.random.default_rng(0), 4.0
    drawn = np.concatenate([sampler.sample(rng, [[0]], 5, query, index, scale).places[0] for _ in range(4000)])
    logits = np.exp(scale * np.cos(angles[1:]))
    shares = np.bincount(drawn, minlength=5)[1:] / 4000
    np.testing.assert_allclose(shares, logits / logits.sum(), atol=0.03)


def test_random_negatives_are_uniform():
    rng = np.random.default_rng(0)
    drawn = np.concatenate([RandomNegatives(5).sample(rng, [[2]], 50, np.zeros((1, 2))).places[0] for _ in range(4000)])
    counts = np.bincount(drawn, minlength=50)
    assert counts[2] == 0
    np.testing.assert_allclose(np.delete(counts, 2) / 20000, 1 / 49, atol=0.005)


def test_a_small_kb_gives_what_it_has():
    rows = RandomNegatives(8).sample(np.random.default_rng(0), [[0], [1, 2]], 4, np.zeros((2, 2))).places
    assert [sorted(row[row != NONE].tolist()) for row in rows] == [[1, 2, 3], [0, 3]]


def test_hard_negatives_of_a_small_kb(vectors):
    index = VectorIndex.build(vectors[:3])
    rows = HardNegatives(8).sample(np.random.default_rng(0), [[0]], 3, vectors[:1], index).places
    assert sorted(rows[rows != NONE].tolist()) == [1, 2]


def test_hard_negatives_without_an_index_name_the_config_key():
    with pytest.raises(PelError, match=r"\[training.before_update\]"):
        HardNegatives(2).sample(np.random.default_rng(0), [[0]], 3, np.zeros((1, 2)))


@pytest.mark.parametrize("settings", [{"n": 0}, {"p": 101}, {"p": -1}, {"draw": "best"}, {"draw": "iid", "pool": 3}])
def test_settings_that_make_no_sense(settings):
    with pytest.raises(PelError, match=r"\[components.pel_linker.negatives\]"):
        MixedNegatives(**settings)


@pytest.mark.parametrize(
    ("n", "p", "advice"),
    [
        (4, 10, "none is hard; make p 13 to 87, or n larger"),
        (8, 95, "none is random; make p 7 to 93, or n larger"),
        (1, 50, "none is random; make n larger"),
    ],
)
def test_a_mixture_has_both_kinds(n, p, advice):
    with pytest.raises(PelError, match=advice):
        MixedNegatives(n, p=p)
    least = 50 // n + 1
    for found in [MixedNegatives(n, p=share) for share in (least, 100 - least)] if n > 1 else ():
        assert 0 < found.n_hard < n
    assert [MixedNegatives(n, p=share).n_hard for share in (0, 100)] == [0, n]


@pytest.mark.parametrize("p", [0, 50, 100])
def test_independent_draws_come_with_their_probability(p):
    """Of 5 entities, 2 of them correct: each other one is drawn as often as its q says."""
    angles = np.array([0.0, 0.3, 0.6, 0.9, 1.2])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype("float32")
    index, query = VectorIndex.build(vectors), np.array([[1.0, 0.0]], dtype="float32")
    sampler, rng, scale = MixedNegatives(2, p=p, draw="iid", pool=5), np.random.default_rng(0), 4.0
    drawn = [sampler.sample(rng, [[0, 2]], 5, query, index, scale) for _ in range(8000)]
    rows, log_q = (np.concatenate([getattr(one, part) for one in drawn]).ravel() for part in ("places", "log_q"))
    assert {one.n_hard.tolist()[0] for one in drawn} == {2 * p // 100}
    softmax = np.exp(scale * np.cos(angles)) * [0, 1, 0, 1, 1]
    expected = p / 100 * softmax / softmax.sum() + (1 - p / 100) * np.array([0, 1, 0, 1, 1]) / 3
    np.testing.assert_allclose(np.bincount(rows, minlength=5) / len(rows), expected, atol=0.015)
    np.testing.assert_allclose(np.exp(log_q), expected[rows], rtol=1e-5)


def test_independent_draws_where_every_entity_is_correct():
    drawn = RandomNegatives(3, replace=True).sample(np.random.default_rng(0), [[0, 1]], 2, np.zeros((1, 2)))
    assert (drawn.places == NONE).all() and np.isfinite(drawn.log_q).all()
