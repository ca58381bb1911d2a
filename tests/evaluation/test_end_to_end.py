"""End-to-end scores, counted by hand."""

from __future__ import annotations

import pytest
import spacy
from lookup_linker import Ids
from spacy.language import Language

from spacy_pel.evaluation.end_to_end import end_to_end


@Language.component("link_by_label")
def link_by_label(doc):
    for ent in doc.ents:
        for token in ent:
            token.ent_kb_id_ = ent.label_
    return doc


def make_gold(nlp, words, spans):
    doc = spacy.tokens.Doc(nlp.vocab, words=words)
    doc.ents = [spacy.tokens.Span(doc, i, j, label="X", kb_id=kb_id) for i, j, kb_id in spans]
    return doc


def test_strict_spans_and_ids():
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    patterns = {"aspirin": "D1", "fever": "D9", "heart failure": "D3", "warp drive": "NIL", "lungs": "D5"}
    ruler.add_patterns([{"label": kb_id, "pattern": text} for text, kb_id in patterns.items()])
    nlp.add_pipe("link_by_label")
    docs = [
        # right: aspirin (one of two ids), warp drive (its id is not in the KB); wrong: fever's id, heart failure's span
        make_gold(nlp, ["aspirin", "for", "fever"], [(0, 1, "D1|D2"), (2, 3, "D4")]),
        make_gold(nlp, ["acute", "heart", "failure", "on", "warp", "drive"], [(0, 3, "D3"), (4, 6, "D404")]),
        # lungs is no gold mention; unannotated ones do not count
        make_gold(nlp, ["lungs", "and", "toes"], [(2, 3, "")]),
    ]
    scores = end_to_end(nlp, docs, Ids({"D1", "D2", "D3", "D4", "D5"}))
    assert scores == {
        "end_to_end_precision": pytest.approx(2 / 5),
        "end_to_end_recall": pytest.approx(2 / 4),
        "end_to_end_f1": pytest.approx(2 * 0.4 * 0.5 / 0.9),
    }


def test_gold_mentions_of_one_span_are_one_with_the_ids_of_all():
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "D1", "pattern": "aspirin"}])
    nlp.add_pipe("link_by_label")
    doc = nlp.make_doc("aspirin")
    doc.spans["gold_mentions"] = [spacy.tokens.Span(doc, 0, 1, label="X", kb_id=kb_id) for kb_id in ("D1", "D2")]
    assert set(end_to_end(nlp, [doc], Ids({"D1", "D2"})).values()) == {1.0}


def test_right_entities_of_one_span_are_one():
    nlp = spacy.blank("en")

    @Language.component("both")
    def both(doc):
        doc.spans["sc"] = [spacy.tokens.Span(doc, 0, 1, label=kb_id, kb_id=kb_id) for kb_id in ("D1", "D2", "D3")]
        return doc

    nlp.add_pipe("both")
    gold = nlp.make_doc("aspirin helps")
    gold.spans["gold_mentions"] = [spacy.tokens.Span(gold, 0, 1, label=id_, kb_id=id_) for id_ in ("D1", "D2")]
    scores = end_to_end(nlp, [gold], Ids({"D1", "D2", "D3"}), "sc")
    assert scores == {"end_to_end_precision": 0.5, "end_to_end_recall": 1.0, "end_to_end_f1": pytest.approx(2 / 3)}


def test_a_pipeline_that_finds_nothing_has_no_precision():
    nlp = spacy.blank("en")
    scores = end_to_end(nlp, [make_gold(nlp, ["aspirin"], [(0, 1, "D1")])], Ids({"D1"}))
    assert scores == {"end_to_end_precision": None, "end_to_end_recall": 0.0, "end_to_end_f1": 0.0}


def test_what_stands_where_nobody_annotated_is_not_scored():
    """As long as no other gold mention of that span is annotated."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "D1", "pattern": text} for text in ("aspirin", "fever")])
    nlp.add_pipe("link_by_label")
    doc = nlp.make_doc("aspirin for fever")
    spans = ((0, "D1"), (2, ""), (0, ""))
    doc.spans["gold_mentions"] = [spacy.tokens.Span(doc, i, i + 1, label="X", kb_id=kb_id) for i, kb_id in spans]
    assert set(end_to_end(nlp, [doc], Ids({"D1"})).values()) == {1.0}
    doc.spans["gold_mentions"] = list(doc.spans["gold_mentions"])[1:2]
    assert end_to_end(nlp, [doc], Ids({"D1"}))["end_to_end_precision"] == 0.0  # aspirin is no gold mention now
