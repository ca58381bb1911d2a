"""`spacy pel link` with codes, of Docs in a `.spacy` file, in several processes, and what it does not write."""

from __future__ import annotations

import json
from functools import partial

import pytest
import spacy
import srsly
from commands import pel
from spacy.tokens import Span
from tiny import SENTENCES, make_linking, with_codes

from spacy_pel.corpora.docbin import read_docs, write_docs
from spacy_pel.errors import PelError
from spacy_pel.linking import LinkBatch

CODES = {"D009203": ("ICD10CM:I21", "MSH:D009203"), "D001241": ("RXNORM:1191", "ICD10CM:T39.01", "ICD10CM:Z79.82")}
link = partial(pel, "link")


@pytest.fixture(scope="module")
def linker(tmp_path_factory):
    path = tmp_path_factory.mktemp("link-codes")
    make_linking(path, with_codes(CODES)).to_disk(path / "linker")
    return path / "linker"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{sentence}\n" for sentence, _ in SENTENCES), encoding="utf-8")
    return path


def links(path):
    return [[(ent["text"], ent["kb_id"]) for ent in record["ents"]] for record in srsly.read_jsonl(path)]


def test_each_mention_has_its_codes(linker, source, tmp_path):
    out, again = tmp_path / "out.jsonl", tmp_path / "again.jsonl"
    assert link(linker, source, out, "--codes", "ICD10CM,RXNORM").exit_code == 0
    records = list(srsly.read_jsonl(out))
    assert [ent["codes"] for ent in records[0]["ents"]] == [
        {"ICD10CM": ["T39.01", "Z79.82"], "RXNORM": ["1191"]},
        {"ICD10CM": ["I21"], "RXNORM": []},
    ]
    assert records[1]["ents"][0]["codes"] == {"ICD10CM": [], "RXNORM": []}
    assert link(linker, out, again).exit_code == 0  # what was written can be read
    assert links(again) == links(out) and "codes" not in next(srsly.read_jsonl(again))["ents"][0]


