"""`.spacy` files and the errors that name them."""

import zlib

import pytest
import spacy
import srsly
from spacy.tokens import DocBin, Span

from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.errors import PelError

nlp = spacy.blank("en")


def test_docs_come_back_from_a_file_and_from_a_folder(tmp_path):
    texts = ["Lithium toxicity.", "", "锂中毒"]
    write_docs(tmp_path / "deep" / "a.spacy", map(nlp, texts))
    write_docs(tmp_path / "b.spacy", [nlp("Aspirin.")])
    assert [doc.text for doc in read_docs(tmp_path / "deep" / "a.spacy", nlp.vocab)] == texts
    assert sorted(doc.text for doc in read_docs(tmp_path, nlp.vocab)) == sorted([*texts, "Aspirin."])


def test_a_failing_source_leaves_the_old_file_as_it_was(tmp_path):
    def docs():
        yield nlp("Lithium")
        raise PelError("broken")

    path = tmp_path / "a.spacy"
    path.write_bytes(b"old")
    with pytest.raises(PelError, match="broken"):
        write_docs(path, docs())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PelError, match=r"none\.spacy does not exist"):
        list(read_docs(tmp_path / "none.spacy", nlp.vocab))


def test_a_folder_without_corpora_is_named(tmp_path):
    with pytest.raises(PelError, match=str(tmp_path)):
        list(read_docs(tmp_path, nlp.vocab))


@pytest.mark.parametrize("cut", [None, 0, 40])
def test_a_foreign_empty_or_truncated_file_is_named(tmp_path, cut):
    path = tmp_path / "bad.spacy"
    path.write_bytes(
        b"6794356|t|Tricuspid" if cut is None else DocBin(docs=[nlp("Lithium toxicity.")]).to_bytes()[:cut]
    )
    with pytest.raises(PelError, match=r"bad\.spacy is not a \.spacy corpus"):
        list(read_docs(path, nlp.vocab))


def test_a_name_that_spacy_would_pass_over_is_refused(tmp_path):
    with pytest.raises(PelError, match=r"out\.bin must end in \.spacy"):
        write_docs(tmp_path / "out.bin", [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lost", ["aspirin", "D001241", "DRUG"])
def test_a_file_that_names_strings_it_lacks_is_one_error(tmp_path, lost):
    """It is decoded Doc by Doc, and spaCy finds out when the string is asked for."""
    nlp, path = spacy.blank("en"), tmp_path / "in.spacy"
    doc = nlp("She took aspirin")
    doc.spans["gold_mentions"] = [Span(doc, 2, 3, label="DRUG", kb_id="D001241")]
    stored = srsly.msgpack_loads(zlib.decompress(DocBin(docs=[doc]).to_bytes()))
    stored["strings"] = [string for string in stored["strings"] if string != lost]
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(stored)))
    with pytest.raises(PelError, match=r"in\.spacy is not a \.spacy corpus"):
        list(read_docs(path, spacy.blank("de").vocab))
