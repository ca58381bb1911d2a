"""Mention windows and entity rows, token by token."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import spacy
from tiny import write_encoder
from transformers import AutoTokenizer, BertTokenizer

from spacy_pel.errors import PelError
from spacy_pel.kb.entity import Entity
from spacy_pel.models.inputs import RowBuilder, RowSettings, add_markers, describe

NLP = spacy.blank("en")
SETTINGS = {"mention_length": 16, "entity_length": 16, "entity_template": "biomedical", "aliases": "fallback"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def make_builder(folder):
    def make(**settings):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        add_markers(tokenizer)
        return RowBuilder(tokenizer, RowSettings(**(SETTINGS | settings)))

    return make


def tokens(builder, row):
    return " ".join(builder.tokenizer.convert_ids_to_tokens(row.tolist()))


def mention(builder, text, surface, start=None):
    doc = NLP(text)
    start = text.index(surface) if start is None else start
    span = doc.char_span(start, start + len(surface), alignment_mode="expand")
    return tokens(builder, builder.mentions([span])[0])


def test_window(make_builder):
    builder = make_builder(mention_length=32)
    assert mention(builder, "She took aspirin after the fits .", "aspirin") == (
        "[CLS] she took [Ms] aspirin [Me] after the fits . [SEP]"
    )


def test_the_text_of_a_document_is_read_once_for_all_its_mentions(make_builder):
    """`doc.text` joins all tokens: read once a mention, it makes the mentions of a long document cost more."""

    class CountedDoc:
        text, n_read = "aspirin after aspirin after aspirin", 0

        def __getattribute__(self, name):
            CountedDoc.n_read += name == "text"
            return super().__getattribute__(name)

    doc = CountedDoc()
    spans = [SimpleNamespace(doc=doc, start_char=start, end_char=start + 7) for start in (0, 14, 28)]
    rows = make_builder().mentions(spans)
    assert len({tuple(row.tolist()) for row in rows}) == 3 and CountedDoc.n_read == 1


def test_mentions_at_the_very_start_and_end(make_builder):
    builder = make_builder()
    assert mention(builder, "aspirin was given", "aspirin") == "[CLS] [Ms] aspirin [Me] was given [SEP]"
    assert mention(builder, "she took aspirin", "aspirin") == "[CLS] she took [Ms] aspirin [Me] [SEP]"
    assert mention(builder, "aspirin", "aspirin") == "[CLS] [Ms] aspirin [Me] [SEP]"


def test_room_that_one_side_leaves_goes_to_the_other(make_builder):
    builder, left, right = make_builder(mention_length=12), "she took " * 9, " was given" * 9
    assert mention(builder, f"she aspirin{right}", "aspirin") == (
        "[CLS] she [Ms] aspirin [Me] was given was given was given [SEP]"
    )
    assert mention(builder, f"{left}aspirin was", "aspirin") == (
        "[CLS] she took she took she took [Ms] aspirin [Me] was [SEP]"
    )
    both = mention(builder, f"{left}aspirin{right}", "aspirin")
    assert both == "[CLS] took she took [Ms] aspirin [Me] was given was given [SEP]"


def test_a_mention_longer_than_the_window_keeps_its_beginning(make_builder):
    row = mention(
        make_builder(mention_length=8),
        "she took aspirin lithium in the newborn was given",
        "aspirin lithium in the newborn",
    )
    assert row == "[CLS] [Ms] aspirin lithium in the [Me] [SEP]"


def test_a_window_is_what_its_three_parts_give_one_by_one(make_builder):
    builder = make_builder(mention_length=64)
    text = "Anti-TNFalpha (10mg/kg) and β-blockers in naïve 患者 with\tCOVID\n-19."
    doc = NLP(text)
    encode = lambda part: builder.tokenizer(part, add_special_tokens=False).input_ids  # noqa: E731
    for start in range(len(doc)):
        for end in range(start + 1, len(doc) + 1):
            span = doc[start:end]
            parts = text[: span.start_char], text[span.start_char : span.end_char], text[span.end_char :]
            left, middle, right = map(encode, parts)
            row = builder.mentions([span])[0].tolist()
            if not middle:
                assert row == []
                continue
            ms, me = builder.tokenizer.convert_tokens_to_ids(["[Ms]", "[Me]"])
            cls, sep = builder.tokenizer.cls_token_id, builder.tokenizer.sep_token_id
            assert row == [cls, *left, ms, *middle, me, *right, sep]


def test_a_mention_inside_a_word_is_tokenised_by_itself(make_builder):
    doc = spacy.tokens.Doc(NLP.vocab, words=["10", "mg", "aspirin"], spaces=[False, True, False])
    builder = make_builder()
    assert tokens(builder, builder.mentions([doc[1:2]])[0]) == "[CLS] 1 ##0 [Ms] m ##g [Me] aspirin [SEP]"


def test_markers_in_the_text_are_text(make_builder):
    builder = make_builder(mention_length=32)
    row = mention(builder, "she [Me] took [SEP] aspirin", "aspirin").split()
    assert row.count("[Me]") == row.count("[SEP]") == row.count("[Ms]") == 1


@pytest.mark.parametrize("text", ["   ", "\n\t", "\x00\x01"])
def test_a_mention_without_word_pieces_has_an_empty_row(make_builder, text):
    doc = spacy.tokens.Doc(NLP.vocab, words=["she", text, "took"])
    assert len(make_builder().mentions([doc[1:2]])[0]) == 0


def test_mentions_of_many_docs_in_one_call(make_builder):
    builder, docs = make_builder(), [NLP("she took aspirin"), NLP("lithium was given")]
    rows = builder.mentions([docs[1][0:1], docs[0][2:3], docs[1][0:1]])
    assert rows[0].tolist() == rows[2].tolist() == builder.mentions([docs[1][0:1]])[0].tolist()
    assert tokens(builder, rows[1]) == "[CLS] she took [Ms] aspirin [Me] [SEP]"


ASPIRIN = Entity("1", "aspirin", ("heart fits", "Fits, heart"), ("Chemical", "Sign"), "thins the blood.")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "[CLS] aspirin [SEP] chemical , sign [SEP] thins the blood . [SEP]"),
        ({"entity_template": "general"}, "[CLS] aspirin [ENT] thins the blood . [SEP]"),
        (
            {"aliases": "first", "entity_length": 32},
            "[CLS] aspirin [SEP] chemical , sign [SEP] heart fits . thins the blood . [SEP]",
        ),
        ({"entity_length": 6}, "[CLS] aspirin [SEP] chemical , [SEP]"),
    ],
)
def test_entity_rows(make_builder, settings, expected):
    builder = make_builder(**settings)
    assert tokens(builder, builder.entities([ASPIRIN])[0]) == expected


def test_type_names_are_read_in_place_of_types(make_builder):
    builder = make_builder()
    coded = Entity("C1", "aspirin", types=("T109", "T184"), type_names=("chemical", "sign"))
    plain = Entity("C1", "aspirin", types=("chemical", "sign"))
    rows = builder.entities([coded, plain])
    assert tokens(builder, rows[0]) == tokens(builder, rows[1]) == "[CLS] aspirin [SEP] chemical , sign [SEP] [SEP]"


def test_aliases_stand_in_for_a_missing_description():
    bare = Entity("2", "Skin Diseases", ("Diseases, Skin", "dermatoses", "Dermatoses", "skin disease"))
    assert describe(bare, "fallback") == describe(bare, "first") == "dermatoses; skin disease"
    assert describe(bare, "never") == ""


def test_a_tokenizer_without_a_fast_version_is_refused(folder):
    with pytest.raises(PelError, match="BertTokenizer has no fast version"):
        add_markers(BertTokenizer(str(folder / "vocab.txt")))


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"mention_length": 4}, "mention_length"),
        ({"entity_template": "news"}, "entity_template"),
        ({"aliases": "all"}, "aliases"),
    ],
)
def test_settings_that_do_not_exist_are_named(settings, key):
    with pytest.raises(PelError, match=key):
        RowSettings(**(SETTINGS | settings))


def test_context(make_builder):
    text = "She took aspirin after the fits ."
    assert mention(make_builder(context=0), text, "aspirin") == "[CLS] [Ms] aspirin [Me] [SEP]"
    assert mention(make_builder(context=1), text, "aspirin") == "[CLS] took [Ms] aspirin [Me] after [SEP]"
    assert mention(make_builder(context=99), text, "aspirin") == mention(make_builder(), text, "aspirin")
    with pytest.raises(PelError, match=r"\[components.pel_linker.model\]: context = -1"):
        make_builder(context=-1)


class Counted:
    """A backend that counts the characters it is given."""

    def __init__(self, backend):
        self.backend, self.characters, self.calls = backend, 0, 0

    def encode_batch(self, texts, **options):
        self.calls += 1
        self.characters += sum(map(len, texts))
        return self.backend.encode_batch(texts, **options)


def split_words(n):
    """A Doc in which every other token begins and ends inside a word, and these tokens."""
    doc = spacy.tokens.Doc(NLP.vocab, ["pre", "aspirin", "s", "heart"] * n, [False, False, True, True] * n)
    return doc, [doc[4 * i + 1 : 4 * i + 2] for i in range(n)]


def test_mentions_inside_words_do_not_cost_the_whole_text_each(make_builder):
    """What is tokenised grows with the mentions, and not with the mentions times the text."""
    counts = []
    for n in (200, 800):
        _, spans = split_words(n)
        builder = make_builder()
        builder._backend = counted = Counted(builder._backend)
        builder.mentions(spans)
        assert counted.calls == 2
        counts.append(counted.characters)
    assert counts[1] < 4.5 * counts[0]


@pytest.mark.parametrize("context", [None, 2])
def test_a_mention_inside_a_word_is_read_as_if_the_whole_text_were_parted_there(make_builder, context):
    rng = random.Random(0)
    parts = [
        "aspirin",
        "heart",
        "attack",
        "a",
        "-",
        "(",
        "x" * 120,
        "患者",
        "é",
        "🧪",
        "\u200b",
        "\n",
        "10",
        "mg",
        "Li",
    ]
    builder = make_builder(context=context, mention_length=16)
    room = builder.settings.mention_length - 4
    checked = 0
    for _ in range(60):
        words = [rng.choice(parts) for _ in range(rng.randrange(1, 60))]
        doc = spacy.tokens.Doc(NLP.vocab, words, [rng.random() < 0.3 for _ in words])
        starts = [rng.randrange(len(words)) for _ in range(20)]
        spans = [doc[start : start + rng.choice([1, 2, 30])] for start in starts]
        for span, row in zip(spans, iter_rows(builder.mentions(spans))):
            text = doc.text
            pieces = [text[: span.start_char], span.text, text[span.end_char :]]
            left, mention, right = (
                builder.tokenizer.backend_tokenizer.encode(one, add_special_tokens=False).ids for one in pieces
            )
            if span.text == text[span.start_char : span.end_char] and mention:
                start, end = (row.index(marker) for marker in builder.markers)
                assert row[start + 1 : end] == mention[:room]
                assert (
                    row[1:start] == left[len(left) - (start - 1) :] and row[end + 1 : -1] == right[: len(row) - end - 2]
                )
                checked += 1
    assert checked > 500


def iter_rows(rows):
    return [rows[i].tolist() for i in range(len(rows))]
