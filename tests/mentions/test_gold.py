"""Gold mentions out of Docs."""

import pytest
import spacy
from spacy.tokens import Span

from spacy_pel.mentions.gold import GOLD_GROUP, ambiguous_forms, gold_mentions


@pytest.fixture
def doc():
    return spacy.blank("en")("Lithium caused atrial flutter .")


@pytest.mark.parametrize(
    ("kb_id", "ids", "is_linked"),
    [("", (), False), ("NIL", ("NIL",), False), ("D001282", ("D001282",), True), ("D1|D2", ("D1", "D2"), True)],
)
def test_ids(doc, kb_id, ids, is_linked):
    doc.ents = [Span(doc, 2, 4, label="Disease", kb_id=kb_id)]
    (mention,) = gold_mentions(doc)
    assert mention.span.text == "atrial flutter"
    assert mention.ids == ids
    assert mention.is_linked is is_linked


def test_the_group_wins_over_the_entities_even_if_it_is_empty(doc):
    doc.ents = [Span(doc, 0, 1, label="Chemical", kb_id="D008094")]
    doc.spans[GOLD_GROUP] = [Span(doc, 2, 4, label="Disease", kb_id="D1"), Span(doc, 3, 4, label="Disease", kb_id="D2")]
    assert [mention.ids for mention in gold_mentions(doc)] == [("D1",), ("D2",)]
    doc.spans[GOLD_GROUP] = []
    assert gold_mentions(doc) == []


def test_ambiguous_forms():
    nlp = spacy.blank("en")

    def mentions(*pairs):
        for text, kb_id in pairs:
            doc = nlp(text)
            doc.ents = [Span(doc, 0, len(doc), label="X", kb_id=kb_id)]
            yield from gold_mentions(doc)

    two_entities = [("Cold", "D1"), ("cold", "D2")]
    entity_and_nil = [("MS", "D3"), ("MS", "NIL")]
    share_an_id = [("flu", "D4"), ("flu", "D4|D5")]
    unannotated = [("fever", "D6"), ("fever", "")]
    pairs = [*two_entities, *entity_and_nil, *share_an_id, *unannotated]
    assert ambiguous_forms(mentions(*pairs)) == {"cold", "ms"}
