"""`spacy pel convert` from the shell's side."""

import json

import pytest
import spacy
from commands import one_line, pel
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import read_docs, write_docs

PUBTATOR = """\
101|t|Lithium-induced atrial flutter
101|a|Toxicity of lithium carbonate was fatal.
101\t0\t7\tLithium\tChemical\tUMLS:C0023870
101\t1\t5\tithi\tChemical\tUMLS:C0023870
101\t16\t30\tatrial flutter\tDisease\tUMLS:C0004239|UMLS:C0003811
101\t43\t60\tlithium sulfate\tChemical\t-1
101\tCID\tC0023870\tC0004239
"""


def convert(source, out, *options):
    return CliRunner().invoke(pel_app, ["convert", str(source), str(out), "--format", "pubtator", *options])


def test_it_writes_the_corpus_and_says_what_it_met(tmp_path):
    source, out = tmp_path / "cdr.txt", tmp_path / "corpus" / "dev.spacy"
    source.write_text(PUBTATOR)
    result = convert(source, out, "--strip-prefix", "UMLS:")
    assert result.exit_code == 0, result.output
    (doc,) = read_docs(out, spacy.blank("en").vocab)
    assert [span.kb_id_ for span in doc.spans["gold_mentions"]] == ["C0023870", "C0023870", "C0004239|C0003811"]
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    for line in ("Documents 1", "Mentions 3", "Distinct ids 3", "with several ids 1", "widened to token boundaries 1"):
        assert line in lines
    assert "Left out: offsets do not hold the text 1" in lines
    assert "Left out: relation lines 1" in lines
    assert "lines 6" in " ".join(lines)  # a terminal's width may part the two


def test_what_comes_again_is_said(tmp_path):
    source = tmp_path / "cdr.txt"
    first = PUBTATOR.splitlines(keepends=True)[2]
    source.write_text(f"{PUBTATOR}{first}\n{PUBTATOR}")
    result = convert(source, tmp_path / "dev.spacy")
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert "Documents 1" in lines and "Mentions 3" in lines
    assert "Left out: mention lines that come again 1" in lines and "Left out: documents that come again 1" in lines
    said = " ".join(lines)
    assert "1 mentions are those of an earlier line of their document: lines 8" in said
    assert "1 documents have the id of an earlier one: lines 10" in said


def test_strict_stops_with_one_line_and_writes_nothing(tmp_path):
    source, out = tmp_path / "cdr.txt", tmp_path / "dev.spacy"
    source.write_text(PUBTATOR)
    result = convert(source, out, "--strict")
    assert result.exit_code == 1
    assert f"{source}:6: offsets 43-60 hold 'lithium carbonate', not 'lithium sulfate'" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == [source]


def test_bad_arguments_are_one_line_each(tmp_path):
    source = tmp_path / "cdr.txt"
    source.write_text(PUBTATOR)
    for result, error in [
        (
            convert(tmp_path / "none.txt", tmp_path / "dev.spacy"),
            f"✘ {tmp_path / 'none.txt'} does not exist: name a corpus",
        ),
        (convert(source, tmp_path / "dev.bin"), "must end in .spacy"),
        (convert(source, tmp_path / "dev.spacy", "--fold", "2"), "give --held-out FILE too"),
        (convert(source, tmp_path / "dev.spacy", "--lang", "qqq"), "--lang qqq"),
    ]:
        assert result.exit_code == 1
        assert error in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize("format", ["pubtator", "jsonl", "zeshel", "kilt"])
def test_a_folder_where_a_file_is_wanted(tmp_path, format):
    (tmp_path / "source").mkdir()
    line = one_line(pel("convert", tmp_path / "source", tmp_path / "out.spacy", "--format", format))
    assert f"source is a folder: name a file of the format {format}" in line


def test_the_tokens_are_those_of_the_language(tmp_path):
    source, out = tmp_path / "notes.txt", tmp_path / "dev.spacy"
    source.write_text("1|t|HF-Patient\n1|a|\n1\t0\t2\tHF\tDisease\tD1\n")
    for lang, text in (("en", "HF"), ("de", "HF-Patient")):
        assert convert(source, out, "--lang", lang).exit_code == 0
        (doc,) = read_docs(out, spacy.blank(lang).vocab)
        assert [span.text for span in doc.spans["gold_mentions"]] == [text]


def texts(path):
    return [doc.text for doc in read_docs(path, spacy.blank("en").vocab)]


def test_every_fold_th_document_can_be_held_out(tmp_path):
    source, out, held_out = tmp_path / "cdr.txt", tmp_path / "train.spacy", tmp_path / "dev.spacy"
    source.write_text("".join(f"{i}|t|Title {i}\n\n" for i in range(7)))
    result = convert(source, out, "--held-out", str(held_out), "--fold", "3")
    assert result.exit_code == 0, result.output
    assert texts(held_out) == ["Title 0", "Title 3", "Title 6"]
    assert texts(out) == ["Title 1", "Title 2", "Title 4", "Title 5"]
    again = CliRunner().invoke(
        pel_app, ["convert", str(out), str(tmp_path / "part.spacy"), "--format", "spacy", "--held-out", str(held_out)]
    )
    assert again.exit_code == 0, again.output
    assert texts(held_out) == ["Title 1"] and len(texts(tmp_path / "part.spacy")) == 3


