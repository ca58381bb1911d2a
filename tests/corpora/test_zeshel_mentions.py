"""ZESHEL's mentions with their documents."""

from __future__ import annotations

import gzip
import re

import pytest
import spacy
from on_disk import write_lines
from typer.testing import CliRunner
from zeshel import MENTIONS, documents, id_of, mentions, write_zeshel

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import read_docs
from spacy_pel.corpora.zeshel import read_zeshel_mentions
from spacy_pel.errors import PelError
from spacy_pel.mentions.gold import gold_mentions

NLP = spacy.blank("en")


@pytest.fixture
def folder(tmp_path):
    return write_zeshel(tmp_path / "zeshel")


def test_a_document_with_its_mentions(folder, tmp_path):
    source, out = folder / "mentions" / "val.json", tmp_path / "val.spacy"
    result = CliRunner().invoke(pel_app, ["convert", str(source), str(out), "--format", "zeshel"])
    assert result.exit_code == 0, result.output
    docs = list(read_docs(out, NLP.vocab))
    assert [doc.user_data["document_id"] for doc in docs] == ["CORO0000", "MUPP0000"]
    assert docs[0].text == " ".join(documents("coronation_street")[0]["text"].split())
    found = [(m.span.text, m.span.label_, m.span.id_, m.ids) for m in gold_mentions(docs[1])]
    expected = [(form, "muppets", category, (id_of("muppets", i),)) for form, i, category in MENTIONS]
    assert found == expected
    assert [(ent.text, ent.kb_id_) for ent in docs[1].ents] == [(form, ids[0]) for form, _, _, ids in expected]


def test_packed_files(folder):
    for path in (folder / "documents" / "lego.json", folder / "mentions" / "test.json"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    docs = list(read_zeshel_mentions(folder / "mentions" / "test.json.gz", NLP))
    assert [len(gold_mentions(doc)) for doc in docs] == [4, 4]


def many(n):
    """Mentions, each with an id of its own."""
    return [{**one, "mention_id": str(number)} for number, one in enumerate(mentions("lego") * n)][:n]


def changed(**values):
    return {**mentions("lego")[0], **values}


BAD = [
    (changed(text="Aspirin"), "the words 1 to 1 of document 'LEGO0000' are 'aspirin', not 'Aspirin'; correct"),
    (changed(end_index=99), "the words 1 to 99 of document 'LEGO0000' are 'aspirin met"),
    (changed(end_index=0), "start_index 1 and end_index 0 are no words"),
    (changed(start_index="1"), "start_index '1' and end_index 1 are no words"),
    (changed(start_index=True), "start_index True"),
    (changed(label_document_id=""), '"label_document_id" is missing or empty; write {"context_document_id"'),
    (changed(corpus="moon"), 'documents has no world "moon"; put it there'),
    (changed(corpus="../documents/lego"), 'has no world "../documents/lego"'),
    (changed(context_document_id="X"), 'documents has no document "X"; put it there'),
    ([], "the line is not a JSON object"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_mention_that_is_not_right_is_left_out_and_named(folder, bad, message):
    good = many(120)
    path = write_lines(folder / "mentions" / "test.json", [*good, bad])
    with pytest.warns(UserWarning, match=re.escape(f"{path}:121: ") + ".*" + re.escape(message)):
        (doc,) = read_zeshel_mentions(path, NLP)
    assert len(gold_mentions(doc)) == 120
    with pytest.raises(PelError, match=re.escape(f"{path}:121: ") + ".*" + re.escape(message)):
        list(read_zeshel_mentions(path, NLP, strict=True))
    write_lines(path, [*good[:90], bad])
    with pytest.raises(PelError, match=r"Not right: 1 of 91 mentions\. More than 1 %"):
        list(read_zeshel_mentions(path, NLP))


def test_the_command_counts_what_it_leaves_out(folder, tmp_path):
    path = write_lines(folder / "mentions" / "test.json", [*many(120), BAD[0][0]])
    arguments = ["convert", str(path), str(tmp_path / "test.spacy"), "--format", "zeshel"]
    result = CliRunner().invoke(pel_app, arguments)
    assert result.exit_code == 0 and "Left out: 1 mentions that are not right" in result.output
    refused = CliRunner().invoke(pel_app, [*arguments, "--strict"])
    assert refused.exit_code == 1 and f"{path}:121" in refused.stderr


def test_a_document_that_is_not_right_costs_its_mentions(folder):
    documents_of = folder / "documents" / "lego.json"
    others = [{"document_id": f"X{i}", "title": "x", "text": "x"} for i in range(300)]
    write_lines(documents_of, [documents("lego")[0], *others, {"document_id": 7}])
    with pytest.warns(UserWarning, match=r'lego\.json:302: "document_id" is 7; make it a string'):
        assert len(list(read_zeshel_mentions(folder / "mentions" / "test.json", NLP))) == 2
    write_lines(documents_of, [{"document_id": 7}])
    with pytest.raises(PelError, match=r"lego\.json:1: .* Not right: 1 of 1 documents"):
        list(read_zeshel_mentions(folder / "mentions" / "test.json", NLP))


def test_an_id_for_the_second_time(folder):
    path = write_lines(folder / "mentions" / "test.json", [*many(120), {**many(1)[0], "text": "x"}])
    with pytest.warns(
        UserWarning, match=r'test\.json:121: the id "0" is that of line 1; give every mention its own id'
    ):
        assert [len(gold_mentions(doc)) for doc in read_zeshel_mentions(path, NLP)] == [120]
    documents_of, first = folder / "documents" / "lego.json", documents("lego")[0]
    others = [{"document_id": f"X{i}", "title": "x", "text": "x"} for i in range(200)]
    write_lines(documents_of, [first, *others, {**first, "text": "Another"}])
    write_lines(path, many(120))
    said = rf'lego\.json:202: the id "LEGO0000" is that of {documents_of}:1; give every document its own id'
    with pytest.warns(UserWarning, match=said):
        assert [len(gold_mentions(doc)) for doc in read_zeshel_mentions(path, NLP)] == [120]


def test_what_is_no_such_corpus(folder, tmp_path):
    lonely = write_lines(tmp_path / "alone" / "mentions" / "val.json", mentions("lego"))
    with pytest.raises(PelError, match=r"alone/documents is not there: lay ZESHEL out as it is published"):
        list(read_zeshel_mentions(lonely, NLP))
    empty = write_lines(folder / "mentions" / "val.json", [])
    with pytest.raises(PelError, match=r"val\.json holds no mention: write"):
        list(read_zeshel_mentions(empty, NLP))
