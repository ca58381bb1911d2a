"""The score functions against plain loops, and the identities between them, in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spacy_pel.kb.several import Several
from spacy_pel.models.pooling import Pooling
from spacy_pel.models.scoring.bags import Bags, given
from spacy_pel.models.scoring.dual import Dual
from spacy_pel.models.scoring.multi_vector import MultiVector, SumOfMax
from spacy_pel.models.scoring.poly import GeneralPoly, PolyEncoder
from spacy_pel.models.several_pooling import Codes, FirstTokens
from spacy_pel.training.layouts import per_mention
from spacy_pel.training.negatives import DrawnNegatives

D, T = 5, 7
RNG = np.random.default_rng(0)
MENTION_LENGTHS, ENTITY_LENGTHS = [7, 3, 1, 5], [2, 7, 1, 6, 4, 3, 5, 1]
OWN = 2  # entities of a mention of its own


def rows_of(lengths, seed):
    """States (n, T, D) with padding that would win every maximum, and the mask."""
    mask = torch.arange(T) < torch.tensor(lengths)[:, None]
    states = torch.tensor(np.random.default_rng(seed).normal(size=(len(lengths), T, D)))
    return states.masked_fill(~mask[..., None], 1e3), mask


MENTIONS, ENTITIES = rows_of(MENTION_LENGTHS, 1), rows_of(ENTITY_LENGTHS, 2)


def pooled(pooling, states, mask):
    """What a score is given."""
    vectors = pooling(states, torch.zeros(mask.shape, dtype=torch.long), mask)
    counts = pooling.counts(mask.sum(1).numpy())
    return vectors if counts is None else Bags.of(vectors, counts)


def scored(score, codes=None):
    """Its scores (4, 8) of all pairs."""
    of_mentions, of_entities = score.pooling_of_mentions("cls", False), score.pooling_of_entities("cls", False)
    if isinstance(of_mentions, Codes):
        of_mentions.set_codes(codes)
    mentions, entities = pooled(of_mentions, *MENTIONS), pooled(of_entities, *ENTITIES)
    every = score.all_pairs(mentions, entities)
    own = score.own_pairs(mentions, entities)
    expected = [every[i, i * OWN : (i + 1) * OWN].tolist() for i in range(len(MENTION_LENGTHS))]
    np.testing.assert_allclose(own.detach().numpy(), expected, rtol=1e-12)
    assert every.dtype == torch.float64
    return every.detach().numpy()


def dot(a, b):
    return sum(float(x) * float(y) for x, y in zip(a, b))


def softmax(logits):
    exps = [math.exp(x - max(logits)) for x in logits]
    return [x / sum(exps) for x in exps]


def real(rows, i):
    return rows[0][i][: int(rows[1][i].sum())]


def read_by(codes, tokens):
    """F (c, d) of the tokens (t, d) of a mention, one number at a time."""
    read = []
    for code in codes:
        weights = softmax([dot(code, token) for token in tokens])
        read.append([sum(w * float(token[x]) for w, token in zip(weights, tokens)) for x in range(D)])
    return read


def attended(read, entity):
    products = [dot(own, entity) for own in read]
    return sum(weight * product for weight, product in zip(softmax(products), products))


def loop(score_pair):
    return [[score_pair(real(MENTIONS, m), real(ENTITIES, e)) for e in range(8)] for m in range(4)]


CODES = torch.tensor(np.random.default_rng(3).normal(size=(3, D)))


def test_dual_against_a_loop():
    np.testing.assert_allclose(scored(Dual()), loop(lambda m, e: dot(m[0], e[0])), rtol=1e-12)


@pytest.mark.parametrize("m", [1, 3, 8])
def test_multi_vector_against_a_loop(m):
    expected = loop(lambda mention, entity: max(dot(mention[0], one) for one in entity[:m]))
    np.testing.assert_allclose(scored(MultiVector(m)), expected, rtol=1e-12)


def test_sum_of_max_against_a_loop():
    expected = loop(lambda mention, entity: sum(max(dot(q, one) for one in entity) for q in mention))
    np.testing.assert_allclose(scored(SumOfMax()), expected, rtol=1e-12)


def test_poly_against_a_loop():
    expected = loop(lambda mention, entity: attended(read_by(CODES, mention), entity[0]))
    np.testing.assert_allclose(scored(PolyEncoder(3), CODES), expected, rtol=1e-12)


def test_general_poly_against_a_loop():
    expected = loop(lambda mention, entity: sum(attended(read_by(CODES, mention), one) for one in entity[:4]))
    np.testing.assert_allclose(scored(GeneralPoly(3, 4), CODES), expected, rtol=1e-12)


def test_multi_vector_with_one_vector_is_dual():
    np.testing.assert_allclose(scored(MultiVector(1)), scored(Dual()), rtol=1e-12)


def test_sum_of_max_with_one_vector_each_is_dual():
    firsts = [states[:, 0] for states, _ in (MENTIONS, ENTITIES)]
    np.testing.assert_allclose(SumOfMax().all_pairs(*firsts).numpy(), scored(Dual()), rtol=1e-12)


def test_poly_with_one_code_that_copies_the_first_vector_is_dual():
    marked = MENTIONS[0].clone()
    marked[:, 0, 0] = 50.0  # the code looks for what only first tokens have
    code = torch.zeros(1, D, dtype=torch.float64)
    code[0, 0] = 50.0
    codes = PolyEncoder(1).pooling_of_mentions("cls", False)
    codes.set_codes(code)
    entities = pooled(Pooling("cls", False), *ENTITIES)
    copied = pooled(codes, marked.masked_fill(~MENTIONS[1][..., None], 1e3), MENTIONS[1])
    dual = Dual().all_pairs(marked[:, 0], entities)
    np.testing.assert_allclose(PolyEncoder(1).all_pairs(copied, entities).detach().numpy(), dual.numpy(), rtol=1e-12)


def test_general_poly_with_one_vector_of_the_entity_is_poly():
    np.testing.assert_allclose(scored(GeneralPoly(3, 1), CODES), scored(PolyEncoder(3), CODES), rtol=1e-12)


def test_a_poly_score_is_at_most_the_best_of_its_codes():
    codes = PolyEncoder(3).pooling_of_mentions("cls", False)
    codes.set_codes(CODES)
    read = pooled(codes, *MENTIONS)
    most = torch.einsum("mcd,ed->mce", read.vectors, ENTITIES[0][:, 0]).amax(1)
    assert (scored(PolyEncoder(3), CODES) <= most.detach().numpy() + 1e-12).all()


@pytest.mark.parametrize("score", [MultiVector(3), SumOfMax(), PolyEncoder(3), GeneralPoly(3, 4)], ids=repr)
def test_padding_changes_nothing(score):
    """Rows padded further, with other numbers, in other company."""
    before = scored(score, CODES)
    of_mentions, of_entities = score.pooling_of_mentions("cls", False), score.pooling_of_entities("cls", False)
    if isinstance(of_mentions, Codes):
        of_mentions.set_codes(CODES)
    for m, e in ((2, 1), (1, 3), (3, 7)):  # one pair alone, without any padding
        mention, entity = real(MENTIONS, m)[None], real(ENTITIES, e)[None]
        alone = [
            pooled(pooling, states, torch.ones(states.shape[:2], dtype=torch.bool))
            for pooling, states in ((of_mentions, mention), (of_entities, entity))
        ]
        np.testing.assert_allclose(score.all_pairs(*alone).detach().numpy(), before[m, e], rtol=1e-12)


@pytest.mark.parametrize("score", [MultiVector(3), SumOfMax(), PolyEncoder(3), GeneralPoly(3, 4)], ids=repr)
def test_gradients_reach_what_is_scored_and_no_padding(score):
    of_mentions, of_entities = score.pooling_of_mentions("cls", False), score.pooling_of_entities("cls", False)
    if isinstance(of_mentions, Codes):
        of_mentions.set_codes(CODES.clone())
    states = [rows[0].clone().requires_grad_() for rows in (MENTIONS, ENTITIES)]
    sides = zip((of_mentions, of_entities), states, (MENTIONS[1], ENTITIES[1]))
    given_ = [pooled(pooling, own, mask) for pooling, own, mask in sides]
    score.all_pairs(*given_).sum().backward()
    for own, mask in zip(states, (MENTIONS[1], ENTITIES[1])):
        assert torch.isfinite(own.grad).all()
        assert (own.grad[~mask] == 0).all()
        assert (own.grad[:, 0] != 0).any()
    if isinstance(of_mentions, Codes):
        assert (of_mentions.codes.grad != 0).all()


def test_codes_attend_over_real_tokens_alone():
    codes = Codes(3)
    codes.set_codes(CODES)
    read = pooled(codes, *MENTIONS).vectors.detach().numpy()
    for i in range(len(MENTION_LENGTHS)):
        np.testing.assert_allclose(read[i], read_by(CODES, real(MENTIONS, i)), rtol=1e-10)


@pytest.mark.parametrize("score", [MultiVector(3), SumOfMax(), PolyEncoder(3)], ids=repr)
def test_candidates_of_a_batch_are_scored_as_all_pairs_are(score):
    of_mentions, of_entities = score.pooling_of_mentions("cls", False), score.pooling_of_entities("cls", False)
    if isinstance(of_mentions, Codes):
        of_mentions.set_codes(CODES)
    mentions, entities = pooled(of_mentions, *MENTIONS), pooled(of_entities, *ENTITIES)
    gold, drawn = np.arange(4), DrawnNegatives(np.array([[4], [5], [6], [7]]))
    batch = per_mention(gold, [[0], [1], [2], [3]], drawn, in_batch=True)
    every = score.all_pairs(mentions, entities).detach().numpy()
    expected = [[own[i], own[4 + i], *own[:4]] for i, own in enumerate(every)]
    scores = batch.scores(score, mentions, entities[batch.entity_places])
    np.testing.assert_allclose(scores.detach().numpy(), expected, rtol=1e-12)


def test_unit_length_is_that_of_each_vector():
    kept = FirstTokens(3, unit_length=True)(*[MENTIONS[0], MENTIONS[1].long(), MENTIONS[1]])
    np.testing.assert_allclose(kept.norm(dim=-1).numpy(), 1.0)
    assert len(kept) == sum(min(length, 3) for length in MENTION_LENGTHS)


@pytest.mark.parametrize("score", [MultiVector(3), SumOfMax(), GeneralPoly(3, entity_vectors=2)])
def test_all_pairs_in_blocks_of_entities(score, monkeypatch):
    """The scores are those without blocks, and so are the gradients."""
    found = []
    for at_once in (1 << 24, 100, 1):
        monkeypatch.setattr("spacy_pel.models.scoring.score.PRODUCTS_AT_ONCE", at_once)
        mentions, entities = (Bags(rows[0].clone().requires_grad_(), rows[1]) for rows in (MENTIONS, ENTITIES))
        scores = score.all_pairs(mentions, entities)
        (scores**2).sum().backward()
        found.append([scores.detach(), mentions.vectors.grad, entities.vectors.grad])
    for blocks in found[1:]:
        for own, whole in zip(blocks, found[0], strict=True):
            torch.testing.assert_close(own, whole)
    assert score.all_pairs(mentions, entities[np.array([], dtype=np.int64)]).shape == (len(MENTION_LENGTHS), 0)


def test_a_search_asks_for_the_mean_over_the_tokens_of_a_mention():
    """Written twice as long, a mention has the same scores; in training it has twice the sum."""
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(3, D)).astype(np.float32)
    both = Several(np.concatenate([vectors, vectors, vectors]), np.array([3, 6]))
    entities = given(Several(rng.normal(size=(7, D)).astype(np.float32), np.array([2, 4, 1])))
    once, twice = SumOfMax().all_pairs(given(both), entities)
    torch.testing.assert_close(twice, 2 * once)
    once_asked, twice_asked = SumOfMax().all_pairs(given(SumOfMax().queries(both)), entities)
    torch.testing.assert_close(once_asked, once / 3)
    torch.testing.assert_close(twice_asked, once / 3)
    assert PolyEncoder(3).queries(both) is both and Dual().queries(vectors) is vectors


def test_one_vector_each_needs_no_bags():
    vectors = RNG.normal(size=(4, D))
    assert given(vectors).shape == (4, D)
