"""Lines with texts read into Docs, and what is said of those that cannot be."""

import json

import pytest
import spacy
from spacy.tokens import Doc

from spacy_pel.linking.texts import make_given_mentions, read_texts

nlp = spacy.blank("en")
TEXT = "Lithium-induced toxicity in 锂 🧪 users"


def read(*lines, format="jsonl", nlp=nlp):
    """The (Doc, line) pairs and the (number, message) of broken lines."""
    broken = []
    encoded = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    read = list(read_texts(encoded, format, nlp, lambda number, error: broken.append((number, str(error)))))
    return read, broken


def ents(doc):
    return [(ent.text, ent.label_) for ent in make_given_mentions(nlp, "given")(doc).ents]


def test_lines_come_with_what_they_had_and_where_they_end():
    read_lines, broken = read(b'{"text": "a", "id": 1}\r\n', b"\n", b'\xef\xbb\xbf{"text": "", "ents": null}')
    assert [(doc.text, line) for doc, line in read_lines] == [
        ("a", ({"text": "a", "id": 1}, 24)),
        ("", ({"text": "", "ents": None}, 54)),
    ]
    assert not broken


def test_plain_lines_end_at_a_line_feed_only():
    read_lines, broken = read("é\u2028{x}\u000b\r\n".encode(), b"  \n", b"\xe9t\xe9\n", b" last", format="txt")
    assert [line.record["text"] for _, line in read_lines] == ["é\u2028{x}\u000b", " last"]
    assert broken == [(3, "byte 1 of the line is not UTF-8; save the file as UTF-8")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "the line is not valid JSON"),
        (b"\xff\xfe{\x00\n", "not UTF-8"),
        (["text"], 'write {"text": …}'),
        ({"body": "x"}, '"text" is missing'),
        ({"text": None}, '"text" is missing'),
        ({"text": 5}, '"text" is 5; make it a string'),
        ({"text": "\ud800"}, "surrogate"),
        ({"text": "x" * 101}, "the text has 101 characters, and the limit is 100"),
        ({"text": TEXT, "ents": {}}, '"ents" is no list'),
        ({"text": TEXT, "ents": ["Lithium"]}, '"ents"[0] is no object'),
        ({"text": TEXT, "ents": [{"start": 0, "end": 7}, {"start": 8}]}, '"ents"[1]: start 8 and end None'),
        ({"text": TEXT, "ents": [{"start": -1, "end": 7}]}, '"ents"[0]: start -1 and end 7'),
        ({"text": TEXT, "ents": [{"start": True, "end": 7}]}, '"ents"[0]: start True and end 7'),
        ({"text": TEXT, "ents": [{"start": 7, "end": 7}]}, '"ents"[0]: start 7 and end 7'),
        ({"text": TEXT, "ents": [{"start": 0, "end": len(TEXT) + 1}]}, "are no span of the text"),
        ({"text": TEXT, "ents": [{"start": 15, "end": 16}]}, "only whitespace from 15 to 16"),
        ({"text": TEXT, "ents": [{"start": 0, "end": 7, "label": 3}]}, '"label" is 3; make it a string'),
        ({"text": TEXT, "ents": [{"start": 0, "end": 7, "text": "ithium-"}]}, "hold 'Lithium', not 'ithium-'"),
        ({"text": TEXT, "ents": [{"start": 0, "end": 7}, {"start": 3, "end": 9}]}, "'Lithium' and 'Lithium-induced'"),
        ({"text": TEXT, "ents": [{"start": 0, "end": 7}] * 2}, "overlap or share a token"),
    ],
)
def test_a_broken_line_is_said_to_be_and_passed_over(line, message):
    short = spacy.blank("en")
    short.max_length = 100
    read_lines, broken = read({"text": "first"}, line, {"text": "last"}, nlp=short)
    assert [doc.text for doc, _ in read_lines] == ["first", "last"]
    ((number, error),) = broken
    assert number == 2 and message in error


