"""What a search says of a mention, against plain loops over its candidates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spacy_pel.kb.numbering import EntityRows
from spacy_pel.search.evidence import EVIDENCE, evidence
from spacy_pel.search.parts import EXACT, NAMES, NGRAM, SIMILARITY
from spacy_pel.search.search import Scored

SAID = {SIMILARITY: "similarity", NAMES: "similarity of names", NGRAM: "3-grams", EXACT: "exact name"}
TEXTS = ["Aspirin", "MS", "42", "b12 deficiency", "x"]


def searched(counts, parts=(SIMILARITY, NGRAM, EXACT), gaps=0, seed=0):
    """Random scores, those of one query in a row, with the last query first and `gaps` between them."""
    rng = np.random.default_rng(seed)
    starts, n = np.empty(len(counts), dtype=np.int64), 0
    for query in reversed(range(len(counts))):
        starts[query] = n
        n += counts[query] + gaps
    own = {part: rng.random(n).astype(np.float32) for part in parts}
    if EXACT in own:
        own[EXACT] = np.where(own[EXACT] > 0.7, own[EXACT], 0).astype(np.float32)
    scores = rng.random(n).astype(np.float32)
    for start, count in zip(starts, counts, strict=True):
        scores[start : start + count] = -np.sort(-scores[start : start + count])
    return Scored(starts, np.array(counts), EntityRows(np.arange(n)), scores, own)


def expected(scored, query, text):
    start, count = scored.starts[query], scored.counts[query]
    scores = scored.scores[start : start + count].tolist()
    parts = {part: values[start : start + count].tolist() for part, values in scored.parts.items()}
    values = dict.fromkeys(EVIDENCE, 0.0)
    values["characters"] = math.log(1 + len(text))
    values["words"] = math.log(1 + len(text.split()))
    values["capitals"] = sum(one.isupper() for one in text) / max(len(text), 1)
    values["digits"] = sum(one.isdigit() for one in text) / max(len(text), 1)
    if scores:
        values["score"] = scores[0]
        values["lead over the next"] = scores[0] - scores[1] if count > 1 else 0.0
        values["lead over the mean of ten"] = scores[0] - sum(scores[:10]) / len(scores[:10])
        values["entities with the name"] = math.log(1 + sum(one > 0 for one in parts.get(EXACT, ())))
    for part, own in parts.items():
        if own:
            values[f"{SAID[part]} of the first"] = own[0]
        if own and part != EXACT:
            values[f"best {SAID[part]}"] = max(own)
    return [values[name] for name in EVIDENCE]


@pytest.mark.parametrize("parts", [(SIMILARITY,), (SIMILARITY, NGRAM, EXACT), (SIMILARITY, NAMES, NGRAM, EXACT)])
@pytest.mark.parametrize("gaps", [0, 3])
def test_it_is_what_the_candidates_say(parts, gaps):
    scored = searched([12, 0, 1, 30, 2], parts, gaps)
    table = evidence(scored, TEXTS)
    assert table.shape == (5, len(EVIDENCE)) and table.dtype == np.float32
    for query, text in enumerate(TEXTS):
        assert table[query].tolist() == pytest.approx(expected(scored, query, text), abs=1e-6), text


def test_a_last_query_without_candidates():
    scored = searched([0, 3, 0])
    assert evidence(scored, ["Ab", "c", ""]).tolist() == [
        pytest.approx(expected(scored, query, text), abs=1e-6) for query, text in enumerate(["Ab", "c", ""])
    ]


def test_nothing_found_at_all():
    assert not evidence(searched([0, 0]), ["a", "b"])[:, :-4].any()
