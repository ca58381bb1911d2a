"""Two mentions of which one stands in brackets behind the other."""

from __future__ import annotations

import sys

import pytest
import spacy
from spacy.tokens import Span

from spacy_pel.mentions.other_names import CLOSING, other_names

NLP = spacy.blank("en")


def mentions(marked, label="X"):
    """The mentions of a text that has each between bars."""
    texts = marked.split("|")
    doc, at, found = NLP.make_doc("".join(texts)), 0, []
    for i, text in enumerate(texts):
        if i % 2:
            found.append(doc.char_span(at, at + len(text), label=label))
        at += len(text)
    return found


def pairs(found):
    return {text: other.text for (text, _), other in other_names(found).items()}


@pytest.mark.parametrize(
    ("marked", "names"),
    [
        ("|CCNU| (|lomustine|) is toxic.", ["CCNU", "lomustine"]),
        ("|phlorizin| [|P|], then |P| again", ["phlorizin", "P"]),
        ("|diethylnitrosamine| (|DEN|: 10 mg/kg/day)", ["diethylnitrosamine", "DEN"]),
        ("|dizocilpine| (|MK-801|, 0.1 mg)", ["dizocilpine", "MK-801"]),
    ],
)
def test_names_of_one_thing(marked, names):
    found = mentions(marked)
    assert pairs(found) == dict([names, names[::-1]]) == pairs(found[::-1])


@pytest.mark.parametrize(
    "marked",
    [
        "|lithium| and |aspirin|",
        "|lithium|, (|aspirin|)",
        "|lithium| (as |aspirin|)",
        "|lithium| (|aspirin| and more)",
        "|anticonvulsants| (|phenobarbital|, |clonidine|)",
        "|signs| (|cyanosis|; |fits|) were seen",
        "|lithium|\n\n(|aspirin|)",
        "|lithium| (|lithium|)",
        "no mention (at all)",
    ],
)
def test_others(marked):
    assert not pairs(mentions(marked))


def test_labels_have_to_be_the_same():
    chemical, disease = mentions("|potassium| (|hyperkalemia|)")
    assert not pairs([chemical, Span(disease.doc, disease.start, disease.end, label="Disease")])


def test_a_mention_of_another_label_makes_no_list():
    drug, code, mouse = mentions("|dizocilpine| (|MK-801|, in |mice|)")
    assert pairs([drug, code, mouse]) == {}
    mouse.label_ = "Species"
    assert pairs([drug, code, mouse]) == {"dizocilpine": "MK-801", "MK-801": "dizocilpine"}


def test_each_label_has_its_own_names():
    found = mentions("|aspirin| (|T|) and |cyanosis| (|T|)")
    for one in found[2:]:
        one.label_ = "Y"
    assert other_names(found)["T", "X"].text == "aspirin" and other_names(found)["T", "Y"].text == "cyanosis"


def test_many_that_overlap():
    doc = NLP.make_doc("a " * 300 + "( " + "b " * 300 + ")")
    found = [doc[i:300] for i in range(300)] + [doc[301 : 302 + i] for i in range(300)]
    assert len(other_names(found)) == 301  # of each of the first, and of the longest of the others


def test_a_closing_bracket_is_looked_for_up_to_the_next_mention(monkeypatch):
    """To the end of the text, as there may be none, would take minutes for a long list of open brackets."""
    looked_at = []

    class Counting:
        def search(self, text, start, end=sys.maxsize):
            looked_at.append(min(end, len(text)) - start)
            return CLOSING.search(text, start, end)

    monkeypatch.setattr("spacy_pel.mentions.other_names.CLOSING", Counting())
    found = mentions("|aa| (|bb|, " * 500)
    assert len(other_names(found)) == 2  # of the last
    assert len(looked_at) >= 499 and sum(looked_at) < len(found[0].doc.text)


def test_the_first_counts():
    assert pairs(mentions("|testosterone| (|T|) and |thyroxine| (|T|)"))["T"] == "testosterone"


def test_spans_that_overlap():
    """Of those that begin in a bracket, that one which ends it."""
    (long, inside) = mentions("|CCNU| (|lomustine capsules|)")
    part = inside[0:1]
    part.label_ = "X"
    assert pairs([long, part, inside]) == {"CCNU": "lomustine capsules", "lomustine capsules": "CCNU"}
