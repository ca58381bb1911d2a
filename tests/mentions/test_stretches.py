"""Stretches of tokens with normalised forms: those of their texts, however the text is tokenised."""

from __future__ import annotations

import random

import pytest
import spacy
from spacy.tokens import Doc

from spacy_pel.kb.names.normal_form import normalized
from spacy_pel.mentions.stretches import stretches

NLP = spacy.blank("en")
PIECES = [
    "IL",
    "-",
    "2",
    "heart",
    "Failure",
    "'s",
    "(",
    "ﬁts",
    "Straße",
    "α",
    "_",
    "™",
    "心筋",
    "İzmir",
    ".",
    "\n",
    "💔",
    "½",
    "दिल",
    "ไข้",
    "❤️",
]


def words(*texts: str, spaces: list[bool] | None = None) -> Doc:
    return Doc(NLP.vocab, words=list(texts), spaces=spaces)


@pytest.mark.parametrize("seed", range(5))
def test_each_has_the_normalised_form_of_its_text(seed):
    rng = random.Random(seed)
    tokens = rng.choices(PIECES, k=60)
    doc = words(*tokens, spaces=rng.choices([True, False], k=60))
    found = list(stretches(doc, 6))
    assert len(found) > 100
    for one in found:
        assert one.form == normalized(doc[one.start : one.end].text)


@pytest.mark.parametrize(
    "text, closed",
    [
        ("It binds iron(II) here", ["iron(II)", "binds iron(II)", "It binds iron(II)"]),
        ("(R)-warfarin", ["(R)-warfarin"]),
        ("cell (CD4 +) count", ["cell (CD4 +)", "(CD4 +) count"]),
        ("(* R)-warfarin", ["(* R)-warfarin"]),
        (":( ) a", []),
        ("poly(ADP(ribose))", ["poly(ADP(ribose))"]),
        ("(vitamin D)", []),
        ("a) b (c", []),
        ("[x) y]", []),
    ],
)
def test_the_brackets_of_brackets_within_belong_to_a_stretch_too(text, closed):
    doc = NLP(text)
    found = {doc[one.start : one.end].text: one.form for one in stretches(doc, 6)}
    assert sorted(text for text in found if text[-1] in ")]" or text[0] in "([") == sorted(closed)
    assert all(form == normalized(text) for text, form in found.items())


def test_a_stretch_with_its_brackets_has_no_more_tokens_than_may_be():
    doc = words("iron", "(", "II", ")")
    assert [(one.start, one.end) for one in stretches(doc, 3)] == [(0, 1), (0, 3), (2, 3)]


@pytest.mark.parametrize("seed", range(3))
def test_all_that_begin_and_end_with_a_word_are_there(seed):
    rng = random.Random(seed)
    doc = words(*rng.choices(["a", "b", "-", "!"], k=30))
    is_word = [token.text.isalpha() for token in doc]
    expected = {(i, j) for i in range(30) for j in range(i + 1, min(i + 4, 30) + 1) if is_word[i] and is_word[j - 1]}
    found = [(one.start, one.end) for one in stretches(doc, 4)]
    assert set(found) == expected and len(found) == len(expected)


def test_the_same_text_in_one_token_or_in_three():
    one, three = words("IL-2", "level"), words("IL", "-", "2", "level", spaces=[False, False, True, False])
    assert {s.form for s in stretches(one, 5)} == {"il 2", "level", "il 2 level"}
    assert {s.form for s in stretches(three, 5)} >= {"il 2", "level", "il 2 level"}
    split = words("10", "mg", spaces=[False, False])
    assert {s.form for s in stretches(split, 2)} == {"10", "mg", "10mg"}


@pytest.mark.parametrize("texts", [[], ["."], ["\n", "-"]])
def test_without_a_word_there_are_none(texts):
    assert list(stretches(words(*texts), 5)) == []
