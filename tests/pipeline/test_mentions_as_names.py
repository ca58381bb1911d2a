"""Names that a KB learns from annotated mentions."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import spacy
from spacy.tokens import Span
from tiny import make_docs, make_kb, make_pipeline, write_encoder
from typer.testing import CliRunner

from spacy_pel.cli import pel_app
from spacy_pel.corpora.docbin import write_docs
from spacy_pel.errors import PelError
from spacy_pel.kb.knowledge_base import KnowledgeBase
from spacy_pel.mentions.gold import GOLD_GROUP
from spacy_pel.pipeline import indexing
from spacy_pel.search.parts import EXACT

CHEST, SHAKING = "crushing chest", "Shaking"
SENTENCES = [
    (f"He had a {CHEST} at night .", {CHEST: "D009203"}),
    (f"{SHAKING} was seen , and a shaking .", {SHAKING: "D012640", "shaking": "D012640"}),
    ("Fits came with aspirin .", {"Fits": "D012640", "aspirin": "D001241"}),  # names that they have
    ("A tremor , a spell or --- .", {"tremor": "NIL", "spell": "D012640|D009203", "---": "D003490"}),
    ("She turned bluish .", {"bluish": "D003490"}),
    ("Wheezing was new .", {"Wheezing": "ELSEWHERE"}),
]


@pytest.fixture
def pipeline(tmp_path):
    nlp, linker, *_ = make_pipeline(write_encoder(tmp_path / "encoder"), make_kb(tmp_path / "kb"))
    linker.index(progress=False)
    nlp.to_disk(tmp_path / "linker")
    return spacy.load(tmp_path / "linker")


def aliases(kb) -> dict[str, tuple[str, ...]]:
    return {entity.id: entity.aliases for entity in kb.entities()}


def kb_of(path):
    return spacy.load(path).get_pipe("pel_linker").kb


def vectors_of(kb) -> dict[str, np.ndarray]:
    return {id_: kb.entity_index().vectors_of(np.array([row])).vectors for id_, row in kb.rows(kb).items()}


def test_entities_get_the_texts_that_are_no_names_of_theirs(pipeline):
    linker = pipeline.get_pipe("pel_linker")
    before, (doc,) = aliases(linker.kb), make_docs(pipeline, SENTENCES[:1])
    assert linker.find(list(doc.ents), 12)[0].parts[EXACT].max() == 0
    vectors = vectors_of(linker.kb)
    assert linker.learn_names(make_docs(pipeline, SENTENCES)) == (3, 3)
    learnt = {"D009203": CHEST, "D012640": SHAKING, "D003490": "bluish"}
    expected = before | {id_: (*before[id_], name) for id_, name in learnt.items()}
    assert aliases(linker.kb) == aliases(KnowledgeBase(linker.kb.path)) == expected
    found = linker.find(list(doc.ents), 12)[0]
    assert dict(zip(found.ids, found.parts[EXACT].tolist(), strict=True))["D009203"] == 1
    changed = {id_ for id_, now in vectors_of(linker.kb).items() if not np.allclose(vectors[id_], now)}
    assert changed == {"D003490"}, "of the others the definition is read in the place of names"
    assert linker.learn_names(make_docs(pipeline, SENTENCES)) == (0, 0)


def test_labels_that_are_discarded_teach_nothing(pipeline):
    linker, docs = pipeline.get_pipe("pel_linker"), make_docs(pipeline, SENTENCES)
    (span,) = docs[0].ents
    docs[0].spans[GOLD_GROUP] = [Span(docs[0], span.start, span.end, label="DISCARDED", kb_id=span.kb_id_)]
    linker.labels_discard = ["DISCARDED"]
    assert linker.learn_names(docs) == (2, 2)


def test_a_corpus_of_other_ids_is_refused(pipeline):
    linker = pipeline.get_pipe("pel_linker")
    with pytest.raises(PelError, match=r"no annotated mention has an id of the KB .*: check that corpus and KB"):
        linker.learn_names(make_docs(pipeline, SENTENCES[-1:]))


def test_pieces_of_tokens_teach_nothing(pipeline):
    linker = pipeline.get_pipe("pel_linker")
    texts = {"K)-ATPase": "D003490", "fit[ting": "D012640", "a (mild) fit": "D012640"}
    docs = make_docs(pipeline, [(f"He had {text} .", {text: id_}) for text, id_ in texts.items()])
    assert linker.learn_names(docs) == (1, 1) and linker.kb["D012640"].aliases[-1] == "a (mild) fit"


def test_mentions_of_several_entities_teach_nothing_and_are_no_error(pipeline):
    linker = pipeline.get_pipe("pel_linker")
    assert linker.learn_names(make_docs(pipeline, [("A spell .", {"spell": "D012640|D009203"})])) == (0, 0)


def test_what_another_process_changes_meanwhile_is_kept(pipeline, tmp_path, monkeypatch):
    linker, encoded = pipeline.get_pipe("pel_linker"), indexing.encoded
    corrected = replace(linker.kb["D009203"], definition="CORRECTED")

    def encoded_slowly(model, kb, fingerprints, entities):
        other = spacy.load(tmp_path / "linker").get_pipe("pel_linker")
        other.kb.update(*encoded(other.model, other.kb, other.fingerprints, [corrected]))
        return encoded(model, kb, fingerprints, entities)

    monkeypatch.setattr(indexing, "encoded", encoded_slowly)
    with pytest.raises(PelError, match="another process has changed D009203 meanwhile; try again"):
        linker.learn_names(make_docs(pipeline, SENTENCES[:1]))
    assert linker.kb["D009203"] == KnowledgeBase(linker.kb.path)["D009203"] == corrected


def test_the_command(pipeline, tmp_path):
    def run(corpus, *options):
        arguments = [tmp_path / "linker", corpus, *options]
        result = CliRunner().invoke(pel_app, ["kb", "learn-names", *map(str, arguments)])
        return result.exit_code, " ".join(result.output.split())

    write_docs(tmp_path / "train.spacy", make_docs(pipeline, SENTENCES[:1]))
    line = {"text": f"{SHAKING} again", "ents": [{"start": 0, "end": len(SHAKING), "kb_id": "D012640"}]}
    (tmp_path / "corrected.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    write_docs(tmp_path / "other.spacy", make_docs(pipeline, SENTENCES[-1:]))
    out, before = tmp_path / "out", kb_of(tmp_path / "linker")["D009203"]
    assert "1 entity got 1 name from" in run(tmp_path / "train.spacy", "--output", out)[1]
    assert kb_of(out)["D009203"].aliases[-1] == CHEST and kb_of(tmp_path / "linker")["D009203"] == before
    assert "add --force to replace it" in run(tmp_path / "train.spacy", "-o", out)[1]
    assert run(tmp_path / "other.spacy", "-o", out, "-F")[0] == 1 and kb_of(out)["D009203"] != before
    (doc,) = make_docs(pipeline, SENTENCES[:1])
    assert spacy.load(out)(doc).ents[0]._.kb_ents
    for corpus, said in (
        ("train.spacy", "1 entity got 1 name from"),
        ("train.spacy", "0 entities got 0 names from"),
        ("corrected.jsonl", "1 entity got 1 name from"),
    ):
        exit_code, printed = run(tmp_path / corpus)
        assert exit_code == 0 and said in printed
    kb = kb_of(tmp_path / "linker")
    assert kb["D009203"].aliases[-1] == CHEST and kb["D012640"].aliases[-1] == SHAKING
    exit_code, printed = run(tmp_path / "other.spacy")
    assert exit_code == 1 and "other.spacy: no annotated mention has an id" in printed
