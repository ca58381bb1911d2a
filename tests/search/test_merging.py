"""A hybrid search of many queries beside a plain loop over one query after the other."""

from __future__ import annotations

import numpy as np
import pytest
from tiny import ENTITIES, make_kb, unit_vectors

from spacy_pel.kb.entity import Entity
from spacy_pel.kb.index.indexes import NewVectors
from spacy_pel.kb.index.owners import Owners
from spacy_pel.search import hybrid
from spacy_pel.search.hybrid import HybridSearch
from spacy_pel.search.search import Queries
from spacy_pel.search.weights import NameWeights

DIM, K = 8, 3
TEXTS = [
    "heart attack",
    "aspirin",
    "heart attack",
    "MI",
    "Heart attacks",
    "zzz",
    "new thing",
    "aspirin",
    "heart attack",
]
WEIGHTS = NameWeights(0.5, 0.25, 0.75)


@pytest.fixture(scope="module")
def kb(tmp_path_factory):
    """With an index of entities, one of names (several each, some shared), and entities added and removed since."""
    kb = make_kb(
        tmp_path_factory.mktemp("merging") / "kb", [*ENTITIES, Entity("X1", "heart attack"), Entity("X2", "MI")]
    )
    owners = Owners(np.repeat(np.arange(len(kb)), 2), np.arange(2 * len(kb)) * 5 % 17)
    kb.index([unit_vectors(len(kb), DIM)], dim=DIM, metric="cosine", fingerprint="entity")
    kb.index([unit_vectors(17, DIM, 1)], dim=DIM, metric="cosine", fingerprint="names", owners=owners, kind="names")
    new = unit_vectors(3, DIM, 2)
    kb.add([Entity("N1", "new thing", ("MI",))], NewVectors("entity", new[:1]), NewVectors("names", new[1:], [0, 0]))
    kb.add([Entity("N2", "Heart attack of another")], NewVectors("names", new[:1], [0]))  # none of entities
    kb.remove([ENTITIES[0].id])
    return kb


def by_hand(kb, kinds, compare, text, vector, within):
    """Of each row the score, and what it is made of."""
    indexes = {kind: kb.entity_index(kind) for kind in kinds}
    rows = {row for one in indexes.values() for row in one.search(vector[None], K, within)[1][0].tolist()} - {-1}
    match = kb.names.match(text, "en")
    if compare:
        rows |= set(match.best(K, within).tolist())
    found = {}
    for row in sorted(rows):
        own, there = {}, False
        for kind in kinds:
            part = "names" if kind == "names" and len(kinds) == 2 else "similarity"
            products, nth = indexes[kind].similarities(vector[None], np.array([0]), np.array([row]))
            own[part] = products[0]
            there |= bool(nth[0] >= 0)
            if kind == "names":
                own["name"] = max(nth[0], 0)
        if compare:
            own["ngram"], own["exact"] = match.scores(np.array([row]), within)[0]
        weights = {"similarity": 1.0} | {part: getattr(WEIGHTS, part) for part in ("ngram", "exact", "names")}
        counted = [part for part in weights if part in own]
        score = sum(weights[part] * own[part] for part in counted) / sum(weights[part] for part in counted)
        if there:
            found[row] = score, own
    return found


@pytest.mark.parametrize("compare", [True, False])
@pytest.mark.parametrize("kinds", [("entity",), ("names",), ("entity", "names")])
@pytest.mark.parametrize("types", [None, ["Disease"]])
def test_a_batch_is_found_as_a_loop_finds_it(kb, kinds, compare, types, monkeypatch):
    monkeypatch.setattr(hybrid, "AT_ONCE", 4)  # so that there are three blocks
    vectors = unit_vectors(len(TEXTS), DIM, 3)
    within = None if types is None else kb.rows_of_types(types)
    search = HybridSearch({kind: kb.entity_index(kind) for kind in kinds}, kb.names if compare else None, WEIGHTS)
    found = search(Queries(TEXTS, vectors, "en"), K, within)
    first = found.first(2)
    for i, text in enumerate(TEXTS):
        wanted = by_hand(kb, kinds, compare, text, vectors[i], within)
        own = slice(found.starts[i], found.starts[i] + found.counts[i])
        assert set(found.rows[own].tolist()) == set(wanted)
        expected = [wanted[row][0] for row in found.rows[own].tolist()]
        assert found.scores[own] == pytest.approx(expected, abs=1e-6)
        assert found.scores[own].tolist() == sorted(found.scores[own].tolist(), reverse=True)
        for part, values in found.parts.items():
            expected = [wanted[row][1][part] for row in found.rows[own].tolist()]
            assert values[own] == pytest.approx(expected, abs=1e-6)
        two = slice(first.starts[i], first.starts[i] + first.counts[i])
        assert first.rows[two].tolist() == found.rows[own][:2].tolist()
        assert all(set(found.parts) == set(own) for _, own in wanted.values())


def test_only_what_is_wanted_is_left(kb):
    search = HybridSearch({"entity": kb.entity_index("entity")}, kb.names, WEIGHTS)
    found = search(Queries(TEXTS, unit_vectors(len(TEXTS), DIM, 3), "en"), K).first(None)
    odd = found.only(found.rows % 2 == 1)
    for i in range(len(TEXTS)):
        rows = found.rows[found.starts[i] : found.starts[i] + found.counts[i]]
        assert odd.rows[odd.starts[i] : odd.starts[i] + odd.counts[i]].tolist() == [row for row in rows if row % 2]