def test_mentions_for_a_group_may_overlap_and_keep_their_order():
    given = [{"start": 0, "end": 15}, {"start": 8, "end": 15}, {"start": 0, "end": 7}, {"start": 0, "end": 7}]
    lines = [json.dumps({"text": TEXT, "ents": given}).encode()]
    ((doc, _),) = read_texts(lines, "jsonl", nlp, pytest.fail, "sc")
    group = make_given_mentions(nlp, "given", "sc")(doc).spans["sc"]
    assert [span.text for span in group] == ["Lithium-induced", "induced", "Lithium", "Lithium"]


def test_given_mentions_are_widened_to_tokens_and_counted_in_characters():
    given = [
        *({"start": 28, "end": 29, "label": "X"}, {"start": 1, "end": 3, "label": ""}),
        *({"start": 30, "end": 32, "label": "Y", "text": "🧪 "},),
    ]
    ((doc, line),), broken = read({"text": TEXT, "ents": given})
    assert not broken and line.record["ents"] == given and not doc.ents
    assert ents(doc) == [("Lithium", "MENTION"), ("锂", "X"), ("🧪", "Y")]
    assert not doc.spans


@pytest.mark.parametrize("spans_key", [None, "sc"])
def test_given_mentions_stay_at_their_characters_where_tokens_are_merged(spans_key):
    given = [{"start": 0, "end": 7, "label": "X"}, {"start": 27, "end": 34, "label": "Y", "kb_id": "D1"}]
    lines = [json.dumps({"text": "Lithium after heart attack in mice today", "ents": given}).encode()]
    ((doc, _),) = read_texts(lines, "jsonl", nlp, pytest.fail, spans_key)
    doc = Doc(doc.vocab).from_bytes(doc.to_bytes())  # as on its way to another process
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[2:4])
        retokenizer.merge(doc[4:6])
    linked = make_given_mentions(nlp, "given", spans_key)(doc)
    spans = linked.ents if spans_key is None else linked.spans[spans_key]
    assert [(one.text, one.label_, one.kb_id_) for one in spans] == [("Lithium", "X", ""), ("in mice", "Y", "D1")]


def test_a_tokenizer_that_loses_white_space_moves_no_mention():
    splitting = spacy.blank("en")
    splitting.tokenizer = lambda text: Doc(splitting.vocab, text.split())
    lines = [{"text": "She   took\n\naspirin ", "ents": [{"start": 12, "end": 19}]}, {"text": "a  b"}]
    ((doc, _), (other, _)), broken = read(*lines, nlp=splitting)
    assert ents(doc) == [("aspirin", "MENTION")] and not broken
    assert [doc.text, other.text] == [line["text"] for line in lines]


def test_a_doc_without_given_mentions_keeps_its_entities():
    ((doc, _), (none, _)), _ = read({"text": "Lithium"}, {"text": "Lithium", "ents": []})
    for each in (doc, none):
        each.ents = [spacy.tokens.Span(each, 0, 1, label="FOUND")]
    assert ents(doc) == [("Lithium", "FOUND")]
    assert ents(none) == []


def test_many_given_mentions_join_the_text_of_their_doc_a_few_times_at_most(monkeypatch):
    """`doc.text` joins all tokens; once a mention would be the square of the length."""
    calls = []

    class Nlp:
        vocab, max_length = nlp.vocab, nlp.max_length

        class tokenizer:
            def __new__(cls, text):
                return Counted(nlp.vocab, [token.text for token in nlp(text)])

    class Counted(spacy.tokens.Doc):
        @property
        def text(self):
            calls.append(1)
            return super().text

    n = 50
    record = {"text": "aspirin " * n, "ents": [{"start": 8 * i, "end": 8 * i + 7} for i in range(n)]}
    ((doc, _),), broken = read(record, nlp=Nlp)
    assert not broken and len(ents(doc)) == n and len(calls) <= 2