def test_a_folder_has_them_in_lines_and_in_tables(linker, source, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    folder, out, expected = tmp_path / "in", tmp_path / "linked", tmp_path / "out.jsonl"
    folder.mkdir()
    texts = source.read_text().splitlines()
    srsly.write_jsonl(folder / "a.jsonl", [{"text": text} for text in texts])
    parquet.write_table(pyarrow.table({"text": texts}), folder / "b.parquet")
    assert link(linker, source, expected, "--codes", "ICD10CM,RXNORM").exit_code == 0
    result = link(linker, folder, out, "--codes", "ICD10CM,RXNORM")
    assert result.exit_code == 0, result.output
    by_hand = [[ent["codes"] for ent in record["ents"]] for record in srsly.read_jsonl(expected)]
    lines = list(srsly.read_jsonl(out / "a.jsonl"))
    rows = parquet.read_table(out / "b.parquet").to_pylist()
    for linked in (lines, rows):
        assert [[ent["codes"] for ent in record["ents"]] for record in linked] == by_hand
    for codes in (("--codes", "ICD10CM"), ()):
        result = link(linker, folder, out, *codes)
        assert result.exit_code == 1 and "with other settings (codes)" in result.stderr
    result = link(linker, folder, tmp_path / "other", "--codes", "ICD9")
    assert result.exit_code == 1 and 'vocabulary "ICD9"' in result.stderr and not (tmp_path / "other").exists()


def test_batches_have_them(linker):
    text = SENTENCES[0][0]
    batch = LinkBatch(str(linker), codes=["RXNORM"])({"text": [text, None]})
    assert [ent["codes"] for ent in batch["ents"][0]] == [{"RXNORM": ["1191"]}, {"RXNORM": []}]
    assert batch["ents"][1] is None
    with pytest.raises(PelError, match='vocabulary "ICD9"'):
        LinkBatch(str(linker), codes=["ICD9"])({"text": [text]})
    with pytest.raises(PelError, match="codes = 'RXNORM' is one text"):
        LinkBatch(str(linker), codes="RXNORM")


def test_a_vocabulary_that_no_entity_has_is_said_before_anything_is_linked(linker, source, tmp_path):
    for codes, out, error in (
        (
            "ICD10CM,ICD9",
            "out.jsonl",
            'vocabulary "ICD9"; the commonest vocabularies are ICD10CM, MSH, RXNORM',
        ),
        (" ", "out.jsonl", "names no vocabulary"),
        ("ICD10CM", "out.spacy", "no place for --codes"),
    ):
        result = link(linker, source, tmp_path / out, "--codes", codes)
        assert result.exit_code == 1 and error in result.stderr and result.stderr.count("✘") == 1
        assert not (tmp_path / out).exists()


@pytest.mark.parametrize("name", ["out.csv", "out.json", "out.parquet"])
def test_a_name_that_is_none_of_ours_is_refused(linker, source, tmp_path, name):
    result = link(linker, source, tmp_path / name)
    assert result.exit_code == 1 and "is written here, but lines of JSON" in result.stderr
    assert not (tmp_path / name).exists()


def test_docs_of_a_spacy_file(linker, tmp_path):
    nlp = spacy.blank("en")
    docs = [nlp(SENTENCES[0][0]) for _ in range(3)]
    docs[0].ents = [Span(docs[0], 2, 3, label="DRUG", kb_id="old")]
    docs[1].set_ents([])
    write_docs(tmp_path / "docs.spacy", docs)
    assert link(linker, tmp_path / "docs.spacy", tmp_path / "out.jsonl").exit_code == 0
    aspirin, attack = ("aspirin", "D001241"), ("heart attack", "D009203")
    assert links(tmp_path / "out.jsonl") == [[aspirin], [], [aspirin, attack]]
    assert next(srsly.read_jsonl(tmp_path / "out.jsonl"))["text"] == SENTENCES[0][0]
    assert link(linker, tmp_path / "docs.spacy", tmp_path / "out.spacy").exit_code == 0
    first = next(read_docs(tmp_path / "out.spacy", nlp.vocab))
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in first.ents] == [("aspirin", "DRUG", "D001241")]
    (tmp_path / "odd.spacy").write_bytes(b"odd")
    assert "is not a .spacy corpus" in link(linker, tmp_path / "odd.spacy", tmp_path / "odd.jsonl").stderr
    assert "not read from standard input" in link(linker, "-", "-", "--format", "spacy", input=b"").stderr


def test_processes_give_what_one_gives(linker, source, tmp_path):
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    given = {"text": "It was fits .", "ents": [{"start": 7, "end": 11}], "n": 7}
    lines = [json.dumps({"text": text}) for text in source.read_text(encoding="utf-8").splitlines()]
    (tmp_path / "texts.jsonl").write_text("\n".join([*lines, "odd", json.dumps(given)]), encoding="utf-8")
    how = (tmp_path / "texts.jsonl", "--batch-size", 2, "--codes", "ICD10CM")
    assert link(linker, how[0], one, *how[1:]).exit_code == 0
    result = link(linker, how[0], two, *how[1:], "--n-process", 2)
    assert result.exit_code == 0 and "texts.jsonl:7:" in result.stderr, result.output
    assert links(one) == links(two) and list(srsly.read_jsonl(two))[-1]["n"] == 7


def test_what_a_process_raises_is_one_line(linker, source, tmp_path):
    spacy.load(linker, config={"components.pel_linker.types": ["Nothing"]}).to_disk(tmp_path / "linker")
    result = link(tmp_path / "linker", source, tmp_path / "out.jsonl", "--n-process", 2)
    last = result.stderr.splitlines()[-1]
    assert result.exit_code == 1 and 'no entity has the type "Nothing"' in last and "PelError" not in last
    nlp = spacy.load(linker)
    nlp.add_pipe("doc_cleaner", config={"attrs": {"text": None}})  # which cannot be set
    nlp.to_disk(tmp_path / "linker")
    result = link(tmp_path / "linker", source, tmp_path / "out.jsonl", "--n-process", 2)
    assert result.exit_code == 1 and len(result.stderr.strip().splitlines()) == 1
    assert "A process has failed: AttributeError" in result.stderr