def test_no_file_is_two_of_those_that_are_named(tmp_path):
    source, out = tmp_path / "cdr.txt", tmp_path / "train.spacy"
    source.write_text("".join(f"{i}|t|Title {i}\n\n" for i in range(7)))
    both = convert(source, out, "--held-out", str(tmp_path / "." / "train.spacy"))
    assert both.exit_code == 1 and "is both OUT and --held-out" in both.stderr and not out.exists()
    assert convert(source, out).exit_code == 0
    for arguments, names in [
        ((out, tmp_path / "dev.spacy", "--held-out", out), "SOURCE and --held-out"),
        ((out, out), "SOURCE and OUT"),
    ]:
        result = CliRunner().invoke(pel_app, ["convert", *map(str, arguments)])
        assert result.exit_code == 1 and f"is both {names}" in result.stderr
    assert len(texts(out)) == 7 and not (tmp_path / "dev.spacy").exists()
    for arguments in ((tmp_path / "new.spacy",), (tmp_path.parent / "new.spacy", "--held-out", tmp_path / "new.spacy")):
        result = CliRunner().invoke(pel_app, ["convert", str(tmp_path), *map(str, arguments)])
        assert result.exit_code == 1 and "would be read with it" in result.stderr
    assert not (tmp_path / "new.spacy").exists() and not (tmp_path.parent / "new.spacy").exists()


def test_where_it_cannot_write_is_said_before_it_reads(tmp_path):
    (tmp_path / "cdr.txt").write_text("no PubTator")
    (tmp_path / "a.spacy").mkdir()
    for out, more, message in [
        ("out.jsonl", (), "must end in .spacy"),
        ("a.spacy", (), "is no file that could be replaced"),
        ("out.spacy", ("--held-out", str(tmp_path / "dev.bin")), "dev.bin must end in .spacy"),
    ]:
        result = convert(tmp_path / "cdr.txt", tmp_path / out, *more)
        assert result.exit_code == 1 and message in result.stderr
    assert not (tmp_path / "out.spacy").exists()


def test_a_corpus_without_documents(tmp_path):
    write_docs(tmp_path / "empty.spacy", [])
    result = CliRunner().invoke(pel_app, ["convert", str(tmp_path / "empty.spacy"), str(tmp_path / "out.spacy")])
    assert result.exit_code == 1 and "empty.spacy has no document" in result.stderr
    assert not (tmp_path / "out.spacy").exists()


def test_one_document_cannot_be_parted(tmp_path):
    source = tmp_path / "cdr.txt"
    source.write_text(PUBTATOR)
    result = convert(source, tmp_path / "train.spacy", "--held-out", str(tmp_path / "dev.spacy"))
    assert result.exit_code == 1 and "has one document" in result.stderr
    assert list(tmp_path.iterdir()) == [source]


def test_corrected_links_are_a_corpus(tmp_path):
    source, out = tmp_path / "linked.jsonl", tmp_path / "mine.spacy"
    source.write_text('{"text": "MS, again", "ents": [{"start": 0, "end": 2, "kb_id": "C0026269"}]}\n')
    result = CliRunner().invoke(pel_app, ["convert", str(source), str(out)])
    assert result.exit_code == 0, result.output
    (doc,) = read_docs(out, spacy.blank("en").vocab)
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("MS", "C0026269")]


def test_mentions_whose_id_has_another_name_are_counted(tmp_path):
    source = tmp_path / "mine.jsonl"
    ents = [{"start": 0, "end": 5, "kb_id": "D1"}, {"start": 6, "end": 9, "cui": "D2"}]
    source.write_text(json.dumps({"text": "Fever and", "ents": ents}) + "\n")
    result = CliRunner().invoke(pel_app, ["convert", str(source), str(tmp_path / "out.spacy")])
    assert result.exit_code == 0 and "1 of 2 mentions have no id" in " ".join(result.output.split())
    source.write_text(source.read_text().replace("cui", "kb_ID"))
    result = CliRunner().invoke(pel_app, ["convert", str(source), str(tmp_path / "out.spacy")])
    assert result.exit_code == 1 and 'has "kb_ID"; did you mean "kb_id"?' in " ".join(result.output.split())


def test_a_suffix_that_does_not_tell(tmp_path):
    result = CliRunner().invoke(pel_app, ["convert", str(tmp_path / "cdr.txt"), str(tmp_path / "mine.spacy")])
    assert result.exit_code == 1 and "say --format pubtator, jsonl, spacy, zeshel or kilt" in result.stderr
