"""Docs of a `.spacy` file, on their way to a linker."""

import spacy
from spacy.tokens import Span, SpanGroup

from spacy_pel.corpora.docbin import write_docs
from spacy_pel.linking.stored import read_stored
from spacy_pel.linking.texts import GIVEN_GROUP, make_given_mentions

nlp = spacy.blank("en")


def test_a_group_comes_with_what_it_says_of_its_spans(tmp_path):
    doc = nlp("acute heart failure")
    spans = [Span(doc, 1, 3, label="X"), Span(doc, 0, 3, label="X", kb_id="D1")]
    doc.spans["sc"] = SpanGroup(doc, name="sc", attrs={"scores": [0.25, 0.75]}, spans=spans)
    write_docs(tmp_path / "docs.spacy", [doc])
    ((read, _),) = read_stored(tmp_path / "docs.spacy", nlp, "sc")
    del read.spans["sc"]  # as another component might
    group = make_given_mentions(nlp, "given", "sc")(read).spans["sc"]
    assert [(span.text, span.kb_id_) for span in group] == [("heart failure", ""), ("acute heart failure", "D1")]
    assert group.name == "sc" and group.attrs == {"scores": [0.25, 0.75]} and GIVEN_GROUP not in read.spans
