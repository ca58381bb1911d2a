"""Texts that a tokenizer would take hours for."""

from __future__ import annotations

import random
import re

import pytest
import spacy
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc

from spacy_pel.errors import PelError
from spacy_pel.mentions.tokens import STRETCHES, _cuts, tokenised

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


@pytest.mark.parametrize("text", ["She  took aspirin", " a\n\nb  ", "a b", "", "   "])
def test_white_space_that_a_tokenizer_loses_is_there(text):
    nlp = spacy.blank("en")
    nlp.tokenizer = lambda text: Doc(nlp.vocab, text.split())
    doc = tokenised(nlp, text)
    assert doc.text == text and [token.text for token in doc if not token.is_space] == text.split()


def test_a_tokenizer_that_changes_words_is_refused():
    nlp = spacy.blank("en")
    nlp.tokenizer = lambda text: Doc(nlp.vocab, text.lower().split())
    assert tokenised(nlp, "he").text == "he"
    with pytest.raises(PelError, match=r"makes 'she took ' of 'She  took', .* take one that changes no words"):
        tokenised(nlp, "She  took")


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


def test_a_stretch_that_begins_anywhere_gives_the_same_cuts(monkeypatch):
    anywhere = {
        re.compile(r"(?:(?:[^\w\s]|_)[^\W_]{0,2}){5,}"): 5,
        re.compile(r"\S{20,}"): 20,
    }
    from_its_beginning = {
        re.compile(pattern.pattern.replace("200,", "5,").replace("5000,", "20,")): size
        for pattern, size in zip(STRETCHES, anywhere.values(), strict=True)
    }
    rng, parted = random.Random(0), 0
    for _ in range(600):
        letters = rng.choice(["a(", "aé7(_ ", "aa(_-. \n", "a((((__", "(😀_aaaa "])
        text = "".join(rng.choice(letters) for _ in range(rng.randrange(120)))
        monkeypatch.setattr("spacy_pel.mentions.tokens.STRETCHES", anywhere)
        cuts = _cuts(text)
        monkeypatch.setattr("spacy_pel.mentions.tokens.STRETCHES", from_its_beginning)
        assert _cuts(text) == cuts
        parted += bool(cuts)
    assert parted > 200


@pytest.mark.timeout(100)
@pytest.mark.parametrize("almost, times", [("a" * 4_999, 5_000), ("(" * 199, 80_000)])
def test_stretches_that_are_nearly_long_enough_cost_no_more_than_others(almost, times):
    """Tried from each of their characters, these took minutes."""
    assert _cuts(f"{almost} " * times) == []


def test_a_tokenizer_of_the_user_s_own_gets_the_whole_text():
    nlp, texts = spacy.blank("en"), []
    nlp.tokenizer = lambda text: texts.append(text) or spacy.tokens.Doc(nlp.vocab, [text])
    tokenised(nlp, "(" * 9_000)
    assert [len(text) for text in texts] == [9_000]
