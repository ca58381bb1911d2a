"""Texts that a tokenizer would take hours for."""

from __future__ import annotations

import random

import pytest
import spacy
from spacy.tokenizer import Tokenizer

from spacy_pel.mentions.tokens import tokenised

NLP = spacy.blank("en")


@pytest.fixture
def given(monkeypatch):
    """The lengths of the texts that spaCy's tokenizer gets."""
    lengths = []

    class Counting(Tokenizer):
        def __call__(self, text):
            lengths.append(len(text))
            return super().__call__(text)

    nlp = spacy.blank("en")
    rules = nlp.tokenizer
    nlp.tokenizer = Counting(
        nlp.vocab,
        rules.rules,
        rules.prefix_search,
        rules.suffix_search,
        rules.infix_finditer,
        url_match=rules.url_match,
    )
    return nlp, lengths


@pytest.mark.parametrize("unit", ["(", "'s", "😀", "=", "US$"])
def test_runs_of_marks_are_tokenised_piece_by_piece(given, unit):
    """One of 20,000 marks took a minute and more: each is taken off with a look at all that is left."""
    nlp, lengths = given
    text = f"She took {unit * 5_000} daily."
    assert tokenised(nlp, text).text == text
    assert max(lengths) <= 220 and sum(lengths) == len(text)


def test_stretches_without_a_space_are_bounded(given):
    nlp, lengths = given
    text = "http://" * 5_000
    assert tokenised(nlp, text).text == text and max(lengths) <= 5_000


def test_other_texts_are_parted_as_ever(given):
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choice("ab \n.,('\"-😀é") for _ in range(rng.randrange(300)))
        assert [token.text_with_ws for token in tokenised(NLP, text)] == [token.text_with_ws for token in NLP(text)]
    nlp, lengths = given
    tokenised(nlp, "A url http://example.org/a-b_c?d=e, and ----- and (a) [b] {c}.")
    assert len(lengths) == 1


def test_a_tokenizer_of_the_user_s_own_gets_the_whole_text():
    nlp, texts = spacy.blank("en"), []
    nlp.tokenizer = lambda text: texts.append(text) or spacy.tokens.Doc(nlp.vocab, [text])
    tokenised(nlp, "(" * 9_000)
    assert [len(text) for text in texts] == [9_000]
