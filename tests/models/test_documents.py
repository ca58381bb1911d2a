"""Documents read once for all their mentions: windows, spots in them, and vectors against hidden states by hand."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
import torch
from tiny import ENTITIES, links, make_docs, make_kb, make_pipeline, train, write_encoder
from transformers import AutoTokenizer

from spacy_pel.errors import PelError
from spacy_pel.models.bi_encoder import make_document_encoder, row_builder
from spacy_pel.models.encoder import tower_module
from spacy_pel.models.encoding import encode_mention_rows, encode_names, encode_spans
from spacy_pel.models.inputs import RowBuilder, RowSettings, add_markers
from spacy_pel.models.storage import fingerprint

NLP = spacy.blank("en")
DOCUMENTS = {"@architectures": "spacy_pel.BiEncoder.v1", "mentions": "document", "mention_length": 64}
LONG = "she took aspirin . the fits . the fever . he was given . " * 12


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def builder(encoder):
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    add_markers(tokenizer)
    return RowBuilder(tokenizer, RowSettings(24, 16, "biomedical", "fallback", mentions="document"))


@pytest.fixture
def pipeline(encoder, tmp_path):
    return make_pipeline(encoder, make_kb(tmp_path / "kb"), model=DOCUMENTS)


def places(text, surface):
    doc = NLP(text)
    starts = [i for i in range(len(text)) if text.startswith(surface, i)]
    return [doc.char_span(i, i + len(surface), alignment_mode="expand") for i in starts]


def pieces(builder, rows, mention):
    row, start, end = rows.spots[mention].tolist()
    return builder.tokenizer.convert_ids_to_tokens(rows.rows[row][start:end].tolist())


def test_one_row_a_document_without_markers(builder):
    rows = builder.mentions([*places("she took aspirin after the fits", "aspirin"), *places("the fits", "fits")])
    words = [builder.tokenizer.convert_ids_to_tokens(rows.rows[i].tolist()) for i in range(len(rows.rows))]
    assert words == [
        ["[CLS]", "she", "took", "aspirin", "after", "the", "fits", "[SEP]"],
        ["[CLS]", "the", "fits", "[SEP]"],
    ]
    assert rows.spots.tolist() == [[0, 3, 4], [1, 2, 3]] and len(rows) == 2


def test_windows_of_a_long_text(builder):
    spans = places(LONG, "fits")
    rows = builder.mentions(spans)
    assert rows.rows.lengths.max() <= 24
    assert all(pieces(builder, rows, i) == ["fits"] for i in range(len(spans)))
    firsts = [builder.tokenizer.convert_ids_to_tokens(int(rows.rows[i][1])) for i in range(len(rows.rows))]
    assert set(firsts) <= {"she", "the", "h"}  # of sentences
    margins = [min(start - 1, rows.rows.lengths[row] - 1 - end) for row, start, end in rows.spots.tolist()]
    assert min(margins[:-1]) >= 1  # with something of the text on either side; the last stands at its end


@pytest.mark.parametrize("text", ["fits " * 100, "fits" * 60, "fits . " * 50, ""])
def test_a_text_without_sentences_and_one_of_sentences_only(builder, text):
    spans = [*NLP(text)]
    rows = builder.mentions([token.doc[token.i : token.i + 1] for token in spans])
    assert len(rows) == len(spans) and (rows.lengths > 0).all()
    assert not len(rows) or rows.rows.lengths.max() <= 24


def test_the_sentences_of_the_doc_count(builder):
    doc = NLP("fits the " * 20)
    for token in doc:
        token.is_sent_start = token.i % 9 == 0
    rows = builder.mentions([doc[i : i + 1] for i in range(0, len(doc), 2)])
    starts = np.unique([builder.tokenizer.convert_ids_to_tokens(int(rows.rows[i][1])) for i in range(len(rows.rows))])
    n_pieces = [int(length) - 2 for length in rows.rows.lengths]
    assert set(starts) == {"fits", "the"} and n_pieces[0] == 18


def test_a_mention_longer_than_a_window_and_one_without_a_piece(builder):
    doc = NLP("the " + "fits " * 40 + "\n\n the")
    space = next(token.i for token in doc if token.is_space)
    rows = builder.mentions([doc[1:41], doc[space : space + 1]])
    assert rows.lengths.tolist() == [22, 0]


def states(model, row):
    transformer = tower_module(model.get_ref("mention_tower")).transformer.eval()
    with torch.no_grad():
        ids = torch.as_tensor(row.astype("int64"))[None]
        return transformer(ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0].numpy()


def test_a_vector_is_the_mean_over_the_pieces_of_the_mention(pipeline):
    nlp, linker, _, _ = pipeline
    rows = row_builder(linker.model).mentions([ent for doc in make_docs(nlp) for ent in doc.ents])
    for vector, (row, start, end) in zip(encode_mention_rows(linker.model, rows), rows.spots.tolist(), strict=True):
        mean = states(linker.model, rows.rows[row])[start:end].mean(0)
        assert vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


def test_distinct_mentions_are_those_in_equal_texts(pipeline):
    nlp, linker, _, _ = pipeline
    texts = ["aspirin after aspirin", "aspirin after aspirin", "aspirin"]
    spans = [
        token.doc[token.i : token.i + 1] for text in texts for token in nlp.make_doc(text) if token.text != "after"
    ]
    vectors, where = encode_spans(linker.model, spans)
    assert where[0] == where[2] and where[1] == where[3] and len(set(where.tolist())) == len(vectors) == 3
    alone = [encode_spans(linker.model, [span])[0][0] for span in spans]
    np.testing.assert_allclose(vectors[where], alone, atol=1e-5)


def test_a_name_is_a_mention_that_stands_alone(pipeline):
    nlp, linker, _, _ = pipeline
    by_name = encode_names(linker.model, ["aspirin", ""])
    np.testing.assert_allclose(by_name[0], encode_spans(linker.model, [nlp.make_doc("aspirin")[:]])[0][0], atol=1e-6)
    assert np.linalg.norm(by_name[1]) == pytest.approx(1)


def test_it_learns_links_and_is_read_back(pipeline, tmp_path):
    nlp, linker, examples, optimizer = pipeline
    losses = train(nlp, examples, optimizer, 30)
    assert losses[-1] < losses[0] / 2
    linker.index(progress=False)
    docs = make_docs(nlp)
    gold = [ent.kb_id_ for doc in docs for ent in doc.ents]
    known = {entity.id for entity in ENTITIES}
    found = [kb_id for doc in nlp.pipe(docs) for _, kb_id in links(doc)]
    assert np.mean([a == b for a, b in zip(found, gold, strict=True) if b in known]) > 0.9
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    assert again.get_pipe("pel_linker").model.attrs["settings"]["mentions"] == "document"
    assert [links(doc) for doc in again.pipe(make_docs(again))] == [links(doc) for doc in nlp.pipe(make_docs(nlp))]


def test_vectors_of_names_are_of_one_way_to_read_mentions(pipeline, encoder, tmp_path):
    _, linker, _, _ = pipeline
    _, other, _, _ = make_pipeline(encoder, make_kb(tmp_path / "other"), model=DOCUMENTS | {"mentions": "windows"})
    assert fingerprint(linker.model) == fingerprint(other.model)
    assert fingerprint(linker.model, "names") != fingerprint(other.model, "names")


def test_the_architecture_of_its_own(encoder, tmp_path):
    model = {"@architectures": "spacy_pel.DocumentEncoder.v1", "window": 48, "mention_length": None}
    nlp = spacy.blank("en")
    config = {"model": {key: value for key, value in model.items() if value is not None}}
    settings = nlp.add_pipe("pel_linker", config=config).model.attrs["settings"]
    assert settings["mentions"] == "document" and settings["mention_length"] == 48


@pytest.mark.parametrize(("settings", "named"), [({"mentions": "pages"}, "mentions"), ({"context": 8}, "context")])
def test_settings_that_do_not_go(settings, named):
    with pytest.raises(PelError, match=named):
        spacy.blank("en").add_pipe("pel_linker", config={"model": DOCUMENTS | settings})


@pytest.mark.parametrize("window", [0, 7, "384", None])
def test_a_window_is_refused_by_its_name(window):
    with pytest.raises(PelError, match=r"\[components\.pel_linker\.model\]: window = .*; it must be at least 8"):
        make_document_encoder(window=window)
